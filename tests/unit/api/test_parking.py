"""Tests of answers that wait without a thread (`api.parking`), through a real acceptor on a Unix socket."""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from engine.daemon import busy
from engine.daemon.api.acceptor import Acceptor
from engine.daemon.api.answers import Response, Text
from engine.daemon.api.listeners import Listener, bind_unix
from engine.daemon.api.request import Request
from engine.daemon.api.streams import ClientGone
from engine.daemon.runtime import worker

SECONDS = 20


class Waiting:
    """An application with one answer that waits for a bell, and what has come of those that waited."""

    def __init__(self) -> None:
        self.bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.bells = {"/wait/other": os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)}
        self.listening, self.may_wait, self.may_answer = threading.Event(), threading.Event(), threading.Event()
        self.may_answer.set()
        self.gone: list[str] = []
        self.full = False
        self.held = False

    def __call__(self, request: Request) -> Response | None:
        if request.path == "/listen":
            with request.stream(200, "text/plain"):
                self.listening.set()
                self.may_wait.wait(SECONDS)
                request.wait(self.bell, None)
            return None
        if not request.path.startswith("/wait"):
            return Text(request.path)
        request.park(self.steps(request, self.bells.get(request.path, self.bell)))
        if request.path == "/wait/refused":
            request.abort()
        return None

    def steps(self, request: Request, bell: int) -> Generator[int, None, None]:
        """Wait for the bell, and tell it."""
        with request.stream(200, "text/plain") as stream:
            request.shared(lambda: self.held)
            if self.full:
                fill(request.fileno())
            try:
                yield bell
            except ClientGone as error:
                self.gone.append(str(error))
                raise
            if bell == self.bell:
                self.may_answer.wait(SECONDS)
            if request.path == "/wait/broken":
                raise ValueError("broken")
            stream.end(b"rung")

    def ring(self) -> None:
        """Let all go on that wait."""
        os.eventfd_write(self.bell, 1)


def fill(descriptor: int) -> None:
    """Send a client so much that nothing more finds room."""
    with socket.socket(fileno=os.dup(descriptor)) as other, contextlib.suppress(BlockingIOError):
        while True:
            other.send(b"x" * 4096, socket.MSG_DONTWAIT)


@pytest.fixture
def waiting() -> Iterator[Waiting]:
    """The application, without anything at work before or after."""
    made = Waiting()
    yield made
    for bell in (made.bell, *made.bells.values()):
        os.close(bell)


@pytest.fixture
def server(waiting: Waiting, tmp_path: Path) -> Iterator[Acceptor]:
    """Serves it on a socket `s`."""
    made = Acceptor([Listener(bind_unix(str(tmp_path / "s"), ""), "s", path=str(tmp_path / "s"))], waiting)
    made.start()
    yield made
    made.stop(1)


def connected(tmp_path: Path) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(SECONDS)
    client.connect(str(tmp_path / "s"))
    return client


def ask(client: socket.socket, path: str, until: bytes) -> bytes:
    """Send a request, and read its answer up to these bytes."""
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    return read(client, until)


def read(client: socket.socket, until: bytes) -> bytes:
    found = b""
    while until not in found:
        piece = client.recv(65536)
        assert piece, found
        found += piece
    return found


def true_soon(what: str, says: object) -> None:
    """Wait until a function returns something true."""
    end = time.monotonic() + SECONDS
    while not says():
        assert time.monotonic() < end, what
        time.sleep(0.005)


