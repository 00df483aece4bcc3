"""Restart a container on a client's request: stop it if it runs, and start it."""

import contextlib

from engine.daemon.containers.announce import announce
from engine.daemon.containers.record import Container
from engine.daemon.containers.verbs import start, stop
from engine.daemon.parts import ContainerParts
from engine.errors import NotModified


def restart(engine: ContainerParts, container: Container, stop_signal: str | None, timeout: int | None) -> None:
    """Return once the container runs (again). AutoRemove does not remove it at this end.

    Raises what `stop.stop` and `start.start` raise, but for NotModified.
    """
    with container.changed:
        container.being_restarted += 1
    try:
        with contextlib.suppress(NotModified):
            stop.stop(engine, container, stop_signal, timeout)
        with contextlib.suppress(NotModified):  # another caller has started it meanwhile
            start.start(engine, container)
    finally:
        with container.changed:
            container.being_restarted -= 1
    announce(engine, container, "restart")
