"""Connecting to programs outside: each kind of address, and Go's words for what fails."""

import socket
import time

import pytest

from engine.asking import addressing, dial
from engine.errors import Invalid, SystemFailure


def test_each_kind_of_address(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with dial.dial("tcp", f"127.0.0.1:{listener.getsockname()[1]}", 5) as made:
            assert made.getpeername() == listener.getsockname()
            assert made.gettimeout() is None
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        dial.dial("unix", str(tmp_path / "s"), 5).close()


@pytest.mark.parametrize(
    ("kind", "place", "words"),
    [
        ("tcp", "127.0.0.1:1", r"^dial tcp 127\.0\.0\.1:1: connect: connection refused$"),
        ("unix", "/nope/s", r"^dial unix /nope/s: connect: no such file or directory$"),
        ("tcp", "a\0b:1", r"^dial tcp: lookup a\0b:1: no such host$"),
        ("unix", "/" + "x" * 300, r"^dial unix /x+: connect: af_unix path too long$"),
    ],
)
def test_what_fails_is_told_in_gos_words(kind, place, words):
    with pytest.raises(SystemFailure, match=words):
        dial.dial(kind, place, 5)


def test_a_peer_can_read_all_that_was_sent_to_it():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = dial.dial("tcp", f"127.0.0.1:{listener.getsockname()[1]}", 5)
        peer, _ = listener.accept()
        with peer:
            peer.sendall(b"which nobody reads")
            made.sendall(b"last words")
            begun = time.monotonic()
            dial.leave(made, 0.3)
            assert 0.2 < time.monotonic() - begun < 5
            assert peer.recv(100) == b"last words"
            assert peer.recv(100) == b""


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("udp://h:1", ("udp", "h", "1", "")),
        ("TCP://[::1]:2/p?q", ("tcp", "::1", "2", "/p?q")),
        ("http://user:word@h", ("http", "h", "", "")),
        ("unix:///a/b", ("unix", "", "", "/a/b")),
        ("no address", ("", "", "", "no address")),
    ],
)
def test_an_address_has_parts(text, parts):
    url = addressing.parsed(text)
    assert (url.scheme, url.host, url.port, url.rest) == parts


@pytest.mark.parametrize("text", ["tcp://[::1", "tcp://h:x", "tcp://h:1\n", "tcp://a b:1", "tcp://[::1]x"])
def test_what_is_no_address(text):
    with pytest.raises(Invalid, match=r"^parse "):
        addressing.parsed(text)


def test_a_host_of_any_script_has_an_ascii_form():
    assert addressing.ascii_host("bücher.example") == "xn--bcher-kva.example"
    assert addressing.joined("::1", 5) == "[::1]:5"
