"""Tests of the pump: nothing reaches a client in the same read as the head of its answer."""

import os
import socket
import threading
import time

import pytest

from engine.monitor import clients
from tests.unit.muxer.played import STDIN, STDOUT, frame, nothing_more, receive

HEAD = b"HTTP/1.1 101 UPGRADED\r\n\r\n"


def test_what_is_said_waits_until_the_head_was_read(container):
    one = container()
    fresh, _ = one.client(head=HEAD)
    ready, _ = one.client()
    one.say(1, b"first")
    one.say(1, b"second")
    assert one.log.position > 0
    assert receive(ready, 27) == frame(1, b"first") + frame(1, b"second")
    assert fresh.recv(4096) == HEAD
    one.settle()
    assert receive(fresh, 27) == frame(1, b"first") + frame(1, b"second")
    one.say(1, b"third")
    assert receive(fresh, 13) == frame(1, b"third")


def test_the_log_so_far_waits_too(container):
    one = container()
    one.say(1, b"before")
    fresh, _ = one.client(head=HEAD, replay=True)
    one.say(1, b"after")
    assert fresh.recv(4096) == HEAD
    one.settle()
    assert receive(fresh, 27) == frame(1, b"before") + frame(1, b"after")
    assert nothing_more(fresh)


def test_a_head_in_two_reads_is_read_whole(container):
    one = container(log=False)
    fresh, _ = one.client(STDOUT, framed=False, head=HEAD)
    one.say(1, b"said")
    assert fresh.recv(10) == HEAD[:10]
    one.settle()
    assert fresh.recv(4096) == HEAD[10:]
    one.settle()
    assert fresh.recv(4096) == b"said"


def test_it_is_seen_without_any_other_event(container):
    """Nothing wakes the pump when a head is read."""
    one = container(log=False)
    fresh, _ = one.client(STDOUT, framed=False, head=HEAD)
    one.say(1, b"said")
    os.read(one.wake, 1)
    os.set_blocking(one.wake, False)
    heard = []

    def read() -> None:
        time.sleep(0.05)  # the pump sleeps by then; were it awake, it would hear it all the more
        heard.append(fresh.recv(4096))
        heard.append(fresh.recv(4096))
        os.write(one._waker, b"x")

    reading = threading.Thread(target=read)
    reading.start()
    assert one.pump.run() == ("readable", one.wake)
    reading.join()
    assert heard == [HEAD, b"said"]


def test_a_client_that_has_not_read_its_head_sends_all_the_same(container):
    one = container(stdin="open")
    fresh, _ = one.client(head=HEAD)
    one.say(1, b"prompt")
    fresh.sendall(b"typed")
    one.settle()
    assert os.read(one.stdin, 100) == b"typed"


def test_without_a_log_it_is_read_on_for_a_while_only(container):
    """The memory for one who never reads is bounded; nothing is lost."""
    one = container(log=False)
    fresh, _ = one.client(STDOUT, framed=False, head=HEAD)
    os.set_blocking(one.outputs[1], False)
    sent = 0
    with pytest.raises(BlockingIOError):
        while sent < 4 << 20:
            sent += os.write(one.outputs[1], b"%08d" % sent * 512)
            one.settle()
    assert 64 << 10 <= sent < 1 << 20
    assert fresh.recv(4096) == HEAD
    got = b""
    while len(got) < sent:
        one.settle()
        got += fresh.recv(1 << 20)
    assert got == b"".join(b"%08d" % start * 512 for start in range(0, sent, 4096))


def test_one_that_leaves_with_its_head_unread_is_gone(container):
    one = container(log=False)
    fresh, number = one.client(STDIN | STDOUT, head=HEAD)
    one.say(1, b"said")
    fresh.close()
    assert ("client", number, "gone") in one.settle() + one.told


@pytest.mark.parametrize("log", [True, False])
def test_at_the_end_the_head_is_waited_for(container, log):
    """Beyond the patience with one that takes nothing: it could not have been given anything yet."""
    one = container(log=log)
    fresh, _ = one.client(STDOUT, head=HEAD)
    os.write(one.outputs[1], b"last")
    one.pump.drain()
    closing = threading.Thread(target=one.pump.close_clients, args=(1,))
    closing.start()
    time.sleep(0.05)
    assert fresh.recv(4096) == HEAD
    assert receive(fresh, 100) == frame(1, b"last")
    closing.join()
    assert one.pump.clients == 0


@pytest.mark.parametrize("twin", ["python"], indirect=True)
def test_a_head_that_nobody_reads_is_not_waited_for_for_ever(container, monkeypatch):
    """The ten seconds are fixed in the C; the twin's are set here."""
    monkeypatch.setattr(clients, "HEAD_SECONDS", 0.05)
    one = container(log=False)
    fresh, _ = one.client(STDOUT, head=HEAD)
    one.say(1, b"last")
    one.pump.close_clients(1)
    assert receive(fresh, 1000) == HEAD + frame(1, b"last")


def test_a_connection_over_tcp_is_served_at_once(container):
    """There the kernel knows what has arrived, not what was read."""
    one = container(log=False)
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as near:
        far, _ = listener.accept()
        far.sendall(HEAD)
        one.pump.add_client(far.detach(), STDOUT, False)
        one.say(1, b"said")
        near.settimeout(10)
        assert receive(near, len(HEAD) + 4) == HEAD + b"said"
