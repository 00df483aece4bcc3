"""Reading ahead: the same bytes, the same failures, and no thread that stays."""

import io
import os
import threading

import pytest

from engine.daemon.tar.ahead import Ahead
from engine.errors import Invalid


class Source(io.RawIOBase):
    """Gives what it has in pieces, then fails, waits, or ends."""

    def __init__(self, data, piece=1000, then=None):
        self.data = io.BytesIO(data)
        self.piece = piece
        self.then = then
        self.reads = 0

    def readable(self):
        return True

    def readinto(self, buffer):
        self.reads += 1
        data = self.data.read(min(self.piece, len(buffer)))
        buffer[: len(data)] = data
        if not data and self.then is not None:
            self.then()
        return len(data)


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "read-ahead"]


@pytest.mark.parametrize("piece", [1, 1000, 1 << 20])
def test_the_bytes_are_the_same(piece):
    data = os.urandom(3000 if piece == 1 else 1_000_000)
    with Ahead(Source(data, piece), pytest.fail) as ahead:
        assert io.BufferedReader(ahead, 70_000).read() == data
        assert ahead.read(10) == b""
    assert threads() == []


def test_a_failure_comes_in_its_place_and_again():
    def fail():
        raise Invalid("damaged")

    with Ahead(Source(b"good", then=fail), pytest.fail) as ahead:
        assert ahead.read(100) == b"good"
        for _ in range(2):
            with pytest.raises(Invalid, match="damaged"):
                ahead.read(100)
    assert threads() == []


def test_who_stops_early_waits_for_nobody():
    waiting = threading.Event()
    source = Source(b"x" * 10, then=lambda: waiting.wait(10))
    with Ahead(source, waiting.set) as ahead:
        assert ahead.read(1) == b"x"
    assert waiting.is_set()
    assert threads() == []


def test_no_more_is_read_ahead_than_a_few_blocks():
    source = Source(bytes(50_000_000), 1 << 20)
    with Ahead(source, lambda: None) as ahead:
        ahead.read(1)
    assert source.reads <= 6