def test_many_wait_in_one_thread_and_go_on_with_their_connections(
    server: Acceptor, waiting: Waiting, tmp_path: Path
) -> None:
    """Each is told once, and its connection is good for another request, and another wait."""
    before = threading.active_count()
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connected(tmp_path)) for _ in range(50)]
        for client in clients:
            ask(client, "/wait", b"\r\n\r\n")
        true_soon("the threads have ended", lambda: threading.active_count() <= before + 1)
        assert busy.idle_since() is None
        waiting.ring()
        for client in clients:
            assert b"rung" in read(client, b"0\r\n\r\n")
        true_soon("nothing is at work", lambda: busy.idle_since() is not None)
        os.eventfd_read(waiting.bell)
        assert all(b"/again" in ask(client, "/again", b"/again") for client in clients)
        ask(clients[0], "/wait", b"\r\n\r\n")
        waiting.ring()
        assert b"rung" in read(clients[0], b"0\r\n\r\n")
    true_soon("all are gone", lambda: not server._connections)
    true_soon("no thread is left", lambda: threading.active_count() <= before)


def test_a_client_that_hangs_up_ends_its_wait_and_no_other(server: Acceptor, waiting: Waiting, tmp_path: Path) -> None:
    """Whether it was the only one for its bell or not."""
    with connected(tmp_path) as stays:
        with connected(tmp_path) as goes:
            ask(stays, "/wait", b"\r\n\r\n")
            ask(goes, "/wait", b"\r\n\r\n")
        true_soon("it was noticed", lambda: len(waiting.gone) == 1)
        assert len(server._connections) == 1
        waiting.ring()
        assert b"rung" in read(stays, b"0\r\n\r\n")
    true_soon("nothing is at work", lambda: busy.idle_since() is not None)


def test_a_client_that_reads_nothing_holds_up_nobody(server: Acceptor, waiting: Waiting, tmp_path: Path) -> None:
    """Its answer is sent in a thread of its own, whenever it reads."""
    with connected(tmp_path) as slow, connected(tmp_path) as quick:
        waiting.full = True
        ask(slow, "/wait", b"\r\n\r\n")
        true_soon("it waits", lambda: any(each.parked for each in server._connections))
        waiting.full = False
        ask(quick, "/wait", b"\r\n\r\n")
        waiting.ring()
        assert b"rung" in read(quick, b"0\r\n\r\n")
        assert b"rung" in read(slow, b"0\r\n\r\n")


