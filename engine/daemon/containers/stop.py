"""Stop a container: its stop signal, time to obey, then SIGKILL."""

import signal

from engine.daemon.containers.record import Container
from engine.daemon.containers.signals import parse_signal
from engine.daemon.runtime import processes
from engine.errors import NotModified, SystemFailure

DEFAULT_SECONDS = 10
_KILLED_SECONDS = 10  # what the kernel may take to end a process that was killed


def stop(engine: object, container: Container, stop_signal: str | None, timeout: int | None) -> None:
    """Return once the container has ended. `timeout` in seconds; negative waits without end; None: the container's own.

    Raises NotModified when it does not run, Invalid for an unknown signal.
    """
    state = container.snapshot()
    if not state.running:
        raise NotModified("")
    config = container.config
    number = parse_signal(stop_signal or config.get("StopSignal") or "SIGTERM")
    seconds = next((each for each in (timeout, config.get("StopTimeout")) if each is not None), DEFAULT_SECONDS)
    processes.send_signal(state.pid, state.pid_start, number)
    if await_end(container, state.pid_start, None if seconds < 0 else seconds):
        return
    processes.send_signal(state.pid, state.pid_start, signal.SIGKILL)
    if not await_end(container, state.pid_start, _KILLED_SECONDS):
        raise SystemFailure(f"container {container.id} did not end after SIGKILL")


def await_end(container: Container, pid_start: int, seconds: float | None) -> bool:
    """Wait until that process 1 has ended and its end is recorded; False when the time is up."""
    with container.changed:
        return container.changed.wait_for(
            lambda: container.removed or not container.state.running or container.state.pid_start != pid_start, seconds
        )
