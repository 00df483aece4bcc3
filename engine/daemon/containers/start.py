"""Start a container, and record its end when it comes.

`start` runs in the API's threads and holds `container.operation` until the container runs or has failed; `ended` runs
in the thread that watches the monitors.
"""

import contextlib
import logging
import os
import time

from engine.daemon.containers import attach, files, paths, remove, sandbox, states, unbuilt
from engine.daemon.containers.record import Container
from engine.daemon.runtime import processes
from engine.daemon.runtime.background import later
from engine.daemon.runtime.links import MonitorLost, StartFailure
from engine.daemon.store import containers as table
from engine.errors import Conflict, EngineError, Invalid, NotFound, NotModified, SystemFailure
from engine.sandbox import stage
from engine.wire import exitfile, packed
from engine.wire.messages import Exited, Start, Started

log = logging.getLogger(__name__)

_COMMAND_EXITS = frozenset({126, 127})
_COMMAND_TEXT = "failed to create task for container: unable to start container process: error during container init: "
_SETUP_EXIT = 128  # what docker records when the command was never tried
LOST_EXIT = 255
_KILLED_SECONDS = 10


def start(engine: object, container: Container) -> None:
    """Start the container and return once its command runs.

    Raises NotModified when it runs already, Invalid when its command cannot be run (exit code 126 or 127 is recorded),
    SystemFailure when its sandbox cannot be made.
    """
    with container.operation:
        state = container.settled()
        if state.running:
            raise NotModified("")
        if container.removed or state.status == "removing":
            raise NotFound(f"No such container: {container.id}")
        if state.status == "dead":
            raise Conflict("container is marked for removal and cannot be started")
        try:
            started = _launch(engine, container)
        except EngineError as error:
            _record_failure(engine, container, error)
            raise
        for warning in started.warnings:
            log.warning("container %s: %s", container.id, warning)
        record_start(engine, container, started)
        engine.links.keep(container.id)


def _launch(engine: object, container: Container) -> Started:
    unbuilt.check_network(engine, container)
    settings = engine.settings
    where = paths.of(settings.data_root, settings.exec_root, container.id)
    _make_directories(engine, container, where)
    limits, _ = engine.cgroups.fitting(sandbox.limits_of(container))
    wanted = sandbox.sandbox_of(engine, container, where)
    attach.let_go(container)
    request = Start(
        sandbox=packed.pack(wanted),
        own_pids="pid" in wanted.namespaces,
        tty=wanted.tty,
        exec_dir=where.exec_dir,
        log=sandbox.log_of(container, where),
        stdin=container.config["OpenStdin"],
        stdin_once=container.config["StdinOnce"],
        clients=tuple(client for client, _ in container.waiting),
    )
    connections = [connection for _, connection in container.waiting]

    def ask(ordinary: bool) -> Started:
        def meanwhile() -> None:
            engine.cgroups.create(container.id, limits)

        return engine.links.start(container.id, request, connections, meanwhile, ordinary=ordinary)

    try:
        try:
            return ask(ordinary=stage.suits(wanted))
        except MonitorLost as error:
            # Perhaps somebody killed the spare that took the request: once more, from the beginning.
            log.warning("container %s: %s; it is started anew", container.id, error)
            clear_run(engine, container, where)
            _make_directories(engine, container, where)
            return ask(ordinary=False)
    except StartFailure as error:
        failed = error.failed
        if failed.exit_code in _COMMAND_EXITS:
            raise Invalid(_COMMAND_TEXT + failed.text) from error
        raise
    finally:
        container.waiting.clear()
        for connection in connections:
            connection.close()


def _make_directories(engine: object, container: Container, where: paths.Paths) -> None:
    """The directories a run needs; a run that a dead daemon left half-made is cleared away. Raises SystemFailure."""
    try:
        try:
            os.mkdir(where.exec_dir, 0o700)
        except FileExistsError:
            clear_run(engine, container, where)
            os.mkdir(where.exec_dir, 0o700)
        files.mend(where, container)
        if not os.path.isdir(where.upper):
            sandbox.make_root(engine, container, where)
    except OSError as error:
        raise SystemFailure(f"the directories of the container cannot be made: {error}") from error


