"""Start a container, for a client or for its restart policy (`life.restarts`), and record that it runs or has failed.

Runs in the API's threads, and in those that restart. Both hold `container.operation` until the container runs or the
start has failed. `life.end` handles the end of the run.
"""

import errno
import logging
import os

from engine.daemon.containers import files, paths, saving, states
from engine.daemon.containers.announce import announce
from engine.daemon.containers.health import probing
from engine.daemon.containers.mounts import borrowing, points
from engine.daemon.containers.output import attach
from engine.daemon.containers.record import Container, State
from engine.daemon.containers.saving import save
from engine.daemon.containers.security import cgroupparent, copied, joins, resources, runids, specify, tracers
from engine.daemon.containers.verbs import remove, wait
from engine.daemon.measured import timed
from engine.daemon.parts import ContainerParts
from engine.daemon.runtime import births, signalling, worker
from engine.daemon.runtime.background import later
from engine.daemon.runtime.handshake import BY_RUNC, NOT_CREATED, MonitorLost, StartFailure
from engine.daemon.tar.trees import remove_path
from engine.errors import Conflict, EngineError, Invalid, NotFound, NotModified, SystemFailure
from engine.kernel import reasons
from engine.kernel.idmaps import Ids
from engine.late import TYPE_CHECKING, late
from engine.sandbox import stage
from engine.settings.runtimes import OWN
from engine.wire.schema import Failed, Start, Started

if TYPE_CHECKING:  # loaded by the first start
    from engine.daemon.containers.endpoints import ending, starting
else:
    ending = late("engine.daemon.containers.endpoints.ending")
    starting = late("engine.daemon.containers.endpoints.starting")

if TYPE_CHECKING:  # loaded for the few containers that have links
    from engine.daemon.containers.endpoints import linkvariables
else:
    linkvariables = late("engine.daemon.containers.endpoints.linkvariables")

log = logging.getLogger(__name__)

_COMMAND_EXITS = frozenset({126, 127})
_IN_INIT = "unable to start container process: error during container init: "
_BEFORE_INIT = "wrong rlimit value: "  # what runc refuses before there is a process
# Steps that dockerd takes itself, before it asks containerd; so it does where a text begins like this.
_DOCKERDS_STEPS = frozenset({"user", "directory", "root"})
_NO_SUBPATH = "cannot access path "
_DOCKERDS_TEXTS = (
    *("failed to create task for container: ", "error while mounting volume "),
    *(_NO_SUBPATH, "error while resolving symlinks in combined path "),
)
_LAST_WORDS = 10
_KILLED_SECONDS = 10
_SETUP_EXIT = 128  # docker records this when the command was never executed


def start(engine: ContainerParts, container: Container) -> None:
    """Start the container and return once its command runs.

    Raises NotModified when it runs already (or its policy is about to run it), Conflict when it is paused or could not
    be removed (`dead`), NotFound when it was removed, Invalid when its command cannot be run (exit code 126 or 127 is
    recorded), SystemFailure when its sandbox cannot be made.
    """
    copied.prepare(engine, container)
    with container.operation:
        state = container.settled()
        if state.status == "paused":
            raise Conflict("cannot start a paused container, try unpause instead")
        if state.running:
            raise NotModified("")
        if container.removed or state.status == "removing":
            raise NotFound(f"No such container: {container.id}")
        if state.status == "dead":
            raise Conflict("container is marked for removal and cannot be started")
        resources.check_together(container.host_config)
        try:
            launch(engine, container, by_hand=True)
        except EngineError as error:
            _record_failure(engine, container, error)
            raise
    wait.entrust(engine, container)


@timed("container_actions", "start")
def launch(engine: ContainerParts, container: Container, *, by_hand: bool) -> None:
    """Make the next run; if that fails, nothing of it stays. The caller holds `operation`."""
    with container.changed:
        if container.unsaved:  # the exit file of the run before would go with this one
            saving.write(engine, container)
    try:
        started = _launch(engine, container)
        for warning in started.warnings:
            log.warning("container %s: %s", container.id, warning)
        before = container.snapshot()
        try:
            record_start(engine, container, started, by_hand=by_hand)
            engine.monitors.keep(container.id)
        except BaseException:
            _take_back(engine, container, started, before)
            raise
    except BaseException:  # whatever it was: no other thread would take the run's leavings away
        clear_run(engine, container, paths.of(engine.settings.data_root, engine.settings.exec_root, container.id))
        raise


