"""Create, start, resize and inspect execs, and run commands in a container for the engine itself.

Runs in the API's threads; a message of an exec's monitor is handled in the thread that watches the links. The client's
connection goes to the exec's own monitor, so that no byte passes through the daemon. The monitor sends the exit code to
the daemon before it closes the client's connection. So a call that needs the exit code then reads the link first.
"""

import binascii
import errno
import logging
import os
import socket
import time
from collections.abc import Callable

from engine.daemon import busy
from engine.daemon.clock import SECOND
from engine.daemon.containers import paths
from engine.daemon.containers.announce import announce
from engine.daemon.containers.exec import described, homes
from engine.daemon.containers.exec.known import KEPT_SECONDS, Command, Exec
from engine.daemon.containers.output import attach, head
from engine.daemon.containers.record import Container
from engine.daemon.containers.security import lacking, specify, tracers
from engine.daemon.jsontext import Object
from engine.daemon.measured import timed
from engine.daemon.parts import ExecParts
from engine.daemon.runtime import births, signalling, worker
from engine.daemon.runtime.background import later
from engine.daemon.runtime.handshake import MonitorLost, SilentMonitor, StartFailure
from engine.dataclass import dataclass, replace
from engine.errors import Conflict, EngineError, Invalid, NotFound, SystemFailure
from engine.sandbox.spec import LARGEST_SIDE
from engine.wire import endpoint, schema
from engine.wire.channel import Channel
from engine.wire.schema import Client, Detached, Exited, Resize, Started

log = logging.getLogger(__name__)

_FAILURE = "OCI runtime exec failed: exec failed: unable to start container process: "
_NOT_RUNNABLE = 126
_ENDED = frozenset({("namespaces", errno.ESRCH), ("fork", errno.ENOMEM), ("exec", errno.ENOMEM)})
_COMMAND_EXITS = frozenset({126, 127})
_LOST_EXIT = 255
_STARTING_SECONDS = 10.0  # dockerd's patience of a resize with a start
_SETTLING_SECONDS = 10.0
_KILLED_SECONDS = 10
_LARGEST_READ = 64 * 1024
_STDIN, _STDOUT, _STDERR = 1, 2, 4


@dataclass(frozen=True, slots=True)
class AskedExec:
    """How an exec is started. tty: the client wants its stream unframed; size: (rows, columns) or None."""

    detach: bool = False
    tty: bool = False
    size: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Captured:
    """The result of a command that was run for the engine itself; exit_code is None when it was not done in time."""

    exit_code: int | None
    output: bytes
    timed_out: bool


def create(engine: ExecParts, container: Container, asked: Object) -> Exec:
    """Register a command. asked: an ExecCreateRequest.

    Raises Conflict unless the container runs, Invalid, SystemFailure for a privileged one that nothing would confine.
    """
    _check_active(container)
    if asked.get("Privileged"):
        lacking.check_exec(engine.cgroups, container.host_config)
    keys = b""
    if asked.get("DetachKeys"):
        try:
            keys = attach.parse_detach_keys(asked["DetachKeys"])
        except Invalid as error:
            raise SystemFailure(f"Invalid escape keys ({asked['DetachKeys']}) provided") from error
    for name in ("Cmd", "Env", "User", "WorkingDir"):
        if any("\0" in entry for entry in asked.get(name) or ()):
            raise Invalid(f"invalid {name}: a NUL character cannot be passed to a command")
    rows, columns = (min(side, LARGEST_SIDE) for side in asked.get("ConsoleSize") or (0, 0))
    tty = bool(asked.get("Tty"))
    command = Command(
        argv=tuple(asked["Cmd"]),
        env=specify.environment(container, tty, tuple(asked.get("Env") or ())),
        user=asked.get("User") or container.config["User"],
        cwd=asked.get("WorkingDir") or container.config["WorkingDir"] or "/",
        tty=tty,
        privileged=bool(asked.get("Privileged")),
        stdin=bool(asked.get("AttachStdin")),
        stdout=bool(asked.get("AttachStdout")),
        stderr=bool(asked.get("AttachStderr")),
        detach_keys=keys,
        rows=rows,
        columns=columns,
    )
    if asked.get("User"):
        described.check_user(engine, container, command.user)
    with container.changed:  # it may have ended meanwhile, and an end forgets what was not started
        _check_active(container)
        return _register(engine, container, command)


def _register(engine: ExecParts, container: Container, command: Command) -> Exec:
    if engine.cgroups.hasten is not None:
        worker.begin("cgroups", engine.cgroups.hasten)
    made = Exec(os.urandom(32).hex(), container, command)
    engine.execs.add(made)
    announce(engine, container, f"exec_create: {command.text}", execID=made.id)
    return made


