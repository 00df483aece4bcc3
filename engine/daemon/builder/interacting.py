"""Containers in which somebody outside runs processes and converses with each; the first process is process 1.

Runs on the threads of whoever asks. The container is made, started and removed like that of a step (see `run`), with
its mounts; nothing of what is written becomes a layer. Bytes come over a socket pair from the process's monitor. Who
waits gives up when nobody waits for the build any more.
"""

import contextlib
import os
import select
import socket
import threading
from collections.abc import Callable, Iterator, Sequence

from engine.annotating import TypeVar
from engine.daemon.builder import mounting, run
from engine.daemon.builder.graph.snapshot import Snapshot
from engine.daemon.builder.graph.work import Work
from engine.daemon.builder.mounting import Mount, Mounted
from engine.daemon.containers.contents import rootfs
from engine.daemon.containers.exec import verbs as execs
from engine.daemon.containers.exec.known import Exec
from engine.daemon.containers.exec.verbs import AskedExec
from engine.daemon.containers.output import resize
from engine.daemon.containers.record import Container
from engine.daemon.containers.verbs import create, kill, start, wait
from engine.daemon.images.layers import merged
from engine.daemon.jsontext import Object
from engine.daemon.runtime import signalling
from engine.daemon.store import builds as table
from engine.dataclass import dataclass
from engine.errors import Conflict, Invalid, NotFound
from engine.kernel.beneath import open_beneath
from engine.logs.format import FRAME
from engine.wire.schema import Client

Seen = TypeVar("Seen")

_DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_PIECE = 32 * 1024
_LOOK_SECONDS = 0.5
_LOOK_MS = 500
_UNKNOWN = 255
OUTPUT, ERRORS = 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """What is run. tty: in a terminal, which has one stream; stdin: it is given some; security: as of `run.Command`"""

    argv: tuple[str, ...]
    env: tuple[str, ...] = ()
    workdir: str = "/"
    user: str = ""
    tty: bool = False
    stdin: bool = False
    security: str = "sandbox"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where processes run. network, hosts, hostname: as of `run.Command`; readonly: the root is"""

    network: str = "default"
    hosts: tuple[str, ...] = ()
    hostname: str = ""
    readonly: bool = False


class Talk:
    """The conversation with one process. wait: gives its exit code once it has ended; resize, signal: reach it"""

    def __init__(
        self,
        work: Work,
        peer: socket.socket,
        tty: bool,
        wait: Callable[[], int],
        resize: Callable[[int, int], None],
        signal: Callable[[int], None],
    ) -> None:
        self._work, self._peer, self._tty = work, peer, tty
        self.wait, self.resize, self.signal = wait, resize, signal

    def output(self) -> Iterator[tuple[int, bytes]]:
        """What it writes, to OUTPUT or ERRORS, until it has ended. Raises what `work.watch` raises."""
        waiting = bytearray()
        with self._peer:
            while True:
                self._work.watch(self._peer.fileno())
                try:
                    data = self._peer.recv(_PIECE)
                except ConnectionResetError:  # it has ended without having read all that it was given
                    data = b""
                if not data:
                    return
                if self._tty:
                    yield OUTPUT, data
                    continue
                waiting += data
                while len(waiting) >= FRAME.size:
                    stream, size = FRAME.unpack_from(waiting)
                    if len(waiting) < FRAME.size + size:
                        break
                    yield stream, bytes(waiting[FRAME.size : FRAME.size + size])
                    del waiting[: FRAME.size + size]

    def write(self, data: bytes) -> None:
        """Give it this; nothing happens where it has ended. Raises what `work.check` raises."""
        left = memoryview(data)
        poll = select.poll()
        with contextlib.suppress(OSError):
            poll.register(self._peer, select.POLLOUT)
            while left:
                poll.poll(_LOOK_MS)
                self._work.check()
                with contextlib.suppress(BlockingIOError):
                    left = left[self._peer.send(left, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL) :]

    def end_input(self) -> None:
        """It is given nothing more."""
        with contextlib.suppress(OSError):  # it has ended
            self._peer.shutdown(socket.SHUT_WR)


class Interactive:
    """One container. The first process begins it, and its end ends the others. Its files can be looked at meanwhile."""

    def __init__(self, work: Work, inputs: Sequence[Snapshot], mounts: Sequence[Mount], place: Place) -> None:
        """inputs: the root, and the sources of mounts. Raises Forbidden, and what a mount raises."""
        run.check_allowed(work, place.network, "sandbox")
        self._work, self._root, self._place = work, inputs[0], place
        self._stack = contextlib.ExitStack()
        self._changed = threading.Condition()
        self._begun = self._closed = False  # guarded by `_changed`, as is the next
        self._container: Container | None = None
        self._mounted: Mounted = self._stack.enter_context(mounting.mounted(work, inputs, mounts))

    def start(self, process: Process) -> Talk:
        """Run a process. Raises Forbidden, Conflict, and what a start raises."""
        run.check_allowed(self._work, self._place.network, process.security)
        if not self._is_first():
            return self._further(process)
        try:
            return self._first(process)
        except BaseException:  # another one may be the first
            with self._changed:
                container, self._container, self._begun = self._container, None, False
                self._changed.notify_all()
            if container is not None:
                run.discard(self._work.engine, container)
            raise

    def _is_first(self) -> bool:
        """Whether the caller begins the container; waits for another one that does. Raises NotFound."""
        with self._changed:
            while True:
                if self._closed:
                    raise NotFound("the container is released")
                if not self._begun:
                    self._begun = True
                    return True
                if self._container is not None:
                    return False
                self._changed.wait(_LOOK_SECONDS)
                self._work.check()

    def look(self, target: str, work: Callable[[int], Seen]) -> Seen:
        """The result of `work(root_fd)` on the files of the mount at a target, or on the root's own for `/`.

        Raises NotFound, Invalid for what has no files or only one, and what `work` raises.
        """
        layer_root, container = self._work.engine.images.layer_root, self._container
        if target == "/":
            if container is None:
                return merged.within(layer_root, self._root.layers, work)
            return rootfs.visit(self._work.engine, container, lambda view: work(view.root), mounted=False)
        found = next((each for each in reversed(self._mounted.host) if each["Target"] == target), None)
        if found is None:
            raise NotFound(f"the mount {target} was not made")
        if found["Type"] == "tmpfs":
            raise Invalid(f"the mount {target}: a tmpfs is seen by its container alone")
        if found["Type"] == "bind":
            return _in_directory(None, found["Source"], target, work)
        below = found.get("ImageOptions", {}).get("Subpath", "/")
        layers = self._mounted.shown[found["Source"]]
        return merged.within(layer_root, layers, lambda root: _in_directory(root, below, target, work))

    def close(self) -> None:
        """End all processes, and remove the container; more than once does no harm."""
        with self._changed:
            closed, self._closed = self._closed, True
            container, self._container = self._container, None
            self._changed.notify_all()
        if closed:
            return
        with self._stack:
            if container is not None:
                run.discard(self._work.engine, container)

    def _first(self, process: Process) -> Talk:
        engine = self._work.engine
        trees = create.Trees(self._root.layers, self._mounted.shown)
        container, _ = create.create(
            engine, None, self._body(process), None, lasting=False, beside=table.begin_step, trees=trees
        )
        with self._changed:
            self._container = container
            self._changed.notify_all()
            if self._closed:  # `start` removes it
                raise NotFound("the container is released")
        container.secrets = tuple(self._mounted.env)
        waiter = wait.subscribe(container, "next-exit")
        ours, theirs = socket.socketpair()
        with container.operation:
            container.waiting.append((_client(process), theirs))
        try:
            start.start(engine, container)
        except BaseException:
            ours.close()
            raise
        return Talk(
            self._work,
            ours,
            process.tty,
            lambda: waiter.result(self._work.watch)[0],
            lambda rows, columns: resize.resize(engine, container, rows, columns),
            lambda number: kill.kill(engine, container, number),
        )

    def _body(self, process: Process) -> Object:
        place = self._place
        return {
            "Cmd": list(process.argv),
            "Entrypoint": [""],
            "Env": list(process.env),
            "User": process.user,
            "WorkingDir": process.workdir,
            "Hostname": place.hostname,
            "Tty": process.tty,
            "OpenStdin": process.stdin,
            "StdinOnce": True,
            "Healthcheck": {"Test": ["NONE"]},
            "HostConfig": {
                "NetworkMode": place.network,
                "ExtraHosts": list(place.hosts),
                "LogConfig": {"Type": "none"},
                "Mounts": self._mounted.host or None,
                "Privileged": process.security == "insecure",
                "ReadonlyRootfs": place.readonly,
            },
        }

    def _further(self, process: Process) -> Talk:
        engine, container = self._work.engine, self._container
        if container is None:
            raise NotFound("the container is released")
        own = {each.partition("=")[0] for each in process.env}
        # The variables of process 1 are no other one's: a name without a value takes one away.
        others = [each.partition("=")[0] for each in container.config["Env"] or ()]
        asked: Object = {
            "Cmd": list(process.argv),
            "Env": [*(name for name in others if name not in own), *process.env],
            "User": process.user,
            "WorkingDir": process.workdir,
            "Tty": process.tty,
            "AttachStdin": process.stdin,
            "AttachStdout": True,
            "AttachStderr": True,
            "Privileged": process.security == "insecure",
        }
        one = execs.create(engine, container, asked)
        ours, theirs = socket.socketpair()
        try:
            execs.start(engine, one, AskedExec(tty=process.tty), lambda: (theirs, b""))
        except BaseException:
            ours.close()
            raise
        return Talk(
            self._work,
            ours,
            process.tty,
            lambda: self._ended(one),
            lambda rows, columns: execs.resize(engine, one, rows, columns),
            lambda number: _signalled(one, number),
        )

    def _ended(self, one: Exec) -> int:
        with one.changed:
            while one.status != "ended":
                one.changed.wait(_LOOK_SECONDS)
                self._work.check()
            return _UNKNOWN if one.exit_code is None else one.exit_code


def _signalled(one: Exec, number: int) -> None:
    if not signalling.send_signal(one.pid, one.pid_start, number):
        raise Conflict(f"the process {one.id} does not run")


def _in_directory(root: int | None, path: str, target: str, work: Callable[[int], Seen]) -> Seen:
    """The result of `work` on a directory beneath a root, or on one of the engine's own."""
    try:
        place = os.open(path, _DIRECTORY) if root is None else open_beneath(root, path, _DIRECTORY)
    except NotADirectoryError as error:
        raise Invalid(f"the mount {target} is a single file, which is not seen from outside") from error
    try:
        return work(place)
    finally:
        os.close(place)


def _client(process: Process) -> Client:
    return Client(streams=process.stdin * 1 | 2 | (0 if process.tty else 4), framed=not process.tty)