def test_who_asks_to_close_is_closed_after_the_answer(server: Acceptor, waiting: Waiting, tmp_path: Path) -> None:
    """And what is sent meanwhile is the next request."""
    with connected(tmp_path) as client:
        client.sendall(b"GET /wait HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        read(client, b"\r\n\r\n")
        waiting.ring()
        assert read(client, b"0\r\n\r\n").endswith(b"0\r\n\r\n")
        assert client.recv(1) == b""
    os.eventfd_read(waiting.bell)
    with connected(tmp_path) as client:
        ask(client, "/wait", b"\r\n\r\n")
        client.sendall(b"GET /next HTTP/1.1\r\nHost: x\r\n\r\n")
        waiting.ring()
        assert b"rung" in read(client, b"/next")


def test_a_stop_ends_who_waits_but_not_who_is_answered_by_another(
    server: Acceptor, waiting: Waiting, tmp_path: Path
) -> None:
    """A monitor has a copy of that connection."""
    with connected(tmp_path) as client:
        ask(client, "/wait", b"\r\n\r\n")
        true_soon("it waits", lambda: any(each.parked for each in server._connections))
        waiting.held = True
        server.stop(0.1)
        assert waiting.gone == []
        waiting.held = False
        server.stop(0.1)
        assert client.recv(1) == b""
        assert len(waiting.gone) == 1


def test_a_stop_ends_a_thread_that_is_about_to_wait(server: Acceptor, waiting: Waiting, tmp_path: Path) -> None:
    """Once, and at once: nobody watches it."""
    with connected(tmp_path) as client:
        client.sendall(b"GET /listen HTTP/1.1\r\nHost: x\r\n\r\n")
        assert waiting.listening.wait(SECONDS)
        stopping = threading.Thread(target=server.stop, args=(SECONDS,))
        stopping.start()
        true_soon("it stops", lambda: server._closing.is_set())
        waiting.may_wait.set()
        stopping.join(SECONDS / 2)
        assert not stopping.is_alive() and not server._connections


def test_what_holds_up_one_answer_holds_up_no_other(server: Acceptor, waiting: Waiting, tmp_path: Path) -> None:
    """Unless both wait for the same."""
    waiting.may_answer.clear()
    with connected(tmp_path) as held, connected(tmp_path) as other:
        ask(held, "/wait", b"\r\n\r\n")
        ask(other, "/wait/other", b"\r\n\r\n")
        waiting.ring()
        true_soon("it has gone on", lambda: len(server._parking._parked) == 1)
        os.eventfd_write(waiting.bells["/wait/other"], 1)
        other.settimeout(SECONDS / 2)  # the held one goes on by itself after SECONDS
        assert b"rung" in read(other, b"0\r\n\r\n")
        waiting.may_answer.set()
        assert b"rung" in read(held, b"0\r\n\r\n")


def test_an_answer_that_may_not_be_given_is_given_up(server: Acceptor, waiting: Waiting, tmp_path: Path) -> None:
    """As an authorization plugin wants it, which is asked after the answer's first step."""
    with connected(tmp_path) as client:
        assert b"0\r\n\r\n" not in ask(client, "/wait/refused", b"\r\n\r\n")
        assert client.recv(1) == b""
    assert len(waiting.gone) == 1
    true_soon("it is gone", lambda: not server._connections)
    assert busy.idle_since() is not None


def test_an_answer_that_fails_is_the_only_one(server: Acceptor, waiting: Waiting, tmp_path: Path) -> None:
    with connected(tmp_path) as one, connected(tmp_path) as broken, connected(tmp_path) as two:
        for client, path in ((one, "/wait"), (broken, "/wait/broken"), (two, "/wait")):
            ask(client, path, b"\r\n\r\n")
        true_soon("they wait", lambda: len(server._parking._parked) == 3)
        waiting.ring()
        assert b"rung" in read(one, b"0\r\n\r\n") and b"rung" in read(two, b"0\r\n\r\n")
        assert broken.recv(1) == b""
    true_soon("all are gone", lambda: not server._connections)
    assert busy.idle_since() is not None


def test_the_rest_of_a_connection_waits_for_a_thread(
    server: Acceptor, waiting: Waiting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the host has none to give at that moment; another one gets its answer meanwhile."""
    begun: list[Callable[[], None]] = []
    with connected(tmp_path) as slow, connected(tmp_path) as quick:
        waiting.full = True
        ask(slow, "/wait", b"\r\n\r\n")
        true_soon("it waits", lambda: len(server._parking._parked) == 1)
        waiting.full = False
        ask(quick, "/wait", b"\r\n\r\n")
        true_soon("both wait", lambda: len(server._parking._parked) == 2)
        monkeypatch.setattr(worker, "begin", lambda _name, work: begun.append(work))
        waiting.ring()
        assert b"rung" in read(quick, b"0\r\n\r\n")
        true_soon("it is owed", lambda: len(begun) == 2)  # and a watch over the quick one
        monkeypatch.undo()
        for work in begun:
            worker.begin("owed", work)
        assert b"rung" in read(slow, b"0\r\n\r\n")


def test_who_asks_to_close_takes_no_thread(
    server: Acceptor, waiting: Waiting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connected(tmp_path)) for _ in range(20)]
        for client in clients:
            client.sendall(b"GET /wait HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            read(client, b"\r\n\r\n")
        true_soon("all wait", lambda: len(server._parking._parked) == 20)
        begun: list[str] = []
        monkeypatch.setattr(worker, "begin", lambda name, _work: begun.append(name))
        waiting.ring()
        for client in clients:
            assert read(client, b"0\r\n\r\n").endswith(b"0\r\n\r\n") and client.recv(1) == b""
        assert begun == []