def record_start(engine: object, container: Container, started: Started) -> None:
    """Note that the container runs."""
    with container.changed:
        state = container.state
        state.pid, state.pid_start = started.pid, started.pid_start
        state.started_ns, state.finished_ns = started.started_ns, 0
        state.exit_code, state.error, state.oom_killed = 0, "", False
        states.move(container, "running")
        _save_state(engine, container)


def _record_failure(engine: object, container: Container, error: EngineError) -> None:
    exit_code = _SETUP_EXIT
    if isinstance(error, Invalid) and isinstance(error.__cause__, StartFailure):
        exit_code = error.__cause__.failed.exit_code
    clear_run(engine, container, paths.of(engine.settings.data_root, engine.settings.exec_root, container.id))
    with container.changed:
        container.state.exit_code = exit_code
        container.state.error = str(error)
        _save_state(engine, container)
        container.changed.notify_all()
    if container.host_config["AutoRemove"]:
        later(remove.remove, engine, container, False, True)


def _save_state(engine: object, container: Container) -> bool:
    """Keep the state; False on a full disk, where the exec directory alone tells the next daemon what has happened."""
    try:
        with engine.database.transaction(durable=False) as connection:
            table.save_state(connection, container)
    except SystemFailure as error:
        log.error("container %s: its state is not kept: %s", container.id, error)
        return False
    return True


def clear_run(engine: object, container: Container, where: paths.Paths) -> None:
    """Take away what only a running container has: its cgroups and its exec directory."""
    _clear_cgroups(engine, container)
    with contextlib.suppress(FileNotFoundError):  # the start failed before it was made
        for name in os.listdir(where.exec_dir):
            os.unlink(os.path.join(where.exec_dir, name))
        os.rmdir(where.exec_dir)


def _clear_cgroups(engine: object, container: Container) -> None:
    try:
        engine.cgroups.remove(container.id)
    except (OSError, SystemFailure) as error:
        log.warning("container %s: its cgroups stay: %s", container.id, error)


def ended(engine: object, container: Container, exited: Exited | None) -> None:
    """Record that the container has ended; None: its monitor died and left no word, so neither does it run unseen."""
    where = paths.of(engine.settings.data_root, engine.settings.exec_root, container.id)
    if exited is None:
        exited = engine.links.left_behind(where.exec_dir) or _end_unseen(container, where)
    oom_killed = engine.cgroups.oom_killed(container.id)
    with container.changed:
        container.settling = True
        state = container.state
        state.exit_code, state.finished_ns = exited.exit_code, exited.finished_ns
        state.oom_killed = oom_killed
        state.pid = state.pid_start = 0
        container.exits += 1
        states.move(container, "exited")
        for follower in container.followers:
            os.eventfd_write(follower, 1)
    # The exit file says it too, should this daemon die before the record does. Those who wait for the end need not wait
    # for what follows; a start or a removal does.
    try:
        if _save_state(engine, container):
            clear_run(engine, container, where)
        else:
            _clear_cgroups(engine, container)
    finally:
        _settled(container)
    if container.host_config["AutoRemove"]:
        later(remove.remove, engine, container, False, True)


def _settled(container: Container) -> None:
    with container.changed:
        container.settling = False
        container.changed.notify_all()


def _end_unseen(container: Container, where: paths.Paths) -> Exited:
    """Kill what runs without a monitor (its output goes nowhere); its own exit code cannot be known."""
    state = container.snapshot()
    crash = exitfile.read(where.exec_dir, exitfile.CRASH) or b"it has left no word"
    log.error("container %s: its monitor is gone; the container is ended. %s", container.id, crash.decode())
    processes.kill_and_wait(state.pid, state.pid_start, _KILLED_SECONDS)
    return Exited(LOST_EXIT, time.time_ns(), state.started_ns)
