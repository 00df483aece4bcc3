"""Builds whose client is gone in the middle, and whose daemon is killed there: what is left is nothing, for either."""

import contextlib
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from engine.daemon.buildkit import methods
from engine.daemon.buildkit.calling import Outgoing, unary
from engine.daemon.buildkit.link import Link
from engine.daemon.buildkit.messages import control, fsutil, ops
from engine.daemon.buildkit.messages.fsutil import Packet, Stat
from engine.daemon.buildkit.serving import Call, Method
from engine.errors import EngineError
from tests.harness.contexts import build
from tests.harness.conversations import conversing, room
from tests.harness.daemon import Daemon
from tests.harness.frontends import UPGRADE, Frontend, dial, frontend
from tests.harness.graphs import Made, Writer
from tests.harness.links import LONG, running

pytestmark = pytest.mark.root
DIFF, TAKING = methods.FILES + "DiffCopy", methods.SENDING + "DiffCopy"
SECRET, SOLVE = methods.SECRETS + "GetSecret", methods.CONTROL + "Solve"
KEY = uuid.uuid4().hex
Begin = Callable[[Daemon, contextlib.ExitStack], list[Link]]


class Client:
    """A client with one directory of one file. stalls: it stops in the middle of the file"""

    def __init__(self, stalls: bool, name: str = "f") -> None:
        self.stalls = stalls
        self.name = name
        self.asked = threading.Event()

    def files(self, call: Call[Packet, Packet]) -> None:
        # Another file each time, or it would not be asked for.
        stat: Stat = {"path": self.name, "mode": 0o644, "size": 100_000, "modTime": time.time_ns()}
        call.send({"type": fsutil.STAT, "stat": stat})
        call.send({"type": fsutil.STAT})
        for packet in call.every():
            if packet["type"] == fsutil.REQUEST:
                call.send({"type": fsutil.DATA, "ID": packet["ID"], "data": bytes(50_000)})
                self.asked.set()
                if self.stalls:
                    continue
                call.send({"type": fsutil.DATA, "ID": packet["ID"], "data": bytes(50_000)})
                call.send({"type": fsutil.DATA, "ID": packet["ID"]})
            elif packet["type"] == fsutil.FINISH:
                call.send({"type": fsutil.FINISH})
                return

    def takes(self, call: Call[Packet, Packet]) -> None:
        call.receive()
        self.asked.set()
        while not call.stream.gone:  # and it takes no more
            time.sleep(0.05)

    def secret(self, call: Call[Any, Any]) -> None:
        call.one()
        call.send({"data": b"hush"})


@contextlib.contextmanager
def session(daemon: Daemon, client: Client) -> Iterator[tuple[str, Link]]:
    """Its id and its connection."""
    id = uuid.uuid4().hex
    offers = "".join(f"X-Docker-Expose-Session-Grpc-Method: {path}\r\n" for path in (DIFF, TAKING, SECRET))
    named = f"X-Docker-Expose-Session-Uuid: {id}\r\nX-Docker-Expose-Session-Sharedkey: {KEY}\r\n"
    served = {
        DIFF: Method(*methods.TABLES[DIFF], client.files),
        TAKING: Method(Packet, Packet, client.takes),
        SECRET: Method(*methods.TABLES[SECRET], client.secret),
    }
    with running(dial(daemon, "/session", f"{UPGRADE}{named}{offers}"), False, served) as link:
        yield id, link


def containers(daemon: Daemon) -> list[str]:
    return [each["Id"] for each in daemon.request("GET", "/containers/json?all=1").json()]


def active(daemon: Daemon) -> list[str]:
    """The builds that the history says run."""
    path = methods.CONTROL + "ListenBuildHistory"
    with running(dial(daemon, "/grpc"), True) as link:
        with Outgoing[Any, Any](link, path, *methods.TABLES[path], []) as call:
            call.send({"ActiveOnly": True, "EarlyExit": True})
            call.end()
            return [each["record"]["Ref"] for each in call.every()]


def left(daemon: Daemon) -> list[str]:
    """What of a build is there: containers, directories, secrets, records of builds that run."""
    places = (daemon.data_root / "tmp", daemon.exec_root / "given")
    files = [name for place in places if place.is_dir() for name in os.listdir(place)]
    rows = daemon.request("GET", "/system/df?type=build-cache").json()["BuildCache"] or []
    return [*containers(daemon), *files, *active(daemon), *(each["ID"] for each in rows if each["InUse"])]


