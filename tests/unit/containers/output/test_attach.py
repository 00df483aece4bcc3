"""Detach keys, as docker writes them; and the log of JSON lines that follows the head when that was read."""

import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from engine.daemon.containers.output import attach, head
from engine.daemon.containers.output.attach import DEFAULT_DETACH_KEYS, AskedAttach, parse_detach_keys
from engine.daemon.runtime.events import Events
from engine.errors import Invalid
from tests.harness.parts import Parts
from tests.unit.containers.test_states import container


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (DEFAULT_DETACH_KEYS, b"\x10\x11"),
        ("ctrl-@", b"\0"),
        ("a,b", b"ab"),
        ("ctrl-[,x", b"\x1bx"),
        ("ctrl-_", b"\x1f"),
    ],
)
def test_keys_become_bytes(text, keys):
    assert parse_detach_keys(text) == keys


@pytest.mark.parametrize("text", ["ctrl-", "ctrl-é", "ab", "", "a,,b", "ctrl-1", ",".join("a" * 65)])
def test_other_texts_are_refused(text):
    with pytest.raises(Invalid, match="Invalid detach keys"):
        parse_detach_keys(text)


@dataclass
class Links:
    """The links to monitors, with what is done when a message is sent to one."""

    send: Callable[..., None]


@pytest.mark.parametrize("stream", [False, True], ids=["logs", "logs and stream"])
def test_the_log_follows_when_the_head_was_read(monkeypatch, stream):
    client, connection = socket.socketpair()
    subject = container("running")
    subject.config.update(Tty=False, Labels=None)
    subject.host_config["LogConfig"] = {"Type": "json-file", "Config": {}}
    unread = threading.Event()
    look = head.time.sleep

    def watched(seconds):
        unread.set()
        look(seconds)

    client.settimeout(10)

    def follow(*_, **__):
        connection.sendall(b"log")

    monkeypatch.setattr(head.time, "sleep", watched)
    monkeypatch.setattr(attach.logs, "send", follow)
    engine = Parts(monitors=Links(follow), events=Events())
    asked = AskedAttach(logs=True, stream=stream, stdin=False, stdout=True, stderr=True)

    def hijack():
        connection.sendall(b"head")
        return connection

    serving = threading.Thread(target=attach.attach, args=(engine, subject, asked, lambda: None, hijack))
    serving.start()
    with client:
        assert unread.wait(10)
        assert client.recv(100) == b"head"
        assert client.recv(100) == b"log"
    serving.join(10)


def test_a_client_that_reads_nothing_is_not_waited_for_long(monkeypatch):
    monkeypatch.setattr(head, "_SECONDS", 0.01)
    client, connection = socket.socketpair()
    with client, connection:
        connection.sendall(b"head")
        head.await_read(connection)
