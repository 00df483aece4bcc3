"""What the daemon tells the service manager."""

import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.daemon import notify


@pytest.fixture(params=["path", "abstract"])
def told(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A manager's socket, named in the environment."""
    name = str(tmp_path / "notify") if request.param == "path" else f"@engine-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind("\0" + name[1:] if name.startswith("@") else name)
        listening.settimeout(30)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        yield listening


def test_each_state_is_one_datagram(told: socket.socket) -> None:
    manager = notify.manager()
    manager.ready()
    manager.reloading()
    manager.stopping()
    manager.stopping(2.5)
    assert told.recv(1000) == b"READY=1"
    state, _, since = told.recv(1000).partition(b"\nMONOTONIC_USEC=")
    assert (state, since.isdigit()) == (b"RELOADING=1", True)
    assert told.recv(1000) == b"STOPPING=1"
    assert told.recv(1000) == b"STOPPING=1\nEXTEND_TIMEOUT_USEC=2500000"


def test_no_program_that_the_daemon_runs_inherits_the_address(told: socket.socket) -> None:
    notify.manager()
    assert "NOTIFY_SOCKET" not in os.environ


def test_without_a_manager_nothing_is_told(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify.manager().ready()
    assert not caplog.records


def test_a_manager_that_cannot_be_told_is_logged(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    caplog.set_level(logging.WARNING)
    notify.Manager(str(tmp_path / "none")).ready()
    assert "could not be told READY=1" in caplog.text
