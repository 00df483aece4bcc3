"""How a monitor wakes an engine that sleeps, in Python; in C it is part of the keeper's tests."""

import socket
from pathlib import Path

import pytest

from engine.wire import wakeup


@pytest.fixture
def listener(tmp_path: Path) -> socket.socket:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.listen(0)
        listening.setblocking(False)
        yield listening


def calls(listening: socket.socket) -> int:
    """How many have connected and hung up."""
    count = 0
    while True:
        try:
            peer, _ = listening.accept()
        except BlockingIOError:
            return count
        with peer:
            assert peer.recv(1) == b""
        count += 1


def test_whoever_is_named_is_called(tmp_path: Path, listener: socket.socket) -> None:
    wakeup.leave(str(tmp_path), str(tmp_path / "s"))
    wakeup.call(str(tmp_path))
    assert calls(listener) == 1


def test_where_nobody_is_named_nobody_is_called(tmp_path: Path, listener: socket.socket) -> None:
    wakeup.call(str(tmp_path))
    (tmp_path / "wake").write_bytes(b"")
    wakeup.call(str(tmp_path))
    assert calls(listener) == 0


@pytest.mark.parametrize("said", [b"/nowhere/at/all", b"x" * 108, b"\xff\x00/s", b"relative"])
def test_a_call_that_reaches_nobody_is_no_failure(tmp_path: Path, said: bytes) -> None:
    (tmp_path / "wake").write_bytes(said)
    wakeup.call(str(tmp_path))


def test_a_queue_that_is_full_is_not_waited_for(tmp_path: Path, listener: socket.socket) -> None:
    """Whoever waits there wakes the engine too."""
    wakeup.leave(str(tmp_path), str(tmp_path / "s"))
    for _ in range(5):
        wakeup.call(str(tmp_path))
    assert 1 <= calls(listener) < 5