def start(engine: ExecParts, one: Exec, asked: AskedExec, give: Callable[[], tuple[socket.socket, bytes]]) -> None:
    """Run the exec. If attached, the connection that `give` returns gets the head with it, and then the exec's streams;
    errors too.

    Raises Conflict unless the container runs; if detached also when the exec has been started before, and Invalid when
    its command cannot be run.
    """
    _check_active(one.container)
    busy.concern(one.container.id)
    if asked.detach:
        _take(engine, one)
        _run(engine, one, asked.size, [])
        return
    command = one.command
    # A client that takes the stream as a terminal's has no second stream to tell errors apart.
    streams = _STDIN * command.stdin + _STDOUT * command.stdout + _STDERR * (command.stderr and not asked.tty)
    keys = command.detach_keys or attach.parse_detach_keys(attach.DEFAULT_DETACH_KEYS)
    client = Client(streams, not asked.tty, keys if command.tty and command.stdin else b"")
    # The head tells the client that the exec has begun. So it is sent by the exec's monitor, once it runs: a daemon
    # that dies before leaves a client that was told nothing. A refusal is sent after the head.
    refused = None
    try:
        _take(engine, one)
    except Conflict as error:
        refused = error
    try:
        connection, answer = give()
    except BaseException as error:
        if refused is None:
            _fail(engine, one, error)
        raise
    with connection:
        try:
            if refused is not None:
                raise refused
            _run(engine, one, asked.size, [(replace(client, head=answer), connection)] if streams else [])
            if not streams:  # the client wants none: its connection is closed now that the command runs
                _tell(connection, answer, b"", framed=False)
        except EngineError as error:
            _tell(connection, answer, f"{error}\r\n".encode("utf-8", "replace"), framed=not asked.tty)


def _tell(connection: socket.socket, answer: bytes, text: bytes, framed: bool) -> None:
    frame = b"\1\0\0\0" + len(text).to_bytes(4, "big") if framed else b""
    try:
        connection.sendall(answer)
        if text:
            head.await_read(connection)
            connection.sendall(frame + text)
    except OSError as error:
        log.debug("the client left before it was told that its exec failed: %s", error)


def _take(engine: ExecParts, one: Exec) -> None:
    """Claim the exec's start for this caller. Raises Conflict when another caller has it."""
    if one.status != "created":
        _settle(engine, one)
    with one.changed:
        if one.status == "ended":
            raise Conflict(f"exec command {one.id} has already run")
        if one.status != "created":
            raise Conflict(f"exec command {one.id} is already running")
        one.move("starting")


def _run(
    engine: ExecParts, one: Exec, size: tuple[int, int] | None, clients: list[tuple[Client, socket.socket]]
) -> None:
    """Launch an exec that this caller has taken, and watch its monitor from then on."""
    announce(engine, one.container, f"exec_start: {one.command.text}", execID=one.id)
    try:
        started = _launch(engine, one, size or (one.command.rows, one.command.columns), clients)
    except BaseException as error:
        _fail(engine, one, error)
        raise
    with one.changed:
        one.pid, one.pid_start = started.pid, started.pid_start
        one.move("running")
        # Who sees that it runs looks at the link for its end, which must be watched by then.
        engine.monitors.keep(one.id, lambda _, message: _heard(engine, one, message))


def _launch(
    engine: ExecParts, one: Exec, size: tuple[int, int], clients: list[tuple[Client, socket.socket]]
) -> Started:
    container, command = one.container, one.command
    state = container.snapshot()
    with signalling.opened(state.pid, state.pid_start) as pidfd:
        if pidfd is None:
            raise Conflict(f"container {container.id} is not running")
        wanted = described.of(engine, container, command, size)
        request = schema.Exec(
            process=b"",
            pid=state.pid,
            tty=command.tty,
            stdin=command.stdin,
            clients=tuple(client for client, _ in clients),
            traced=command.privileged or tracers.traced(engine, container),
        )
        descriptors = [pidfd, *(connection.fileno() for _, connection in clients)]

        def enter(ordinary: bool) -> Started:
            asked = births.enter(engine.settings.muxer, wanted, request, ordinary=ordinary)
            return engine.monitors.enter(one.id, asked, descriptors, give_home, ordinary=ordinary)

        def give_home(link: Channel) -> None:
            if not one.own:
                _give_home(engine, one, link)

        try:
            try:
                return enter(ordinary=True)
            except MonitorLost:
                # A program may have killed the spare that took the request, so it is sent once more, and not to a
                # spare.
                if one.home:
                    homes.clear(one.home, one.id)
                return enter(ordinary=False)
        except SystemFailure as error:
            if not signalling.alive(pidfd) or _found_ended(error):
                raise Conflict(f"container {container.id} is not running") from error
            kind = Invalid if isinstance(error, StartFailure) else SystemFailure
            raise kind(_FAILURE + str(error)) from error