def until(look: Callable[[], object]) -> object:
    end = time.monotonic() + LONG
    while not (found := look()) and time.monotonic() < end:
        time.sleep(0.05)
    return found


def commanded(writer: Writer, script: str) -> Made:
    """A command that has a secret and a cache."""
    mounts: tuple[ops.Mount, ...] = (
        {"input": -1, "dest": "/s", "output": -1, "mountType": ops.SECRET, "secretOpt": {"ID": "s"}},
        {"input": -1, "dest": "/c", "output": -1, "mountType": ops.CACHE, "cacheOpt": {"ID": "c", "sharing": 2}},
    )
    return writer.run(writer.image("busybox:latest"), "sh", "-c", script, mounts=mounts)


# How each begins: it returns once the build is at that moment, with the connections of its client.


def begun(daemon: Daemon, stack: contextlib.ExitStack, client: Client) -> tuple[Frontend, list[Link]]:
    """A build whose frontend the test is, with the client's session."""
    id, link = stack.enter_context(session(daemon, client))
    asked = stack.enter_context(frontend(daemon, Session=id))
    return asked, [link, asked.link]


def idling(daemon: Daemon, stack: contextlib.ExitStack) -> list[Link]:
    _, links = begun(daemon, stack, Client(stalls=False))
    assert until(lambda: active(daemon))
    return links


def transferring(daemon: Daemon, stack: contextlib.ExitStack) -> list[Link]:
    client, writer = Client(stalls=True), Writer()
    asked, links = begun(daemon, stack, client)
    ref = asked.solve(writer.definition(writer.local("context")))
    later(lambda: asked("Evaluate", {"Ref": ref}))
    assert client.asked.wait(LONG)
    return links


def commanding(daemon: Daemon, stack: contextlib.ExitStack) -> list[Link]:
    writer = Writer()
    asked, links = begun(daemon, stack, Client(stalls=False))
    ref = asked.solve(writer.definition(commanded(writer, f"echo {uuid.uuid4()}; sleep 1000")))
    later(lambda: asked("Evaluate", {"Ref": ref}))
    assert until(lambda: containers(daemon))
    return links


def conversed(daemon: Daemon, stack: contextlib.ExitStack) -> list[Link]:
    asked, links = begun(daemon, stack, Client(stalls=False))
    talk = stack.enter_context(conversing(asked))
    mount: Any = {"dest": "/s", "mountType": ops.SECRET, "secretOpt": {"ID": "s"}}
    talk.begin("one", room(asked, mount), "sleep", "1000")
    talk.until("one", "Started")
    return links


def fronted(daemon: Daemon, stack: contextlib.ExitStack) -> list[Link]:
    assert build(daemon, 'FROM busybox\nENTRYPOINT ["sleep", "1000"]', t="sleeper").id
    asked, links = begun(daemon, stack, Client(stalls=False))
    later(lambda: asked("Solve", {"Frontend": "gateway.v0", "FrontendOpt": {"source": "sleeper"}}))
    assert until(lambda: containers(daemon))
    return links


def exporting(daemon: Daemon, stack: contextlib.ExitStack) -> list[Link]:
    client, writer = Client(stalls=False), Writer()
    id, link = stack.enter_context(session(daemon, client))
    calls = stack.enter_context(running(dial(daemon, "/grpc"), True))
    asked: control.SolveRequest = {
        "Ref": uuid.uuid4().hex,
        "Session": id,
        "Definition": writer.definition(writer.local("context")),
        "Exporters": [{"Type": "local", "Attrs": {}}],
    }
    later(lambda: unary(calls, SOLVE, *methods.TABLES[SOLVE], asked))
    assert client.asked.wait(LONG)
    return [link, calls]


class Halting:
    """A registry that takes what it is given, and never says that it has it."""

    def __init__(self, daemon: Daemon, stack: contextlib.ExitStack) -> None:
        self.listener = stack.enter_context(daemon.namespaces.socket())
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen()
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.asked = threading.Event()
        self.over = threading.Event()
        stack.callback(self.over.set)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the test has ended
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as asked, contextlib.suppress(OSError):
            if connection.recv(1, socket.MSG_PEEK) == b"\x16":  # TLS is tried first
                connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")
                return
            while line := asked.readline():
                while asked.readline() not in (b"\r\n", b""):
                    pass
                method = line.split()[0]
                if method in (b"PATCH", b"PUT"):
                    self.asked.set()
                    self.over.wait(LONG)
                    return
                status = {b"GET": "200 OK", b"POST": "202 Accepted"}.get(method, "404 Not Found")
                where = "Location: /v2/x/blobs/uploads/1\r\n" if method == b"POST" else ""
                connection.sendall(f"HTTP/1.1 {status}\r\n{where}Content-Length: 0\r\n\r\n".encode())


