"""Stop a container: send its stop signal, wait, and send SIGKILL when the time is up."""

import signal

from engine.daemon.containers.announce import announce
from engine.daemon.containers.record import Container
from engine.daemon.containers.verbs import kill
from engine.daemon.parts import ContainerParts, SettingsPart
from engine.daemon.signals import parse_signal, sendable
from engine.errors import Conflict, NotModified, SystemFailure

_UNSENT_SECONDS = 2  # what dockerd gives a container to which the signal could not be sent


def stop(engine: ContainerParts, container: Container, stop_signal: str | None, timeout: int | None) -> None:
    """Return once the container has ended.

    timeout: in seconds; negative waits for ever; None: the container's own. Raises NotModified when it does not run,
        Invalid for an unknown signal.
    """
    if not container.snapshot().running:
        raise NotModified("")
    number = signal_of(container, stop_signal)
    seconds = seconds_of(engine, container, timeout, number)
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
    """The number of the signal that asks the container to end: the asked one, its own, or SIGTERM. Raises Invalid.

    A number below 0 of its own stands for SIGTERM, as in dockerd.
    """
    if asked:
        return parse_signal(asked)
    number = parse_signal(container.config.get("StopSignal") or "SIGTERM")
    return number if number > 0 else signal.SIGTERM


def seconds_of(engine: SettingsPart, container: Container, asked: int | None, number: int) -> int:
    """How long the container has after that signal: the asked time, its own, or the daemon's setting; negative for
    ever.
    """
    times = (asked, container.config.get("StopTimeout"), engine.settings.default_stop_timeout)
    seconds = next(each for each in times if each is not None)
    return seconds if seconds < 0 or sendable(number) else _UNSENT_SECONDS
