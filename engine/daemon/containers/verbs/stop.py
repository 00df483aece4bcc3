"""Stop a container: send its stop signal, wait, and send SIGKILL when the time is up."""

import signal

from engine.daemon.containers.announce import announce
from engine.daemon.containers.record import Container
from engine.daemon.containers.verbs import kill
from engine.daemon.parts import ContainerParts, SettingsPart
from engine.daemon.signals import parse_signal
from engine.errors import Conflict, NotModified, SystemFailure


def stop(engine: ContainerParts, container: Container, stop_signal: str | None, timeout: int | None) -> None:
    """Return once the container has ended.

    timeout: in seconds; negative waits for ever; None: the container's own. Raises NotModified when it does not run,
        Invalid for an unknown signal.
    """
    if not container.snapshot().running:
        raise NotModified("")
    number, seconds = signal_of(container, stop_signal), seconds_of(engine, container, timeout)
    try:
        run = kill.send(engine, container, number, ends=True)
    except Conflict as error:  # the container has ended by itself meanwhile
        raise NotModified("") from error
    if not kill.await_end(container, run, None if seconds < 0 else seconds):
        kill.send(engine, container, signal.SIGKILL, ends=True, run=run)
        if not kill.await_end(container, run, kill.KILLED_SECONDS):
            raise SystemFailure(f"container {container.id} did not end after SIGKILL")
    announce(engine, container, "stop")


def signal_of(container: Container, asked: str | None) -> int:
    """The number of the signal that asks the container to end: the asked one, its own, or SIGTERM. Raises Invalid."""
    return parse_signal(asked or container.config.get("StopSignal") or "SIGTERM")


def seconds_of(engine: SettingsPart, container: Container, asked: int | None) -> int:
    """How long the container then has: the asked time, its own, or the daemon's setting; negative for ever."""
    default = engine.settings.default_stop_timeout
    return next((each for each in (asked, container.config.get("StopTimeout")) if each is not None), default)
