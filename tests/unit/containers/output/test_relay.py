"""Bytes between two sockets: whole, both ways, with half-closes passed on, and no wait for one who is gone."""

import os
import socket
import threading

import pytest

from engine.daemon.containers.output.relay import relay


@pytest.fixture
def ends():
    """(client, the other side of it, inner, its other side), and the thread that relays between."""
    client, outer = socket.socketpair()
    inner, monitor = socket.socketpair()
    for each in (outer, monitor):
        each.settimeout(10)
    serving = threading.Thread(target=relay, args=(client, inner))
    serving.start()
    yield outer, monitor, serving
    for each in (outer, monitor):
        each.close()
    serving.join(10)
    inner.close()


def read_to_end(end):
    data = b""
    while piece := end.recv(1 << 16):
        data += piece
    return data


def test_both_ways_at_once_with_a_half_close(ends):
    outer, monitor, serving = ends
    data = os.urandom(3_000_000)

    def answer():
        assert read_to_end(monitor) == data
        monitor.sendall(data[::-1])
        monitor.close()

    answering = threading.Thread(target=answer)
    answering.start()
    outer.sendall(data)
    outer.shutdown(socket.SHUT_WR)
    assert read_to_end(outer) == data[::-1]
    answering.join(10)
    serving.join(10)
    assert not serving.is_alive()


def test_what_was_said_last_is_read_after_the_end(ends):
    outer, monitor, _ = ends
    monitor.sendall(b"last")
    monitor.close()
    assert read_to_end(outer) == b"last"


def test_a_client_that_is_gone_ends_it(ends):
    """Also when it was not being read from."""
    outer, monitor, serving = ends
    monitor.setblocking(False)
    with pytest.raises(BlockingIOError):
        while True:
            monitor.send(bytes(1 << 16))  # more than it takes
    outer.close()
    serving.join(30)
    assert not serving.is_alive()
