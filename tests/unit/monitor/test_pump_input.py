"""Tests of the pump: what clients send reaches the container's stdin, and the detach keys are found."""

import os
import pty
import socket
import threading
import tty as terminal

import pytest

from engine.logs.query import Query
from engine.logs.writer import Writer
from tests.unit.muxer.played import STDIN, STDOUT, frame, receive


def test_stdin_reaches_the_container_whole(container):
    one = container(stdin="open")
    client, number = one.client()
    data = os.urandom(3 << 20)
    sending = threading.Thread(target=lambda: (client.sendall(data), client.shutdown(socket.SHUT_WR)))
    sending.start()
    got = bytearray()
    os.set_blocking(one.stdin, False)
    while len(got) < len(data):
        one.settle(1)
        try:
            got += os.read(one.stdin, 1 << 20)
        except BlockingIOError:
            pass
    sending.join()
    assert bytes(got) == data
    one.settle()
    assert one.told == [("client", number, "stdin-closed")]
    one.say(1, b"still here")
    assert receive(client, 18) == frame(1, b"still here")
    with pytest.raises(BlockingIOError):
        os.read(one.stdin, 1)


def test_stdin_is_closed_after_the_first_client_when_it_is_once(container):
    one = container(stdin="once")
    client, number = one.client()
    client.sendall(b"all")
    client.shutdown(socket.SHUT_WR)
    assert one.settle() == [("client", number, "stdin-closed")]
    assert (os.read(one.stdin, 10), os.read(one.stdin, 10)) == (b"all", b"")
    one.say(1, b"out")
    assert receive(client, 11) == frame(1, b"out")


@pytest.mark.parametrize("full", [False, True])
def test_what_a_client_sent_before_it_left_still_arrives(container, full):
    one = container(stdin="once")
    filling = b""
    if full:
        other, _ = one.client(STDIN)
        filling = b"f" * 65536
        other.sendall(filling + b"more")
        one.settle()
        filling += b"more"
    client, number = one.client()
    client.sendall(b"last words")
    client.close()
    told = one.settle()
    got = b""
    while len(got) < len(filling) + 10:
        got += os.read(one.stdin, 1 << 17)
        told += one.settle()
    assert got == filling + b"last words"
    assert ("client", number, "gone") in told
    assert os.read(one.stdin, 1) == b""


def test_a_container_that_closes_its_stdin_does_not_block_the_sender(container):
    one = container(stdin="open")
    client, _ = one.client()
    os.close(one.stdin)
    one.stdin = -1
    sending = threading.Thread(target=client.sendall, args=(b"x" * (2 << 20),))
    sending.start()
    while sending.is_alive():
        one.settle(1)
    sending.join()
    one.say(1, b"alive")
    assert receive(client, 13) == frame(1, b"alive")


def test_a_daemon_is_heard_before_what_clients_send_after_it(container):
    """A terminal has its new size when the program reads what was typed after the resize."""
    one = container(stdin="open")
    one.pump.unwatch(one.wake)
    client, _ = one.client()
    daemon, link = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with daemon, link:
        one.pump.watch(link.fileno())
        for message in (b"one", b"two"):
            daemon.send(message)
        client.sendall(b"typed")
        os.set_blocking(one.stdin, False)
        for message in (b"one", b"two"):
            assert one.pump.run() == ("readable", link.fileno())
            with pytest.raises(BlockingIOError):
                os.read(one.stdin, 10)
            assert link.recv(10) == message
        one.pump.watch(one.wake)
        one.settle()
        assert os.read(one.stdin, 10) == b"typed"
        one.pump.unwatch(link.fileno())


def test_what_a_client_left_behind_is_not_forgotten_for_a_daemon_that_spoke(container):
    """Who has hung up is in nobody's poll table any more."""
    one = container(stdin="once")
    one.pump.unwatch(one.wake)
    client, number = one.client()
    daemon, link = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with daemon, link:
        one.pump.watch(link.fileno())
        daemon.send(b"one")
        client.sendall(b"typed")
        client.close()
        assert one.pump.run() == ("readable", link.fileno())
        assert link.recv(10) == b"one"
        assert one.pump.run() == ("client", number, "stdin-closed")
        assert one.pump.run() == ("client", number, "gone")
        assert (os.read(one.stdin, 10), os.read(one.stdin, 10)) == (b"typed", b"")
        one.pump.unwatch(link.fileno())
        one.pump.watch(one.wake)


def test_bytes_sent_before_there_is_a_stdin_wait_for_it(container):
    one = container()
    client, _ = one.client()
    client.sendall(b"early")
    one.settle()
    one.stdin, writing = os.pipe()
    one.pump.set_input(writing)
    one.settle()
    assert os.read(one.stdin, 10) == b"early"


@pytest.mark.parametrize(
    ("sent", "passed", "detached"),
    [
        ([b"ab\x10\x11cd"], b"ab", True),
        ([b"ab\x10", b"\x11"], b"ab", True),
        ([b"ab\x10", b"cd"], b"ab\x10cd", False),
        ([b"\x10\x10\x11"], b"\x10", True),
        ([b"\x10", b"\x10", b"\x10", b"\x11"], b"\x10\x10", True),
        ([b"\x11\x10"], b"\x11", False),
    ],
)
def test_the_detach_keys_are_found_however_they_are_cut(container, sent, passed, detached):
    one = container(stdin="open")
    client, number = one.client(detach=b"\x10\x11")
    for data in sent:
        client.sendall(data)
        one.settle()
    assert os.read(one.stdin, 100) == passed
    assert one.told == ([("client", number, "detached")] if detached else [])
    if detached:
        assert client.recv(1) == b""


def test_withheld_keys_are_passed_on_at_the_end(container):
    one = container(stdin="once")
    client, _ = one.client(detach=b"\x10\x11")
    client.sendall(b"a\x10")
    client.shutdown(socket.SHUT_WR)
    one.settle()
    assert (os.read(one.stdin, 10), os.read(one.stdin, 10)) == (b"a\x10", b"")


def test_a_terminal_carries_both_ways_and_its_hang_up_is_the_end(twin, tmp_path, served):
    master, slave = pty.openpty()
    terminal.setraw(slave)
    with Writer(str(tmp_path)) as log:
        pump = twin.Pump(log, True)
        pump.add_output(1, master)
        pump.set_input(master, True)
        near, far = socket.socketpair()
        near.settimeout(10)
        number = pump.add_client(far.detach(), STDIN | STDOUT, False)
        near.sendall(b"typed\r")
        near.shutdown(socket.SHUT_WR)
        assert pump.run() == ("client", number, "stdin-closed")
        assert os.read(slave, 100) == b"typed\r"
        os.write(slave, b"$ ")
        os.close(slave)
        assert pump.run() == ("eof", 1)
        assert near.recv(100) == b"$ "
        pump.close_clients()
        assert near.recv(100) == b""
        pump.close()
        near.close()
    assert served(tmp_path, Query(tty=True)) == b"$ "


def test_too_many_detach_keys_are_refused_and_the_descriptor_stays_the_callers(container):
    one = container()
    near, far = socket.socketpair()
    with near, far, pytest.raises(ValueError, match="detach"):
        one.pump.add_client(far.fileno(), 7, True, b"x" * 65)
