"""Files of the web: found through redirects, never endless, and told of in the words of Go's client."""

import socket
import threading
import time

import pytest

from engine.daemon.images.archives import remote
from engine.daemon.images.registry import paced, transport
from engine.errors import EngineError, Forbidden, Invalid, NotFound, SystemFailure, Unauthorized
from tests.harness import web

PAGES = {
    "/file": (200, {}, b"x" * 1000),
    "/large": (200, {}, b"x" * (1 << 20)),
    "/moved": (301, {"Location": "elsewhere/again"}, b""),
    "/elsewhere/again": (307, {"Location": "/file"}, b"not this"),
    "/round": (302, {"Location": "/round"}, b""),
    "/away": (302, {"Location": "file:///etc/passwd"}, b""),
    "/nowhere": (302, {}, b""),
    "/nonsense": (302, {"Location": "//[x"}, b""),
    "/short": (200, {"Content-Length": "2000"}, b"x" * 1000),
    "/secret": (401, {}, b"who are you\n"),
    "/forbidden": (403, {}, b""),
    "/broken": (500, {}, b"e" * 5000),
}


@pytest.fixture(scope="module")
def server():
    with web.serving(PAGES) as url:
        yield url


def whole(url, **options):
    with remote.opened(url, **options) as found:
        data = b""
        while piece := found.read():
            data += piece
        return data, found


def test_a_file_is_found_through_redirects(server):
    seen = []
    data, found = whole(f"{server}/moved", progress=seen.append)
    assert (data, found.url, found.size, seen[-1]) == (b"x" * 1000, f"{server}/file", 1000, 1000)


@pytest.mark.parametrize(
    ("path", "kind", "text"),
    [
        ("/round", SystemFailure, "stopped after 10 redirects"),
        ("/away", SystemFailure, 'unsupported protocol scheme "file"'),
        ("/nowhere", SystemFailure, "with status 302"),
        ("/nonsense", SystemFailure, "unsupported URL"),
        ("/short", SystemFailure, "unexpected EOF"),
        ("/gone", NotFound, "with status 404 Not Found: no such page$"),
        ("/secret", Unauthorized, "401 Unauthorized: who are you$"),
        ("/forbidden", Forbidden, "403"),
        ("/broken", SystemFailure, "with status 500 Internal Server Error: e{1024}$"),
    ],
)
def test_failures_are_told(server, path, kind, text):
    with pytest.raises(kind, match=text):
        whole(server + path)


@pytest.mark.parametrize("url", ["ftp://x/y", "http://[::1", "http://[x]/", "http://x:99999/"])
def test_only_the_web_is_asked(url):
    with pytest.raises((Invalid, SystemFailure)), remote.opened(url):
        pytest.fail("it was opened")


def test_what_is_too_large_is_refused_when_it_is(server):
    with pytest.raises(Invalid, match="more than the 999 bytes"):
        whole(f"{server}/file", most=999)


def test_a_server_that_trickles_is_given_up(server, monkeypatch):
    """The minimum rate is that of a registry's blobs; here it is one that no server has."""
    with remote.opened(f"{server}/large") as found:
        monkeypatch.setattr(paced, "SILENCE_SECONDS", 0.0)
        monkeypatch.setattr(paced, "_LEAST_RATE", 1 << 60)
        with pytest.raises(SystemFailure, match="bytes a second"):
            while found.read():
                pass


def test_no_failure_tells_the_password_of_a_url(server):
    with_password = server.replace("://", "://me:topsecret@")
    for url in (
        f"{with_password}/gone",
        f"{with_password}/round",
        "http://me:topsecret@127.0.0.1:1/file",
        "http://me:topsecret@127.0.0.1:x/",
    ):
        with pytest.raises(EngineError) as failure:
            whole(url)
        assert "xxxxx:xxxxx@127.0.0.1" in str(failure.value) and "topsecret" not in str(failure.value)
    with pytest.raises(Invalid, match=r"//xxxxx:xxxxx@.* more than the 999 bytes"):
        whole(f"{with_password}/file", most=999)
    with pytest.raises(NotFound, match=r"//xxxxx:xxxxx@127.0.0.1"):  # the last @ ends the password
        whole(f"{server}/gone".replace("://", "://me@home:top@secret@"))


def test_nobody_listens():
    with pytest.raises(
        SystemFailure, match=r'^Get "http://127.0.0.1:1/x": dial tcp 127.0.0.1:1: connect: connection ref'
    ):
        whole("http://127.0.0.1:1/x")


def test_a_large_file_may_take_its_time(server, monkeypatch):
    """How long a document may take says nothing of a file that comes at a good speed."""
    real = transport.Transport.send

    def send(*arguments):
        monkeypatch.setattr(paced, "_DOCUMENT_SECONDS", 120.0)
        try:
            return real(*arguments)
        finally:
            monkeypatch.setattr(paced, "_DOCUMENT_SECONDS", 0.0)

    monkeypatch.setattr(transport.Transport, "send", send)
    assert len(whole(f"{server}/large")[0]) == 1 << 20


class Gone(EngineError):
    """Nobody waits any more."""


@pytest.mark.parametrize(
    "sent", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\nbegun"], ids=["head", "body"]
)
def test_a_silent_server_holds_nobody_who_does_not_wait(sent: bytes) -> None:
    """It says nothing, or stops in the middle; it would be given up after a minute."""
    waits = threading.Event()
    threading.Timer(0.3, waits.set).start()

    def check() -> None:
        if waits.is_set():
            raise Gone("the client has gone")

    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            peer, _ = listening.accept()
            with peer:
                peer.sendall(sent)
                while peer.recv(1000):
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        began = time.monotonic()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/x"
        with pytest.raises(Gone), remote.opened(url, check=check) as found:
            while found.read():
                pass
        assert time.monotonic() - began < 20
        thread.join(20)
        assert not thread.is_alive()
