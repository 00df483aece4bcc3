"""The C muxer and its Python twins for the tests of both: fixtures, for a conftest to import."""

import os
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass

import pytest

import _muxer
from engine.logs.sending import sender
from engine.logs.writer import Writer
from engine.monitor import contract
from engine.monitor.parts import parts
from tests.unit.muxer.played import Container


@dataclass(frozen=True)
class Twin:
    """All of one implementation. name: `c` or `python`; send: what `engine.logs.sending.sender` gives for it"""

    name: str
    Pump: type[contract.Pump]
    Waiters: type[contract.Waiters]
    send: Callable[..., bool]


def select(name: str) -> Twin:
    """The implementation of that name."""
    made_of = parts(name)
    return Twin(name, made_of.Pump, made_of.Waiters, sender(name))


@pytest.fixture(params=["python", "c"])
def twin(request):
    """Both implementations, one after the other."""
    if request.param == "c" and not _muxer.built():
        pytest.skip("the C muxer is not built: python3 -m _muxer.build")
    return select(request.param)


@pytest.fixture
def served(twin):
    """A function that returns all the bytes which `send` writes for a query."""

    def serve(directory, query, chunked=False, ended_fd=None) -> bytes:
        near, far = socket.socketpair()
        received = bytearray()
        with near, far:
            reading = threading.Thread(target=_read_all, args=(near, received))
            reading.start()
            assert twin.send(str(directory), far.fileno(), query, chunked, ended_fd)
            far.shutdown(socket.SHUT_WR)
            reading.join()
        return bytes(received)

    return serve


def _read_all(source: socket.socket, into: bytearray) -> None:
    while data := source.recv(65536):
        into += data


@pytest.fixture
def pipe():
    """A function that makes a pipe and closes what is left of all of them at the end."""
    made = []

    def make() -> tuple[int, int]:
        made.extend(os.pipe())
        return made[-2], made[-1]

    yield make
    for fd in made:
        try:
            os.close(fd)
        except OSError:
            pass  # the pump closed its own


@pytest.fixture
def container(twin, tmp_path):
    """A function that makes a played container with a log (or none), and puts it away at the end."""
    made = []

    def make(log=True, max_size=0, max_files=1, **options) -> Container:
        writer = Writer(str(tmp_path / "log"), max_size, max_files) if log else None
        made.append(Container(twin, writer, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()
        if one.log:
            one.log.close()
