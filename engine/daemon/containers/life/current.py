"""Wait until an end that a monitor has told is recorded, before a client asks anything of the container.

Runs in the API's threads. A monitor tells the end before it closes the connections of attached clients, and one of the
threads that watch the monitors records it a moment later. A client that has read its stream to the end may ask in that
moment: it must not be told that the container runs.
"""

import contextlib
import time

from engine.daemon.containers.record import Container
from engine.daemon.parts import ContainerParts
from engine.errors import NotFound

_SECONDS = 5.0
"""How long a request waits at most. An end that takes longer is that of a process which does not die."""


def find(engine: ContainerParts, reference: str) -> Container:
    """The container as `Roster.find` finds it, with the end that its monitor has told. Raises what that raises."""
    container = engine.containers.find(reference)
    _bring(engine, container, _SECONDS)
    return container


def bring_all(engine: ContainerParts) -> None:
    """The same for all containers: wait for all ends that are told now, and `_SECONDS` for all together."""
    latest = time.monotonic() + _SECONDS
    for name in engine.monitors.ending():
        with contextlib.suppress(NotFound):  # an exec's, or the container has been removed
            _bring(engine, engine.containers.find(name), max(latest - time.monotonic(), 0.0))


def _bring(engine: ContainerParts, container: Container, seconds: float) -> None:
    with container.changed:
        run, alive = container.exits, container.state.alive
    # A container that waits for its next run (`restarting`) has no monitor, and its next end may never come.
    if alive and engine.monitors.ends(container.id):
        with container.changed:
            container.changed.wait_for(lambda: container.exits != run, seconds)