def _give_home(engine: ExecParts, one: Exec, link: Channel) -> None:
    """Make the exec known to the next daemon, should one start while the container runs.

    Done before the spawner is asked to make the exec: a client that has seen it run finds it again, whenever this
    daemon dies.
    """
    exec_dir = paths.of(engine.settings.data_root, engine.settings.exec_root, one.container.id).exec_dir
    try:
        record, listener = homes.make(exec_dir, one.id, one.command)
    except OSError as error:
        # The container is ending, or the disk is full: the exec runs all the same.
        log.debug("exec %s: the next daemon will not know of it: %s", one.id, error)
        return
    with listener:
        try:
            link.send_word(endpoint.HOME, [record, listener.fileno()])
            one.home = exec_dir
        except OSError:  # no room in the link, which has carried nothing yet: the host is out of memory
            homes.clear(exec_dir, one.id)
        finally:
            os.close(record)


def adopt(engine: ExecParts, container: Container) -> None:
    """Find the execs again that an earlier daemon has started in a running container, and watch those that run."""
    exec_dir = paths.of(engine.settings.data_root, engine.settings.exec_root, container.id).exec_dir
    oldest = time.time_ns() - int(KEPT_SECONDS * SECOND)
    there = homes.find(exec_dir)
    engine.monitors.call((each.id, exec_dir, homes.socket_name(each.id)) for each in there if each.exited is None)
    for found in there:
        one = Exec(found.id, container, found.command, home=exec_dir)
        if found.exited is None and _adopt_running(engine, one):
            continue
        exited = found.exited or _exited(exec_dir, found.id)
        if exited is None or exited.finished_ns < oldest:
            homes.clear(exec_dir, found.id)  # its time is over; or its monitor was killed, and its end is unknown
            continue
        one.status, one.exit_code = "ended", exited.exit_code
        engine.execs.add(one)
        engine.execs.end(one)


def _adopt_running(engine: ExecParts, one: Exec) -> bool:
    try:
        started = engine.monitors.adopt_exec(one.id)
    except SilentMonitor as silent:
        if not silent.linked:
            return False
        started = Started(0, 0, 0)  # as far as the daemon can know, it still runs
    if started is None:
        return False
    one.status, one.pid, one.pid_start = "running", started.pid, started.pid_start
    engine.execs.add(one)
    engine.monitors.keep(one.id, lambda _, message: _heard(engine, one, message))
    return True


def _exited(exec_dir: str, exec_id: str) -> Exited | None:
    """The end of an exec, if its monitor has written it since the record was read first."""
    found = homes.read(exec_dir, exec_id)
    return None if found is None else found.exited


def _found_ended(error: SystemFailure) -> bool:
    """Whether an exec failed since the container's process is ending, which its pidfd does not yet show."""
    return isinstance(error, StartFailure) and (error.failed.step, error.failed.errno) in _ENDED


def _fail(engine: ExecParts, one: Exec, error: BaseException) -> None:
    """Record that the exec never ran."""
    exit_code = _NOT_RUNNABLE
    if isinstance(error.__cause__, StartFailure) and error.__cause__.failed.exit_code in _COMMAND_EXITS:
        exit_code = error.__cause__.failed.exit_code
    with one.changed:
        one.move("ended", exit_code)
    if one.home:
        homes.clear(one.home, one.id)
        one.home = ""
    engine.execs.end(one)


def _heard(engine: ExecParts, one: Exec, message: Exited | Detached | None) -> None:
    """Handle a monitor's message. None: the monitor has died, and the exec, which runs unwatched, is killed."""
    if isinstance(message, Detached):
        announce(engine, one.container, "exec_detach", execID=one.id)
        return
    if message is None:
        log.error("container %s: the monitor of exec %s is gone; the exec is ended", one.container.id, one.id)
        later(signalling.kill_and_wait, one.pid, one.pid_start, _KILLED_SECONDS)
    exit_code = _LOST_EXIT if message is None else message.exit_code
    described.forget(engine, one)
    engine.execs.end(one)  # before its end is visible: by then its container must not show it any more
    with one.changed:
        one.move("ended", exit_code)
    announce(engine, one.container, "exec_die", execID=one.id, exitCode=exit_code)


