"""Containers that a frontend runs processes in (gateway.exec): NewContainer, ExecProcess and ReleaseContainer, and what
it sees of their files (gateway.exec.filesystem).

A stream of ExecProcess carries the bytes of several processes, each message with the id of its process. One thread of
the call reads what the frontend says, each process has one that reads what it writes, and one thread sends. The rights
of a process are those of a RUN. Source: buildkit, frontend/gateway/gateway.go.
"""

import contextlib
import queue
import signal
import threading
from collections.abc import Callable, Mapping
from typing import Any

from engine.annotating import TypeVar
from engine.daemon.builder import giving
from engine.daemon.builder.graph.snapshot import Snapshot
from engine.daemon.builder.graph.telling import Telling
from engine.daemon.builder.graph.work import Work
from engine.daemon.builder.interacting import ERRORS, OUTPUT, Interactive, Place, Process, Talk
from engine.daemon.builder.mounting import Mount
from engine.daemon.buildkit import sessions
from engine.daemon.buildkit.failures import detail
from engine.daemon.buildkit.jobs import Job
from engine.daemon.buildkit.llb import execution, wellformed
from engine.daemon.buildkit.llb.asker import Asker
from engine.daemon.buildkit.llb.rooms import Room
from engine.daemon.buildkit.messages import gateway, ops
from engine.daemon.buildkit.messages.known import Status
from engine.daemon.buildkit.offers import SessionGiver
from engine.daemon.buildkit.serving import Call, status_of
from engine.daemon.parts import DaemonParts
from engine.daemon.runtime import worker
from engine.daemon.signals import check_sent, parse_signal
from engine.dataclass import dataclass
from engine.errors import Conflict, EngineError, Invalid, NotFound
from engine.protocols import grpc

Seen = TypeVar("Seen")

_STDIN = 0
_UNKNOWN = 255
_MOST_PROCESSES = 100  # of one call
_MOST_UNSENT = 32  # messages
_LOOK_SECONDS = 0.5
_KINDS = (ops.BIND, ops.SECRET, ops.SSH, ops.CACHE, ops.TMPFS)


def new_container(
    engine: DaemonParts, asker: Asker, asked: gateway.NewContainerRequest
) -> gateway.NewContainerResponse:
    """Prepare a container, which the first process begins. Raises Invalid, NotFound, Forbidden, and what mounts do."""
    if not asked["ContainerID"]:
        raise Invalid("container ID required")
    inputs: list[Snapshot] = []
    mounts, targets, readonly, root = list[Mount](), list[str](), False, None
    for given in asked["Mounts"]:
        place = wellformed.EMPTY
        if given["resultID"]:
            place = len(inputs)
            inputs.append(Snapshot(asker.references.find(given["resultID"]).tree().parts))
        if given["mountType"] not in _KINDS:
            raise Invalid(f"unknown type of the mount {given['dest']}")
        if given["dest"] == execution.ROOT:
            root, readonly = inputs[place] if place != wellformed.EMPTY else Snapshot(), given["readonly"]
            targets.append(execution.ROOT)
        else:
            whole: ops.Mount = {**given, "input": place, "output": wellformed.EMPTY}
            mounts.append(execution.mount_of(execution.ROOT, whole))
            targets.append(mounts[-1].target)
    if root is None:
        raise Invalid("root mount is required")
    where = Place(
        network=execution.network(asked["Network"]),
        hosts=execution.hosts(asked["extraHosts"]),
        hostname=asked["hostname"],
        readonly=readonly,
    )
    made = Interactive(_work(engine, asker.job), [root, *inputs], mounts, where)
    try:
        asker.rooms.add(asked["ContainerID"], Room(made, tuple(targets)))
    except EngineError:
        made.close()
        raise
    asker.job.held.callback(made.close)
    return {}


def release_container(
    _engine: DaemonParts, asker: Asker, asked: gateway.ReleaseContainerRequest
) -> gateway.ReleaseContainerResponse:
    """End all processes of a container, and remove it; nothing happens where there is none of that id."""
    found = asker.rooms.take(asked["ContainerID"])
    if found is not None:
        found.container.close()
    return {}


def looked(asker: Asker, id: str, place: int, look: Callable[[int], Seen]) -> Seen:
    """The result of `look(root_fd)` on the files of a container's mount. place: among those that it was made with

    Raises NotFound, Invalid, and what `look` raises.
    """
    room = asker.rooms.find(id)
    if not 0 <= place < len(room.targets):
        raise Invalid(f"mount index {place} is out of bounds ({len(room.targets)} available)")
    return room.container.look(room.targets[place], look)


def _work(engine: DaemonParts, job: Job) -> Work:
    room = job.workroom(engine)
    session = sessions.find(job.asked["Session"]) if job.asked["Session"] else None
    giver = SessionGiver(session, job.check) if session is not None else None
    waiting = contextlib.nullcontext
    return Work(engine, room.keeper, Telling(), room.scratch, job.watch, job.check, waiting, giver, room.allowed)


def exec_process(engine: DaemonParts, asker: Asker, call: Call[gateway.ExecMessage, gateway.ExecMessage]) -> None:
    """Run processes, and carry their bytes. Raises Invalid, NotFound, Conflict, Lost, Cancelled."""
    call.stream.check = asker.job.check
    conversing = _Conversing(engine, asker, call)
    try:
        for message in call.every():
            conversing.take(message)
        conversing.wait()
    finally:
        conversing.end()


@dataclass(slots=True, eq=False)
class _Running:
    """One process. ended: is set once all of it was told"""

    talk: Talk
    wanted: frozenset[int]
    ended: threading.Event


