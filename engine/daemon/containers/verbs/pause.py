"""Pause and unpause a container by freezing and thawing its processes (the freezer cgroup).

A container that has a kernel of its own is paused by its runtime: gVisor's sandbox does not bear the freezer.
"""

import contextlib
import logging

from engine.daemon.containers import states
from engine.daemon.containers.health import probing
from engine.daemon.containers.record import Container
from engine.daemon.containers.saving import save_and_tell
from engine.daemon.containers.security import cgroupparent
from engine.daemon.parts import ContainerParts
from engine.errors import Conflict, EngineError, SystemFailure
from engine.late import TYPE_CHECKING, late
from engine.sandbox.cgroups.hierarchy import Gone

if TYPE_CHECKING:  # loaded for containers of other runtimes
    from engine.daemon.containers.security import apart, runtimecommands
else:
    apart = late("engine.daemon.containers.security.apart")
    runtimecommands = late("engine.daemon.containers.security.runtimecommands")

log = logging.getLogger(__name__)


def pause(engine: ContainerParts, container: Container, *, passing: bool = False) -> int:
    """Freeze the container; return the run that is frozen.

    Raises Conflict in docker's words when its state does not allow it, SystemFailure when it cannot be frozen.
    passing: for some work of the engine itself, whose end a later daemon would not know: it thaws the container
        (`restore`)
    """
    with container.operation:
        with container.changed:
            run = container.exits
            status = container.state.status
            if status == "restarting":
                raise Conflict(f"Container {container.id} is restarting, wait until the container is running")
            if status == "paused":
                raise Conflict(f"container {container.id} is already paused")
            # A process that SIGKILL is to end must not be kept from dying: version 1 freezes dying processes too.
            if status != "running" or container.doomed:
                raise Conflict(f"container {container.id} is not running")
        try:
            _freeze(engine, container)
        except SystemFailure as error:
            with container.changed:
                if container.exits != run or isinstance(error, Gone):
                    raise Conflict(f"container {container.id} is not running") from error
            raise SystemFailure(f"cannot pause container {container.id}: {error}") from error
        with container.changed:
            if container.exits != run:  # the container ended while it was being frozen
                raise Conflict(f"container {container.id} is not running")
            states.move(container, "paused")
            container.passing = passing
            probing.halt(container)
            save_and_tell(engine, container, "pause")
    return run


def unpause(engine: ContainerParts, container: Container) -> None:
    """Thaw the container. Raises EngineError, which is docker's choice, when it is not paused."""
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
    """Thaw the run that `pause` has frozen; do nothing if that run has ended or a client has thawed it.

    Never raises, since the work that the pause was for is done: a run that stays frozen is logged.
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
                log.error("container %s could not be resumed: %s", container.id, error)


def go_on(engine: ContainerParts, container: Container, run: int, *, dying: bool) -> None:
    """Thaw a paused container, in that run; the caller holds `operation`.

    dying: SIGKILL was sent while it was frozen, so it is not recorded or announced as running again
    """
    _thaw(engine, container, dying=dying)
    with container.changed:
        if dying or container.exits != run or container.state.status != "paused":
            return
        states.move(container, "running")
        probing.resume(engine, container)
        save_and_tell(engine, container, "unpause")


def restore(engine: ContainerParts, container: Container) -> None:
    """At a daemon's start: freeze or thaw as the record says, should the last daemon have died between the two."""
    if container.state.status == "paused":
        _freeze(engine, container)
    else:
        with contextlib.suppress(SystemFailure):  # a host without a freezer has frozen nothing
            _thaw(engine, container)


def _freeze(engine: ContainerParts, container: Container) -> None:
    if runtime := apart.of(engine, container):
        runtimecommands.pause(runtime)
    else:
        engine.cgroups.freeze(container.id, cgroupparent.of(container))


def _thaw(engine: ContainerParts, container: Container, *, dying: bool = False) -> None:
    if runtime := apart.of(engine, container):
        if not dying:  # the sandbox that SIGKILL has ended answers no more
            runtimecommands.resume(runtime)
    else:
        engine.cgroups.thaw(container.id, cgroupparent.of(container))