def _settle(engine: ExecParts, one: Exec) -> None:
    """Wait (10 s at most) for another thread that starts the exec, or records an end that the monitor has told."""
    with one.changed:
        if one.status == "starting":
            one.changed.wait_for(lambda: one.status != "starting", _SETTLING_SECONDS)
        running = one.status == "running"
    if running and not engine.monitors.look(one.id):
        with one.changed:
            one.changed.wait_for(lambda: one.status == "ended", _SETTLING_SECONDS)


def inspect(engine: ExecParts, one: Exec) -> Object:
    """The ExecInspectResponse of an exec."""
    _settle(engine, one)
    command = one.command
    shown = {
        "tty": command.tty,
        "entrypoint": command.argv[0],
        "arguments": list(command.argv[1:]),
        "privileged": command.privileged,
    }
    if command.user:
        shown["user"] = command.user
    with one.changed:
        return {
            "ID": one.id,
            "Running": one.status in ("starting", "running"),
            "ExitCode": one.exit_code,
            "ProcessConfig": shown,
            "OpenStdin": command.stdin,
            "OpenStderr": command.stderr,
            "OpenStdout": command.stdout,
            "CanRemove": False,
            "ContainerID": one.container.id,
            "DetachKeys": binascii.b2a_base64(command.detach_keys, newline=False).decode(),
            "Pid": one.pid,
        }


def resize(engine: ExecParts, one: Exec, rows: int, columns: int) -> None:
    """Set the size of the exec's terminal, in characters; wait for an exec that is just being started."""
    _check_active(one.container)
    with one.changed:
        if not one.changed.wait_for(lambda: one.status not in ("created", "starting"), _STARTING_SECONDS):
            raise SystemFailure("timeout waiting for exec session ready")
        if one.pid == 0:
            raise Invalid("exec process is not started")
    _settle(engine, one)
    try:
        engine.monitors.send(one.id, Resize(rows, columns), [])
    except Conflict as error:
        raise NotFound(f"NotFound: process does not exist {one.id}: not found") from error


def run_captured(
    engine: ExecParts,
    container: Container,
    argv: list[str],
    *,
    env: tuple[str, ...] = (),
    user: str = "",
    cwd: str = "",
    seconds: float,
    most: int = 4096,
) -> Captured:
    """Run a command in the container for the engine itself, for at most `seconds`.

    The first `most` bytes of its output are kept. Raises EngineError when it cannot be run: Conflict without a running
    container, Invalid for the command's fault.
    """
    _check_active(container)
    command = Command(
        argv=tuple(argv),
        env=specify.environment(container, False, env),
        user=user or container.config["User"],
        cwd=cwd or container.config["WorkingDir"] or "/",
        stdout=True,
        stderr=True,
    )
    one = _register(engine, container, command)
    one.own = True
    latest = time.monotonic() + seconds
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            _begin_captured(engine, one, theirs)
        output, ended = _read_until(ours, latest, most)
    if not ended:
        described.kill(engine, one)
        with one.changed:
            one.changed.wait_for(lambda: one.status == "ended", _SETTLING_SECONDS)
        return Captured(None, output, True)
    _settle(engine, one)
    return Captured(one.exit_code, output, False)


@timed("health_check_start_duration", "")
def _begin_captured(engine: ExecParts, one: Exec, connection: socket.socket) -> None:
    _take(engine, one)
    _run(engine, one, None, [(Client(_STDOUT | _STDERR, framed=False), connection)])


def _read_until(connection: socket.socket, latest: float, most: int) -> tuple[bytes, bool]:
    """The first `most` bytes, and whether the end came in time. All output is read, so that no writer is blocked."""
    kept = b""
    while True:
        left = latest - time.monotonic()
        if left <= 0:
            return kept, False
        connection.settimeout(left)
        try:
            data = connection.recv(_LARGEST_READ)
        except TimeoutError:
            return kept, False
        if not data:
            return kept, True
        kept += data[: most - len(kept)]


def _check_active(container: Container) -> None:
    """Raise Conflict, in dockerd's words, unless an exec can run in the container now."""
    status = container.snapshot().status
    if status == "restarting":
        raise Conflict(f"Container {container.id} is restarting, wait until the container is running")
    if status == "paused":
        raise Conflict(f"Container {container.id} is paused, unpause the container before exec")
    if status != "running":
        raise Conflict(f"container {container.id} is not running")
