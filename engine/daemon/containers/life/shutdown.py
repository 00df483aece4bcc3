"""Stops all running containers because the host or the daemon ends, with each one's own signal and time, and records
their ends.

Runs in the daemon's main thread, when the API answers no more; and before it answers, where an earlier daemon without
live-restore has died and left containers. Unlike a stop by a client, it does not count for the restart policies: what
ran is started again by the next daemon, if its policy says so.
"""

import logging
import signal
import time
from collections.abc import Callable, Iterable

from engine.daemon.containers.life import restarts
from engine.daemon.containers.record import Container
from engine.daemon.containers.verbs import kill, stop
from engine.daemon.parts import ContainerParts
from engine.errors import Conflict, EngineError

log = logging.getLogger(__name__)

_ROUNDS = 3
_GRACE = 5.0  # dockerd's, for containers that were killed
_FOREVER = 3600.0
"""Seconds that a container with a negative StopTimeout gets: the host's own patience ends long before."""


def stop_all(engine: ContainerParts, needs: Callable[[float], None]) -> None:
    """Return when every container has ended, or was killed and has not ended in time, which is logged.

    needs: called with the seconds that the slowest container may take
    """
    given_up: set[str] = set()
    # A start that had begun before the API was stopped may succeed after the first look.
    for _ in range(_ROUNDS):
        running = [each for each in engine.containers.all() if each.snapshot().running and each.id not in given_up]
        if not running:
            return
        log.info("stopping %d containers", len(running))
        longest = max(_seconds(engine, each) for each in running)
        needs(longest + kill.KILLED_SECONDS)
        given_up.update(_stop(engine, running, _patience(engine, longest)))


def stop_left(engine: ContainerParts) -> list[Container]:
    """Stop the containers that run on after the death of a daemon without live-restore, as dockerd does at its start.

    Returns those that their policies want to run again, oldest first; they are not started here.
    """
    left = [each for each in reversed(engine.containers.all()) if each.snapshot().running]
    if not left:
        return []
    log.warning("live-restore is off: %d containers of an earlier daemon are stopped", len(left))
    stop_all(engine, lambda _: None)
    for container in left:
        with container.changed:
            container.held = False  # nobody has asked for its end: at the next one its policy counts again
    return [each for each in left if restarts.wanted_at_start(each)]


def _patience(engine: ContainerParts, longest: float) -> float:
    """The seconds that dockerd has for all containers: shutdown-timeout, or what the slowest may take and a little
    more.
    """
    most = engine.settings.shutdown_timeout
    return _FOREVER if most < 0 else max(most, longest + _GRACE)


def _stop(engine: ContainerParts, running: Iterable[Container], patience: float) -> list[str]:
    """Stop these containers; returns the ids of those that have not ended in time."""
    began = time.monotonic()
    told = [(began + _seconds(engine, each), each, run) for each in running if (run := _tell(engine, each)) is not None]
    late = []
    for deadline, container, run in sorted(told, key=lambda each: each[0]):
        if not kill.await_end(container, run, max(0.0, deadline - time.monotonic())):
            _send(engine, container, signal.SIGKILL, run)
            late.append((container, run))
    return _await_killed(late, began + patience)


def _await_killed(killed: Iterable[tuple[Container, int]], deadline: float) -> list[str]:
    given_up = []
    for container, run in killed:
        if not kill.await_end(container, run, max(0.0, deadline - time.monotonic())):
            log.error("container %s did not end after SIGKILL", container.id)
            given_up.append(container.id)
    return given_up


def _seconds(engine: ContainerParts, container: Container) -> float:
    seconds = stop.seconds_of(engine, container, None, stop.signal_of(container, None))
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
