"""Tests of the pump: when the container has ended, its clients still get everything."""

import os
import socket
import threading
import time

import pytest

from tests.unit.muxer.played import STDIN, STDOUT, Container, frame, receive


def test_drain_does_not_wait_for_a_client_that_gets_the_rest_from_the_log(container):
    one = container()
    client, _ = one.client(STDOUT, framed=False)
    os.set_blocking(one.outputs[1], False)
    sent = 0
    with pytest.raises(BlockingIOError):
        while True:
            sent += os.write(one.outputs[1], b"%08d" % sent * 8192)
            one.settle()
    one.end(1)
    one.end(2)
    one.pump.drain()
    assert sorted([one.pump.run(), one.pump.run()]) == [("eof", 1), ("eof", 2)]
    one.log.close()
    check_the_rest(one, client, sent)


def test_drain_without_a_log_keeps_what_a_client_is_owed(container):
    one = container(log=False)
    client, _ = one.client(STDOUT, framed=False)
    os.set_blocking(one.outputs[1], False)
    sent = 0
    with pytest.raises(BlockingIOError):
        while True:
            sent += os.write(one.outputs[1], b"%08d" % sent * 8192)
            one.settle()
    one.pump.drain()
    check_the_rest(one, client, sent)


def check_the_rest(one: Container, client: socket.socket, sent: int) -> None:
    closing = threading.Thread(target=one.pump.close_clients)
    closing.start()
    got = b"".join(iter(lambda: client.recv(1 << 20), b""))
    closing.join()
    assert len(got) == sent
    place = 0
    while place < sent:
        assert got[place : place + 8] == b"%08d" % place, place
        place += 65536
    assert one.pump.clients == 0


@pytest.mark.alone
def test_clients_that_take_nothing_are_dropped_in_the_end(container):
    one = container()
    one.client(STDOUT)
    os.set_blocking(one.outputs[1], False)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(one.outputs[1], b"x" * 65536)
            one.settle()
    began = time.monotonic()
    one.pump.close_clients(patience_ms=50)
    assert time.monotonic() - began < 5
    assert one.pump.clients == 0


def test_a_closed_client_with_unread_input_reads_the_end_and_no_reset(container):
    one = container()
    client, _ = one.client(STDOUT | STDIN)
    client.sendall(b"nobody reads this")
    one.say(1, b"bye")
    one.pump.close_clients()
    assert receive(client, 11) == frame(1, b"bye")
    assert client.recv(1) == b""
