"""Adopts the containers of an earlier daemon at start-up: brings their records up to date, finishes what it left, and
follows those that run.

Runs once in the main thread, before the API answers. The database and the exec root can differ by whatever happened
between two steps when the earlier daemon died. This module makes the two agree, and never disturbs a running container.
"""

import logging
import os

from engine.daemon.containers import paths
from engine.daemon.containers.life import restarts
from engine.daemon.containers.record import Container
from engine.daemon.parts import ContainerParts
from engine.daemon.runtime.background import later
from engine.daemon.slumber import Slumber
from engine.daemon.store import networks as network_table
from engine.errors import EngineError
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded where containers run, or have left something
    from engine.daemon.containers.endpoints import adopting, leavings
    from engine.daemon.containers.exec import homes
    from engine.daemon.containers.exec import verbs as execution
    from engine.daemon.containers.health import probing
    from engine.daemon.containers.life import end
    from engine.daemon.containers.mounts import borrowing
    from engine.daemon.containers.security import cgroupparent
    from engine.daemon.containers.verbs import pause, remove, start
    from engine.daemon.runtime import handshake
    from engine.wire import endpoint, schema
else:
    adopting = late("engine.daemon.containers.endpoints.adopting")
    leavings = late("engine.daemon.containers.endpoints.leavings")
    homes = late("engine.daemon.containers.exec.homes")
    execution = late("engine.daemon.containers.exec.verbs")
    probing = late("engine.daemon.containers.health.probing")
    end = late("engine.daemon.containers.life.end")
    borrowing = late("engine.daemon.containers.mounts.borrowing")
    cgroupparent = late("engine.daemon.containers.security.cgroupparent")
    pause = late("engine.daemon.containers.verbs.pause")
    remove = late("engine.daemon.containers.verbs.remove")
    start = late("engine.daemon.containers.verbs.start")
    handshake = late("engine.daemon.runtime.handshake")
    endpoint = late("engine.wire.endpoint")
    schema = late("engine.wire.schema")

log = logging.getLogger(__name__)


def adopt_all(engine: ContainerParts, slept: Slumber | None = None) -> list[Container]:
    """Bring every container's record up to date with the facts, and watch the running containers.

    slept: what the earlier daemon has left, if it has only fallen asleep. Then an end meanwhile counts for the restart
        policy like any other, and no container is started that did not run before.
    Returns the containers that do not run but are to run by their restart policy, oldest first; they are not started
    here.
    """
    wanted = []
    with engine.database.reading() as connection:
        left = network_table.has_endpoints(connection)  # also those of containers that turn out to have ended
    containers = engine.containers.all()
    ran = _with_a_run(engine, containers)
    if ran:
        engine.monitors.call((container.id, _where(engine, container).exec_dir, endpoint.NAME) for container in ran)
    known = {container.id for container in ran}
    for container in reversed(containers):
        if slept is not None:
            container.held, container.delay = container.id in slept.held, slept.delays.get(container.id, 0.0)
        try:
            if container.id not in known:
                again = _follow_up(engine, container, slept is not None)
            else:
                again = _adopt(engine, container, slept is not None)
            if again:
                wanted.append(container)
        except (EngineError, OSError) as error:
            log.error("container %s was not adopted: %s", container.id, error)
    _adopt_networks(engine, left)
    if os.path.isdir(paths.lent(engine.settings.exec_root)):
        borrowing.sweep(engine)
    return wanted


def _with_a_run(engine: ContainerParts, containers: list[Container]) -> list[Container]:
    """The containers of which anything may run, be under way or be left; of a thousand others nothing is looked for."""
    left = set(os.listdir(paths.runs(engine.settings.exec_root)))
    return [each for each in containers if each.id in left or each.state.alive or each.state.status == "removing"]


def _adopt_networks(engine: ContainerParts, left: bool) -> None:
    """Adopt the networks only where a container has or had one: an idle daemon does not load the network code."""
    if left or engine.containers.any(lambda container: container.state.alive):
        adopting.adopt(engine)
    clear_wires(engine)


def clear_wires(engine: ContainerParts) -> None:
    """Remove the network links (wires) of ended containers: those of an earlier daemon, or of this one
    when it stops.
    """
    if os.path.isdir(paths.wires(engine.settings.exec_root)):
        leavings.clear(engine)


def _where(engine: ContainerParts, container: Container) -> paths.Paths:
    return paths.of(engine.settings.data_root, engine.settings.exec_root, container.id)


def _adopt(engine: ContainerParts, container: Container, woken: bool) -> bool:
    """Adopt one container; True when it is to be started. woken: the earlier daemon has only fallen asleep"""
    status = container.state.status
    where = _where(engine, container)
    cgroupparent.recall(container, where.exec_dir)
    if status == "removing":
        remove.finish(engine, container)
        return False
    was_alive = container.state.alive
    try:
        found = engine.monitors.adopt(container.id, where.exec_dir)
    except handshake.SilentMonitor as silent:
        if was_alive and silent.linked:
            engine.monitors.keep(container.id)  # the container runs on, as far as the daemon can tell
        raise
    if isinstance(found, schema.Started):
        _go_on(engine, container, found)
        return False
    if was_alive:
        exited, error = (found, "") if found else _lost(engine, container, where)
        with engine.events.at(exited.finished_ns):
            end.record(engine, container, exited, obey_policy=woken, error=error)
    elif isinstance(found, schema.Exited):
        with engine.events.at(found.started_ns):
            start.record_start(engine, container, schema.Started(0, 0, found.started_ns))
        with engine.events.at(found.finished_ns):
            end.record(engine, container, found, obey_policy=woken)
    elif os.path.isdir(where.exec_dir):
        start.clear_run(engine, container, where)
    return _follow_up(engine, container, woken)


def _lost(engine: ContainerParts, container: Container, where: paths.Paths) -> tuple["schema.Exited", str]:
    """The end of a container whose monitor died while no daemon ran, and the text of `State.Error`.

    Its process may live on, where no cgroup ends it. After a boot nothing is left in /run, and another process may have
    its pid and start time.
    """
    if os.path.isdir(where.exec_dir):
        return end.end_unseen(engine, container, where)
    return end.lost(container), end.why_lost(container, where)


def _go_on(engine: ContainerParts, container: Container, found: "schema.Started") -> None:
    """Record a container that was found running, paused or not, and watch for its end."""
    try:
        if container.state.alive:
            pause.restore(engine, container)
            probing.adopt(engine, container)
        else:
            start.record_start(engine, container, found)
        engine.oom.adopt(engine, container)
        _adopt_execs(engine, container)
    finally:
        engine.monitors.keep(container.id)


def _adopt_execs(engine: ContainerParts, container: Container) -> None:
    if homes.find(_where(engine, container).exec_dir):
        execution.adopt(engine, container)


def _follow_up(engine: ContainerParts, container: Container, woken: bool) -> bool:
    """Decide about a container that does not run, as at its end; but the restart policy forgets the failures it has
    counted, unless the earlier daemon has only fallen asleep.

    Returns True when it is to be started. A container with AutoRemove is removed in the background.
    """
    if container.state.status == "restarting" if woken else restarts.wanted_at_start(container):
        return True
    if container.state.status == "exited" and container.host_config["AutoRemove"]:
        later(remove.remove, engine, container, False, True, about=container.id)
    return False
