"""Detach keys, as docker writes them; and the log of JSON lines that follows the head when that was read."""

import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

import _muxer
from engine.daemon.containers import paths
from engine.daemon.containers.output import attach, head
from engine.daemon.containers.output.attach import DEFAULT_DETACH_KEYS, AskedAttach, parse_detach_keys
from engine.daemon.runtime.events import Events
from engine.errors import Invalid
from engine.logs.drivers import jsonfile
from engine.logs.jsonwriter import JsonWriter
from engine.logs.writer import Writer
from tests.harness.parts import Parts, settings
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


@pytest.mark.parametrize("muxer", ["python", *(("c",) if _muxer.built() else ())])
@pytest.mark.parametrize("driver", ["json-file", "local"])
@pytest.mark.parametrize("jump", [-1, 1], ids=["set back", "set forward"])
def test_who_waits_for_a_start_gets_the_log_of_earlier_runs_whatever_the_clock_does(
    tmp_path, monkeypatch, muxer, driver, jump
):
    """The clock jumps before the client comes and before the start, which is while the log is read."""
    client, connection = socket.socketpair()
    client.settimeout(10)
    subject = container("exited")
    subject.config.update(Tty=False, Labels=None)
    subject.host_config["LogConfig"] = {"Type": driver, "Config": {}}
    engine = Parts(events=Events(), settings=settings(data_root=str(tmp_path)), muxer=muxer, plugins=None)
    home = paths.of(str(tmp_path), engine.settings.exec_root, subject.id)
    os.makedirs(home.home)
    year = 365 * 24 * 3600 * 10**9
    log = JsonWriter(home.home, jsonfile.file(subject.id)) if driver == "json-file" else Writer(home.log)

    def write(text: bytes, years: int) -> None:
        now = time.time_ns()
        with monkeypatch.context() as patched:
            patched.setattr(time, "time_ns", lambda: now + years * year)
            log.append(1, text)

    monkeypatch.setattr(head, "await_read", lambda _: write(b"new run\n", jump))
    with log, client:
        write(b"earlier\n", -jump)
        asked = AskedAttach(logs=True, stream=True, stdin=False, stdout=True, stderr=True, framed=False)
        attach.attach(engine, subject, asked, lambda: None, lambda: connection)
        ((_, waiting),) = subject.waiting
        waiting.sendall(b"|live")
        waiting.close()
        said = b""
        while data := client.recv(100):
            said += data
    assert said == b"earlier\n|live"


def test_a_client_that_reads_nothing_is_not_waited_for_long(monkeypatch):
    monkeypatch.setattr(head, "_SECONDS", 0.01)
    client, connection = socket.socketpair()
    with client, connection:
        connection.sendall(b"head")
        head.await_read(connection)
