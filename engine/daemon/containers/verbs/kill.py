"""Send a signal to a container's process 1, record what it means for the restart policy, and wait for an end."""

import signal
import threading

from engine.daemon.containers import states
from engine.daemon.containers.announce import announce
from engine.daemon.containers.record import Container
from engine.daemon.containers.saving import save
from engine.daemon.containers.security import cgroupparent
from engine.daemon.containers.verbs import pause
from engine.daemon.parts import ContainerParts
from engine.daemon.runtime import signalling
from engine.daemon.signals import parse_signal, sendable
from engine.errors import Conflict, SystemFailure
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded for containers of other runtimes
    from engine.daemon.containers.security import apart, runtimecommands
else:
    apart = late("engine.daemon.containers.security.apart")
    runtimecommands = late("engine.daemon.containers.security.runtimecommands")

KILLED_SECONDS = 10
"""What the kernel may take to end a process that was killed, and the monitor to tell."""


def kill(engine: ContainerParts, container: Container, number: int) -> None:
    """Send signal `number`, and for SIGKILL return once the container has ended.

    Raises Conflict when the container does not run, SystemFailure when it does not end after SIGKILL (10 seconds).
    """
    stop_signal = container.config["StopSignal"]
    # dockerd takes every signal as a request to end, unless the container's StopSignal names the one that is.
    ends = not stop_signal or number in (signal.SIGKILL, parse_signal(stop_signal))
    run = send(engine, container, number, ends=ends)
    if number == signal.SIGKILL and not await_end(container, run, KILLED_SECONDS):
        raise SystemFailure("tried to kill container, but did not receive an exit event")


def send(
    engine: ContainerParts,
    container: Container,
    number: int,
    *,
    ends: bool,
    run: int | None = None,
    by_hand: bool = True,
) -> int:
    """Send a signal to the present run, or only to `run`; return the run it was sent to (see `await_end`).

    A container that waits for its next run gets no signal, and with `ends` its wait is given up. A number that no
    signal has is sent to nobody. Raises Conflict when the container does not run.
    ends: the signal is meant to end the container, so no policy starts it again, and a paused one is thawed to receive
        it
    by_hand: False when the host goes down: then the policies of the next boot's daemon count no stop by a client
    """
    with container.operation:
        with container.changed:
            state = container.state
            if run is not None and run != container.exits:
                return run
            if not state.running:
                raise Conflict(f"container {container.id} is not running")
            run = container.exits
            container.held = container.held or ends
            if by_hand:
                _note_hand(engine, container)
            if state.status == "restarting":
                if ends:
                    _give_up(engine, container)
                return run
            if not sendable(number):
                return run
            pid, pid_start, paused = state.pid, state.pid_start, state.status == "paused"
            container.doomed = container.doomed or number == signal.SIGKILL
        # The event `kill` is published first: the end that the signal brings may be published, and that of its
        # networks, before this thread goes on.
        announce(engine, container, "kill", signal=number)
        # The process may have died already, with the end not yet known. That end will come soon, so a failure is no
        # error.
        runtime = () if number == signal.SIGKILL else apart.of(engine, container)
        if not runtime:
            signalling.send_signal(pid, pid_start, number)
        if paused and ends:
            pause.go_on(engine, container, run, dying=number == signal.SIGKILL)
        if runtime:
            _send_by(runtime, container, run, number)
        if number == signal.SIGKILL:
            engine.cgroups.wake(container.id, cgroupparent.of(container))
    return run


def _send_by(runtime: tuple[str, ...], container: Container, run: int, number: int) -> None:
    """Have the runtime send a signal, which waits for a sandbox that is frozen. Raises Conflict, SystemFailure."""
    if container.snapshot().status == "paused":
        raise Conflict(f"container {container.id} is paused, and its kernel of its own takes no signal until then")
    try:
        runtimecommands.kill(runtime, number)
    except SystemFailure:
        with signalling.opened(container.state.pid, container.state.pid_start) as pidfd:
            if pidfd is not None and signalling.alive(pidfd) and container.exits == run:
                raise


def _note_hand(engine: ContainerParts, container: Container) -> None:
    state = container.state
    if not state.stopped_by_hand:
        state.stopped_by_hand = True
        # Only this policy reads the flag at a daemon's start, and perhaps after a loss of power. For the others the
        # next save of the state is soon enough.
        if container.host_config["RestartPolicy"]["Name"] == "unless-stopped":
            save(engine, container, durable=True)


def _give_up(engine: ContainerParts, container: Container) -> None:
    """Give up the wait for the next run; the caller holds `operation` and `changed`."""
    if container.retry is not None:
        container.retry.cancel()
        container.retry = None
    container.exits += 1
    states.move(container, "exited")
    save(engine, container)


def await_end(container: Container, run: int, seconds: float | None) -> bool:
    """Wait until that run has ended and its end is known; False when the time is up."""
    with container.changed:
        # A client may give any number of seconds; one above the longest wait of `threading` means for ever.
        limit = None if seconds is None or seconds > threading.TIMEOUT_MAX else seconds
        return container.changed.wait_for(lambda: container.removed or container.exits != run, limit)
