"""Stops all running containers because the host goes down, with each one's own signal and time, and records their ends.

Runs in the daemon's main thread, when the API answers no more. Unlike a stop by a client, it does not count for the
restart policies: what ran is started again by the daemon of the next boot, if its policy says so.
"""

import logging
import signal
import time
from collections.abc import Callable, Iterable

from engine.daemon.containers.record import Container
from engine.daemon.containers.verbs import kill, stop
from engine.daemon.parts import ContainerParts
from engine.errors import Conflict, EngineError

log = logging.getLogger(__name__)

_ROUNDS = 3
_FOREVER = 3600.0
"""Seconds that a container with a negative StopTimeout gets: the host's own patience ends long before."""


def stop_all(engine: ContainerParts, needs: Callable[[float], None]) -> None:
    """Return when every container has ended, or was killed and has not ended in time, which is logged.

    needs: called with the seconds that the slowest container may take
    """
    # A start that had begun before the API was stopped may succeed after the first look.
    for _ in range(_ROUNDS):
        running = [each for each in engine.containers.all() if each.snapshot().running]
        if not running:
            return
        log.info("the host goes down: stopping %d containers", len(running))
        needs(max(map(_seconds, running)) + kill.KILLED_SECONDS)
        _stop(engine, running)


def _stop(engine: ContainerParts, running: Iterable[Container]) -> None:
    began = time.monotonic()
    told = [(began + _seconds(each), each, run) for each in running if (run := _tell(engine, each)) is not None]
    late = []
    for deadline, container, run in sorted(told, key=lambda each: each[0]):
        if not kill.await_end(container, run, max(0.0, deadline - time.monotonic())):
            _send(engine, container, signal.SIGKILL, run)
            late.append((container, run))
    _await_killed(late)


def _await_killed(killed: Iterable[tuple[Container, int]]) -> None:
    deadline = time.monotonic() + kill.KILLED_SECONDS
    for container, run in killed:
        if not kill.await_end(container, run, max(0.0, deadline - time.monotonic())):
            log.error("container %s did not end after SIGKILL", container.id)


def _seconds(container: Container) -> float:
    seconds = stop.seconds_of(container, None)
    return _FOREVER if seconds < 0 else seconds


def _tell(engine: ContainerParts, container: Container) -> int | None:
    """Send the container its stop signal; the run that was told, or None when it does not run any more."""
    return _send(engine, container, stop.signal_of(container, None), None)


def _send(engine: ContainerParts, container: Container, number: int, run: int | None) -> int | None:
    try:
        return kill.send(engine, container, number, ends=True, run=run, by_hand=False)
    except Conflict:
        return None  # it has ended by itself
    except EngineError as error:  # one container's trouble must not keep the others from being stopped
        log.error("container %s could not be stopped: %s", container.id, error)
        return None
