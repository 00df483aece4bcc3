"""The demo's private daemon: how long it is waited for, where it lives, and what is said when it does not start."""

import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.client import demo
from engine.errors import Unavailable


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The log of a daemon that has said one thing."""
    path = tmp_path / "daemon.log"
    path.write_text("the words of the daemon\n")
    return path


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A daemon that starts, and starts, ..."""
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as made:
        yield made
        made.kill()


def test_a_slow_daemon_is_waited_for(tmp_path: Path, log: Path, process, capsys, monkeypatch) -> None:
    monkeypatch.setattr(demo, "_PATIENCE", 0.0)
    path = str(tmp_path / "s")
    listener = socket.socket(socket.AF_UNIX)

    def answer() -> None:
        listener.bind(path)
        listener.listen()
        with listener.accept()[0] as client:
            client.recv(4096)
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    later = threading.Timer(0.2, answer)
    later.start()
    demo._until_it_answers(process, path, log)
    later.join()
    listener.close()
    assert capsys.readouterr().out == "The private daemon is slow to start; the demo waits up to 120 s.\n"


@pytest.mark.parametrize(
    ("said", "shown"), [("the words of the daemon\n", "the words of the daemon"), ("", "(it is empty)")]
)
def test_a_daemon_that_never_answers_is_given_up_with_its_log(log: Path, process, monkeypatch, said, shown) -> None:
    monkeypatch.setattr(demo, "_START_TIMEOUT", 0.05)
    log.write_text(said)
    with pytest.raises(Unavailable) as found:
        demo._until_it_answers(process, "/nowhere", log)
    assert str(found.value) == f"the private daemon gave no answer within 0 s. Its log:\n{shown}"


def test_a_daemon_that_ends_is_given_up_at_once(log: Path, process) -> None:
    process.stdin.close()
    process.wait()
    with pytest.raises(Unavailable, match=r"ended with status 0. Its log:\nthe words of the daemon"):
        demo._until_it_answers(process, "/nowhere", log)


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host on which `tempfile` finds no directory to write to."""

    def refuse(*_: object) -> str:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", refuse)


def test_without_a_temporary_directory_there_is_room_in_memory(nowhere, monkeypatch, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.setattr(demo, "_MORE_ROOM", (str(tmp_path / "missing"), str(tmp_path / "other")))
    monkeypatch.setattr(demo, "_LONGEST_SOCKET", 1000)  # the path of a test's own directory is long
    with demo._room() as name:
        assert os.path.dirname(name) == str(tmp_path / "other")
    assert list((tmp_path / "other").iterdir()) == []


def test_without_any_room_it_says_where_it_looked(nowhere, monkeypatch) -> None:
    monkeypatch.setattr(demo, "_MORE_ROOM", ("/nowhere/at/all",))
    with pytest.raises(Unavailable) as found:
        demo._room()
    assert str(found.value) == (
        "no temporary directory can be used (No usable temporary directory found in ['/tmp'];"
        " /nowhere/at/all: No such file or directory): name one with TMPDIR=DIR"
    )


def test_a_directory_whose_name_is_too_long_for_a_socket_is_not_used(monkeypatch, tmp_path: Path) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    (tmp_path / "o").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    monkeypatch.setattr(demo, "_MORE_ROOM", ())
    with pytest.raises(Unavailable, match="too long for the path of a socket"):
        demo._room()
    assert list(long.iterdir()) == []
