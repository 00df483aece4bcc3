"""The end of the connections of a daemon that falls asleep: no request is cut off whose head the daemon has taken."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.daemon.api import acceptor as module
from engine.daemon.api import connection
from engine.daemon.api.acceptor import Acceptor
from engine.daemon.api.answers import Text
from engine.daemon.api.listeners import Listener, bind_unix
from tests.harness.listening import until

SECONDS = 20
HEAD = b"POST /x HTTP/1.1\r\nContent-Length: 5\r\n\r\n"
GET = b"GET /x HTTP/1.1\r\n\r\n"


@pytest.fixture
def asked() -> list[str]:
    """The paths of the requests that were answered."""
    return []


@pytest.fixture
def server(tmp_path: Path, asked: list[str]) -> Iterator[Acceptor]:
    """Answers with the length of the body."""

    def answer(request) -> Text:
        asked.append(request.path)
        return Text(f"{len(request.body.read())} bytes")

    made = Acceptor([Listener(bind_unix(str(tmp_path / "s"), ""), "s", path=str(tmp_path / "s"))], answer)
    made.start()
    yield made
    made.stop(1)


@pytest.fixture
def client(server: Acceptor, tmp_path: Path) -> Iterator[socket.socket]:
    """One that was answered before, and is waited for."""
    with socket.socket(socket.AF_UNIX) as made:
        made.settimeout(SECONDS)
        made.connect(str(tmp_path / "s"))
        made.sendall(GET)
        assert made.recv(4096).endswith(b"0 bytes")
        until(lambda: not any(each.asked for each in server._connections))
        yield made


def test_a_head_that_was_taken_a_moment_ago_is_a_request(
    server: Acceptor, client: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that has taken it has not yet come to say that it is at work."""
    taken, goes_on = threading.Event(), threading.Event()
    serve = connection.busy.serve

    def late(*words: str) -> None:
        taken.set()
        assert goes_on.wait(SECONDS)
        serve(*words)

    monkeypatch.setattr(connection.busy, "serve", late)
    client.sendall(HEAD)
    assert taken.wait(SECONDS)
    server.hold()
    assert not server.part(0.05)
    goes_on.set()
    server.reopen()
    client.sendall(b"12345")  # EPIPE, if the daemon had shut the connection
    assert client.recv(4096).endswith(b"5 bytes")
    until(lambda: server.part(SECONDS))  # once it is answered, the connection is one that waits for a request


@pytest.mark.parametrize(
    "sent",
    [HEAD, HEAD[:-2], GET[:-2], GET.replace(b"\r\n\r\n", b"\r\nUpgrade: tcp\r\n\r\n")],
    ids=["head", "half a head", "half a GET", "upgrade"],
)
def test_of_what_comes_at_that_moment_nothing_is_taken_that_is_not_whole(
    server: Acceptor, client: socket.socket, asked: list[str], monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(module, "_shut", _after(lambda: client.sendall(sent)))
    assert server.part(SECONDS)
    with pytest.raises(OSError):
        client.sendall(b"the rest")
    with contextlib.suppress(ConnectionResetError):
        assert client.recv(4096) == b""
    assert asked == ["/x"]


def test_a_whole_request_that_comes_at_that_moment_is_answered(
    server: Acceptor, client: socket.socket, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_shut", _after(lambda: client.sendall(GET)))
    server.part(SECONDS)
    assert client.recv(4096).endswith(b"0 bytes")
    assert asked == ["/x", "/x"]


def _after(act: Callable[[], None]) -> Callable[[socket.socket, int], None]:
    """`_shut`, which does something first."""
    shut = module._shut

    def late(peer: socket.socket, how: int) -> None:
        act()
        shut(peer, how)

    return late