def _take_back(engine: ContainerParts, container: Container, started: Started, before: State) -> None:
    """End a run that could not be recorded or watched, since the daemon would not hear of its end."""
    log.error("container %s: its start could not be recorded or watched, so it is killed", container.id)
    engine.monitors.drop(container.id)
    if not signalling.kill_and_wait(started.pid, started.pid_start, _KILLED_SECONDS):
        log.error("container %s: its process %d does not end after SIGKILL", container.id, started.pid)
    if engine.networks.endpoints(container_id=container.id):
        ending.release(engine, container)
    with container.changed:
        probing.drop(container)
        container.state = before
        save(engine, container)


def _launch(engine: ContainerParts, container: Container) -> Started:
    if engine.cgroups.hasten is not None:
        worker.begin("cgroups", engine.cgroups.hasten)
    joins.take_name(engine, container)
    settings = engine.settings
    where = paths.of(settings.data_root, settings.exec_root, container.id)
    _make_directories(engine, container, where)
    container.linked = linkvariables.variables(engine, container) if container.host_config["Links"] else ()
    wanted = specify.sandbox_of(engine, container, where)
    cgroup = specify.NewCgroup(engine, container)
    attach.let_go(container)
    request = Start(
        sandbox=b"",
        own_pids="pid" in wanted.namespaces and not wanted.runtime,
        pids=() if wanted.runtime else next((each[1:] for each in wanted.joined if each[0] == "pid"), ()),
        tty=wanted.tty,
        exec_dir=where.exec_dir,
        log=specify.log_of(engine, container, where),
        stdin=container.config["OpenStdin"],
        stdin_once=container.config["StdinOnce"],
        clients=tuple(client for client, _ in container.waiting),
    )
    connections = [connection for _, connection in container.waiting]

    def ask(ordinary: bool) -> Started:
        network = starting.Start(engine, container)

        def meanwhile() -> None:
            if not cgroup.around_init:
                cgroup.make()
            network.prepare()

        def connect(pid: int, pid_start: int) -> None:
            if cgroup.around_init:
                cgroup.begin(pid)
            network.plug(pid, pid_start)
            if cgroup.around_init:
                cgroup.make(pid)

        try:
            if wanted.uids:
                runids.keep(where.exec_dir, Ids(wanted.uids, wanted.gids))
            with tracers.stilled(engine, container):
                with births.start(engine.settings.muxer, wanted, request, ordinary=ordinary) as (asked, opened):
                    return engine.monitors.start(
                        container.id, asked, connections, meanwhile, connect, ordinary=ordinary, opened=opened
                    )
        except BaseException:
            network.undo()
            raise

    try:
        ordinary = stage.suits(wanted) and not wanted.runtime and request.log.forward is None
        try:
            return ask(ordinary=ordinary and not engine.cgroups.grown)
        except MonitorLost as error:
            # A program may have killed the spare that took the request, so the start is made once more, and not by a
            # spare.
            log.warning("container %s: %s; it is started anew", container.id, error)
            clear_run(engine, container, where, lent=False)
            _make_directories(engine, container, where)
            return ask(ordinary=False)
    except StartFailure as error:
        failed = error.failed
        text = _in_dockers_words(failed, bool(wanted.runtime))
        # EXDEV: a path of the request leads out of what it is a part of
        if failed.exit_code in _COMMAND_EXITS or failed.errno == errno.EXDEV:
            raise Invalid(text) from error
        raise (NotFound if text.startswith(_NO_SUBPATH) else SystemFailure)(text) from error
    finally:
        container.waiting.clear()
        for connection in connections:
            connection.close()


