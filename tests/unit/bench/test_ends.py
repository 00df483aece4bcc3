"""Tests of `bench.ends` and `bench.inside`: the two ends of a measured conversation."""

import socket
import struct
import subprocess
import sys
import threading
from dataclasses import dataclass

import pytest

from bench import ends
from bench.inside import outer_pid


@pytest.fixture
def port():
    """Of a server on the loopback address, in a process of its own."""
    with socket.socket() as held:
        # Nobody else is given the port meanwhile; the server may have it, as both say that they share.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        number = str(held.getsockname()[1])
        command = [sys.executable, "-I", ends.__file__, "serve", "127.0.0.1", number]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
            assert server.stdout.readline() == b"ready\n"
            yield number
            server.kill()


def test_a_stream_is_counted_by_who_reads_it(port):
    assert ends.stream("127.0.0.1", port, "0.05") > 0  # a busy machine reads little


def test_round_trips_are_counted(port):
    assert ends.echo("127.0.0.1", port, "0.05") > 0  # a busy machine makes few


def test_only_right_answers_are_counted(monkeypatch):
    """A name that is not found is a failure, not a fast answer."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(30)
        connect = socket.socket.connect
        monkeypatch.setattr(socket.socket, "connect", lambda client, _: connect(client, server.getsockname()))

        def refuse() -> None:
            query, peer = server.recvfrom(512)
            server.sendto(query[:2] + struct.pack(">5H", 0x8183, 1, 0, 0, 0) + query[12:], peer)

        thread = threading.Thread(target=refuse)
        thread.start()
        with pytest.raises(SystemExit, match="other was not found"):
            ends.lookup("127.0.0.1", "1", "other")
        thread.join()


@dataclass
class Started:
    """In the place of a `bench.isolation.Isolated`: a process that is in no namespaces of its own."""

    pid: int | None


def test_a_process_that_is_in_no_namespace_of_the_engines_is_not_found():
    """Below a process without children there is none; below this one may be the containers of other tests."""
    with subprocess.Popen(["sleep", "60"]) as alone:
        try:
            with pytest.raises(LookupError):
                outer_pid(Started(alone.pid), 1)
        finally:
            alone.kill()
