"""Pause a container and let it go on: its processes are frozen where they are (the freezer cgroup)."""

import contextlib
import logging

from engine.daemon.containers import states
from engine.daemon.containers.announce import announce
from engine.daemon.containers.health import probing
from engine.daemon.containers.record import Container
from engine.daemon.containers.saving import save
from engine.daemon.containers.security import walls
from engine.daemon.parts import ContainerParts
from engine.errors import Conflict, EngineError, SystemFailure

log = logging.getLogger(__name__)


def pause(engine: ContainerParts, container: Container, *, passing: bool = False) -> int:
    """Freeze it; the run that is frozen.

    passing: for a piece of work of the engine's own, which no later daemon would end: for that one it runs (`restore`)
    Raises Conflict in docker's words when it is in no state for it, SystemFailure when it cannot be.
    """
    with container.operation:
        with container.changed:
            run = container.exits
            status = container.state.status
            if status == "restarting":
                raise Conflict(f"Container {container.id} is restarting, wait until the container is running")
            if status == "paused":
                raise Conflict(f"container {container.id} is already paused")
            # Whoever is to die of SIGKILL must not be kept from it: version 1 freezes the dying too.
            if status != "running" or container.doomed:
                raise Conflict(f"container {container.id} is not running")
        try:
            engine.cgroups.freeze(container.id, walls.cgroup_parent(container))
        except SystemFailure as error:
            with container.changed:
                if container.exits != run:
                    raise Conflict(f"container {container.id} is not running") from error
            raise SystemFailure(f"cannot pause container {container.id}: {error}") from error
        with container.changed:
            if container.exits != run:  # it ended while it was to be frozen
                raise Conflict(f"container {container.id} is not running")
            states.move(container, "paused")
            container.passing = passing
            probing.halt(container)
            save(engine, container)
            announce(engine, container, "pause")
    return run


def unpause(engine: ContainerParts, container: Container) -> None:
    """Let it go on. Raises EngineError, which is docker's choice, when it is not paused."""
    with container.operation:
        with container.changed:
            run = container.exits
            if container.state.status != "paused":
                raise EngineError(f"Container {container.id} is not paused")
        try:
            go_on(engine, container, run, dying=False)
        except SystemFailure as error:
            raise SystemFailure(f"cannot resume container {container.id}: {error}") from error


def end_pause(engine: ContainerParts, container: Container, run: int) -> None:
    """Let the run go on that `pause` has frozen; one that has ended, or that somebody else let go on, is left alone.

    Never raises: what the pause was for is done. That the run stays frozen is logged.
    """
    with container.operation:
        with container.changed:
            if container.exits != run or container.state.status != "paused":
                return
        try:
            go_on(engine, container, run, dying=False)
        except SystemFailure as error:
            with container.changed:
                over = container.exits != run
            if not over:
                log.error("container %s stays paused: %s", container.id, error)


def go_on(engine: ContainerParts, container: Container, run: int, *, dying: bool) -> None:
    """Thaw a paused container, in that run; the caller holds `operation`.

    dying: of a SIGKILL that it was frozen against, so that it is not said to run again
    """
    engine.cgroups.thaw(container.id, walls.cgroup_parent(container))
    with container.changed:
        if dying or container.exits != run or container.state.status != "paused":
            return
        states.move(container, "running")
        probing.resume(engine, container)
        save(engine, container)
        announce(engine, container, "unpause")


def restore(engine: ContainerParts, container: Container) -> None:
    """At a daemon's start: freeze or thaw as the record says, should the last daemon have died between the two."""
    if container.state.status == "paused":
        engine.cgroups.freeze(container.id, walls.cgroup_parent(container))
    else:
        with contextlib.suppress(SystemFailure):  # a host without a freezer has frozen nothing
            engine.cgroups.thaw(container.id, walls.cgroup_parent(container))