def _in_dockers_words(failed: Failed, by_other_runtime: bool) -> str:
    text, of_command = failed.text, failed.exit_code in _COMMAND_EXITS
    if not of_command and (failed.step in _DOCKERDS_STEPS or text.startswith(_DOCKERDS_TEXTS)):
        return text
    if by_other_runtime:
        return f"{NOT_CREATED}{text}"
    return f"{NOT_CREATED}{BY_RUNC}{'' if text.startswith(_BEFORE_INIT) else _IN_INIT}{text}"


def _make_directories(engine: ContainerParts, container: Container, where: paths.Paths) -> None:
    """Make the directories of a run, and clear away a run that a dead daemon left half-made. Raises SystemFailure."""
    try:
        try:
            os.mkdir(where.exec_dir, 0o700)
        except FileExistsError:
            cgroupparent.recall(container, where.exec_dir)
            clear_run(engine, container, where)
            os.mkdir(where.exec_dir, 0o700)
        cgroupparent.settle(engine, container, where.exec_dir)
        files.mend(where, container)
        if not os.path.isdir(where.upper):
            specify.make_root(engine, container, where)
    except OSError as error:
        raise SystemFailure(f"the directories of the container cannot be made: {reasons.whole(error)}") from error


def record_start(engine: ContainerParts, container: Container, started: Started, *, by_hand: bool = False) -> None:
    """Record that the container runs. by_hand: a client started it, which resets the restart count and the stop."""
    with container.changed:
        state = container.state
        first = not state.started_ns or (by_hand and state.stopped_by_hand)
        state.pid, state.pid_start = started.pid, started.pid_start
        state.started_ns = started.started_ns
        state.exit_code, state.error, state.oom_killed = 0, "", False
        if by_hand:
            state.restart_count, state.stopped_by_hand = 0, False
            container.held, container.delay = False, 0.0
        container.doomed = False
        states.move(container, "running")
        probing.begin(engine, container)
        # With a policy the container is to run after a loss of power too. Only the first run makes that durable: at the
        # runs that follow it is nothing new.
        save(engine, container, durable=first and container.host_config["RestartPolicy"]["Name"] != "no")
        points.tell_mounted(engine, container)
        announce(engine, container, "start")


def _record_failure(engine: ContainerParts, container: Container, error: EngineError) -> None:
    exit_code = container.state.exit_code or _SETUP_EXIT  # as in docker, the exit code of an earlier run stays
    if isinstance(error.__cause__, StartFailure) and error.__cause__.failed.exit_code in _COMMAND_EXITS:
        exit_code = error.__cause__.failed.exit_code
    with container.changed:
        container.state.exit_code = exit_code
        container.state.error = str(error)
        save(engine, container)
    if container.host_config["AutoRemove"]:
        later(remove.remove, engine, container, False, True, about=container.id)


def clear_run(engine: ContainerParts, container: Container, where: paths.Paths, lent: bool = True) -> None:
    """Remove what only a running container has: its cgroups, what plugins have lent to it, and its run's directories.

    lent: False to keep what plugins have lent
    """
    clear_cgroups(engine, container)
    if lent:
        borrowing.end(engine, container.id)
    if container.host_config["Runtime"] not in OWN or container.host_config["DeviceRequests"]:
        _clear_directory(paths.bundle(engine.settings.exec_root, container.id))
    _clear_directory(where.exec_dir)


def _clear_directory(path: str) -> None:
    """Remove a directory of a run, unless the start failed before it was made.

    The monitor of a start that has failed, or an exec that finds no container any more, may be about to write or remove
    its last files there, so the removal is tried 10 times. Raises OSError.
    """
    for left in reversed(range(_LAST_WORDS)):
        try:
            remove_path(path)
        except OSError as error:
            if not os.path.lexists(path):
                return
            if error.errno not in (errno.ENOTEMPTY, errno.ENOENT) or not left:
                raise
        else:
            return


def clear_cgroups(engine: ContainerParts, container: Container) -> None:
    """Remove the container's cgroups, and kill what still runs in them."""
    engine.oom.forget(container)
    try:
        engine.cgroups.remove(container.id, cgroupparent.of(container))
    except (OSError, SystemFailure) as error:
        log.warning("container %s: its cgroups could not be removed: %s", container.id, error)