class _Conversing:
    """One call."""

    def __init__(self, engine: DaemonParts, asker: Asker, call: Call[gateway.ExecMessage, gateway.ExecMessage]) -> None:
        self._engine, self._asker, self._call = engine, asker, call
        self._running: dict[str, _Running] = {}
        self._unsent: queue.Queue[gateway.ExecMessage] = queue.Queue(_MOST_UNSENT)
        self._all = threading.Event()  # nothing more is to be sent than what waits
        self._over = threading.Event()  # nothing more is sent
        worker.begin("exec", self._send)

    def take(self, message: gateway.ExecMessage) -> None:
        """One message of the frontend's."""
        id = message["ProcessID"]
        if not id:
            raise Invalid("ProcessID required")
        if message["Init"] is not None:
            self._begin(id, message["Init"])
            return
        found = self._running.get(id)
        if found is None:
            raise NotFound(f'IO for process "{id}" not found')
        if (file := message["File"]) is not None:
            if file["Fd"] == _STDIN and _STDIN in found.wanted:
                found.talk.write(file["Data"])
                if file["EOF"]:
                    found.talk.end_input()
        elif (size := message["Resize"]) is not None:
            with contextlib.suppress(EngineError):  # it has ended, or has no terminal
                found.talk.resize(min(size["Rows"], 0xFFFF), min(size["Cols"], 0xFFFF))
        elif (sent := message["Signal"]) is not None:
            number = check_sent(parse_signal(sent["Name"]))
            with contextlib.suppress(Conflict):  # it has ended
                found.talk.signal(number)

    def _begin(self, id: str, asked: gateway.InitMessage) -> None:
        meta = asked["Meta"]
        if meta is None or not meta["args"]:
            raise Invalid("process meta is required")
        if id in self._running:
            raise Conflict(f"Process {id} already exists")
        if len(self._running) >= _MOST_PROCESSES:
            raise Invalid(f"a call runs at most {_MOST_PROCESSES} processes")
        room = self._asker.rooms.find(asked["ContainerID"])
        wanted = frozenset(asked["Fds"])
        talk = room.container.start(_process(self._engine, self._asker.job, asked, meta, _STDIN in wanted))
        found = self._running[id] = _Running(talk, wanted, threading.Event())
        worker.begin("process", lambda: self._follow(id, found))

    def _follow(self, id: str, running: _Running) -> None:
        """Tell of a process from its begin to its end."""
        try:
            self._put(id, {"Started": {}})
            for fd, data in running.talk.output():
                if fd in running.wanted:
                    self._put(id, {"File": {"Fd": fd, "Data": data}})
            for fd in sorted(running.wanted & {OUTPUT, ERRORS}):
                self._put(id, {"File": {"Fd": fd, "EOF": True}})
            self._put(id, {"Exit": _exit(running.talk.wait())})
            self._put(id, {"Done": {}})
        except EngineError as error:
            status = status_of(error)
            told: Status = {"code": status.code, "message": status.words}
            self._put(id, {"Exit": {"Code": _UNKNOWN, "Error": told}})
            self._put(id, {"Done": {}})
        finally:
            running.ended.set()

    def _put(self, id: str, message: Mapping[str, Any]) -> None:
        """Have a message sent, unless nothing is sent any more."""
        whole: gateway.ExecMessage = {"ProcessID": id, **message}  # type: ignore[typeddict-item]
        while not self._over.is_set():
            with contextlib.suppress(queue.Full):
                self._unsent.put(whole, timeout=_LOOK_SECONDS)
                return

    def _send(self) -> None:
        try:
            while not (self._all.is_set() and self._unsent.empty()):
                with contextlib.suppress(queue.Empty):
                    self._call.send(self._unsent.get(timeout=_LOOK_SECONDS))
        except EngineError:  # the frontend has gone, which the call's own thread finds out too
            pass
        finally:
            self._over.set()

    def wait(self) -> None:
        """Wait until all processes have ended, and all was sent. Raises Cancelled."""
        for running in self._running.values():
            while not running.ended.wait(_LOOK_SECONDS):
                self._asker.job.check()
        self._all.set()
        self._over.wait()

    def end(self) -> None:
        """The call is over: what still runs is killed."""
        for running in self._running.values():
            if not running.ended.is_set():
                with contextlib.suppress(EngineError):  # it ends by itself just now
                    running.talk.signal(signal.SIGKILL)
        self._over.set()
        self._all.set()


def _exit(code: int) -> gateway.ExitMessage:
    if not code:
        return {"Code": 0}
    words = f"exit code: {code}"
    details = [detail("gatewayapi.ExitMessage", {"Code": code})]
    return {"Code": code, "Error": {"code": grpc.UNKNOWN, "message": words, "details": details}}


def _process(engine: DaemonParts, job: Job, asked: gateway.InitMessage, meta: ops.Meta, stdin: bool) -> Process:
    giver = _work(engine, job).giver
    secrets = []
    for each in asked["secretenv"]:
        mount = execution.variable(each)
        data = giver.secret(mount.id) if giver is not None else None
        if data is not None:
            secrets.append(giving.variable(mount.env, mount.id, data))
        elif mount.required:
            raise Invalid(f"secret {mount.id}: not found")
    env = [execution.text(each) for each in meta["env"]]
    return Process(
        argv=tuple(map(execution.text, meta["args"])),
        env=(*env, *secrets),
        workdir=execution.text(meta["cwd"]) or "/",
        user=execution.text(meta["user"]),
        tty=asked["Tty"],
        stdin=stdin,
        security="insecure" if asked["Security"] == ops.INSECURE else "sandbox",
    )