def sending(daemon: Daemon, stack: contextlib.ExitStack, asked: Callable[[str], control.SolveRequest]) -> list[Link]:
    """A build that waits for a registry. asked: what is asked for besides, for the registry's address"""
    registry, writer = Halting(daemon, stack), Writer()
    id, link = stack.enter_context(session(daemon, Client(stalls=False)))
    calls = stack.enter_context(running(dial(daemon, "/grpc"), True))
    made = writer.run(writer.image("busybox:latest"), "sh", "-c", f"echo {uuid.uuid4()} > /x")
    definition = writer.definition(made)
    whole: control.SolveRequest = {"Ref": uuid.uuid4().hex, "Session": id, "Definition": definition}
    later(lambda: unary(calls, SOLVE, *methods.TABLES[SOLVE], {**whole, **asked(registry.address)}))
    assert registry.asked.wait(LONG)
    return [link, calls]


def pushing(daemon: Daemon, stack: contextlib.ExitStack) -> list[Link]:
    return sending(
        daemon,
        stack,
        lambda address: {"Exporters": [{"Type": "image", "Attrs": {"name": f"{address}/x", "push": "true"}}]},
    )


def caching(daemon: Daemon, stack: contextlib.ExitStack) -> list[Link]:
    return sending(
        daemon,
        stack,
        lambda address: {"Cache": {"Exports": [{"Type": "registry", "Attrs": {"ref": f"{address}/x", "mode": "max"}}]}},
    )


def checking(daemon: Daemon, stack: contextlib.ExitStack) -> list[Link]:
    client = Client(stalls=True, name="Dockerfile")
    id, link = stack.enter_context(session(daemon, client))
    calls = stack.enter_context(running(dial(daemon, "/grpc"), True))
    asked: control.SolveRequest = {
        "Ref": uuid.uuid4().hex,
        "Session": id,
        "Frontend": "dockerfile.v0",
        "FrontendAttrs": {"requestid": "frontend.lint"},
    }
    later(lambda: unary(calls, SOLVE, *methods.TABLES[SOLVE], asked))
    assert client.asked.wait(LONG)
    return [link, calls]


def later(work: Callable[[], object]) -> None:
    def run() -> None:
        with contextlib.suppress(EngineError):  # it is ended
            work()

    threading.Thread(target=run, daemon=True).start()


def whole(daemon: Daemon) -> None:
    """A build of the same client that ends well: nothing is held any more that it needs."""
    writer = Writer()
    with session(daemon, Client(stalls=False)) as (id, _), running(dial(daemon, "/grpc"), True) as link:
        for result in (writer.local("context"), commanded(writer, f"cat /s; echo {uuid.uuid4()} > /c/x")):
            asked: control.SolveRequest = {
                "Ref": uuid.uuid4().hex,
                "Session": id,
                "Definition": writer.definition(result),
            }
            unary(link, SOLVE, *methods.TABLES[SOLVE], asked)


MOMENTS = (idling, transferring, commanding, conversed, fronted, exporting, pushing, caching, checking)


@pytest.mark.parametrize("first", [0, 1], ids=["session", "call"])
@pytest.mark.parametrize("begin", MOMENTS, ids=lambda each: each.__name__)
def test_a_client_that_is_gone(crashing: Daemon, begin: Begin, first: int) -> None:
    """One of its connections is over; the other one would stay for ever."""
    with contextlib.ExitStack() as stack:
        links = begin(crashing, stack)
        assert left(crashing)
        links[first].close()
        until(lambda: not left(crashing))
        assert not left(crashing)
    whole(crashing)


@pytest.mark.parametrize("begin", MOMENTS, ids=lambda each: each.__name__)
def test_a_daemon_that_is_killed(crashing: Daemon, begin: Begin) -> None:
    with contextlib.ExitStack() as stack:
        begin(crashing, stack)
        crashing.kill9()
    crashing.start()
    until(lambda: not left(crashing))
    assert not left(crashing)
    whole(crashing)
