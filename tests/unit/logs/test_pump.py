"""Tests of the pump: every byte once, in order, and nobody waits for another."""

import os
import pty
import select
import signal
import socket
import struct
import threading
import time
import tty as terminal

import pytest

from engine.logs.query import Query
from engine.logs.writer import Writer

STDIN, STDOUT, STDERR = 1, 2, 4


def frame(stream: int, data: bytes) -> bytes:
    return struct.pack(">BxxxI", stream, len(data)) + data


class Container:
    """A pump with pipes for a container's stdio, played by the test, and a wake-up to bound a run."""

    def __init__(self, twin, log, tty=False, stdin=None):
        self.log = log
        self.pump = twin.Pump(log, tty)
        self.outputs = {}
        for stream in (1, 2):
            reading, self.outputs[stream] = os.pipe()
            self.pump.add_output(stream, reading)
        self.stdin = -1
        if stdin is not None:
            self.stdin, writing = os.pipe()
            self.pump.set_input(writing, close_on_eof=stdin == "once")
        self.wake, self._waker = os.pipe()
        self.pump.watch(self.wake)
        os.write(self._waker, b"x")
        self.peers: list[socket.socket] = []
        self.told: list[tuple] = []

    def client(self, streams=STDIN | STDOUT | STDERR, framed=True, detach=b"", replay=False, buffer=0):
        near, far = socket.socketpair()
        if buffer:
            far.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
        near.settimeout(10)
        self.peers.append(near)
        number = self.pump.add_client(far.detach(), streams, framed, detach, replay)
        return near, number

    def settle(self, turns=4) -> list[tuple]:
        """Turns the pump until it has nothing to tell but the wake-up, several times; what else it told."""
        told, quiet = [], 0
        while quiet < turns:
            event = self.pump.run()
            if event == ("readable", self.wake):
                quiet += 1
            else:
                told.append(event)
                quiet = 0
                if event == ("full",):
                    self.log.rotate()
        self.told += told
        return told

    def say(self, stream, data) -> list[tuple]:
        os.write(self.outputs[stream], data)
        return self.settle()

    def end(self, stream) -> None:
        os.close(self.outputs.pop(stream))

    def close(self) -> None:
        self.pump.close()
        for peer in self.peers:
            peer.close()
        for fd in (*self.outputs.values(), self.wake, self._waker, *([self.stdin] if self.stdin >= 0 else [])):
            os.close(fd)


@pytest.fixture
def container(twin, tmp_path):
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


def receive(peer: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = peer.recv(size - len(data))
        if not part:
            break
        data += part
    return data


def nothing_more(peer: socket.socket) -> bool:
    return available(peer) == b""


def available(peer: socket.socket, size: int = 1 << 20) -> bytes:
    """What can be had without waiting; a Python socket with a timeout waits whatever the flags."""
    return peer.recv(size) if select.select([peer], [], [], 0)[0] else b""


@pytest.mark.parametrize("log", [True, False])
def test_a_client_gets_its_streams_in_frames_or_raw(container, log):
    one = container(log)
    both, _ = one.client()
    raw, _ = one.client(STDOUT, framed=False)
    errors, _ = one.client(STDERR)
    one.say(1, b"out")
    one.say(2, b"err")
    assert receive(both, 22) == frame(1, b"out") + frame(2, b"err")
    assert receive(raw, 3) == b"out"
    assert receive(errors, 11) == frame(2, b"err")
    assert all(map(nothing_more, (both, raw, errors)))


def test_the_log_has_what_was_said_and_the_end_is_told(container, served, tmp_path):
    one = container()
    one.say(1, b"out\n")
    one.say(2, b"err\n")
    one.end(1)
    assert one.settle() == [("eof", 1)]
    one.end(2)
    assert one.settle() == [("eof", 2)]
    assert served(tmp_path / "log", Query()) == frame(1, b"out\n") + frame(2, b"err\n")


def test_a_client_that_comes_later_gets_only_what_comes_later_unless_it_asks(container):
    one = container()
    one.say(1, b"before")
    late, _ = one.client(replay=False)
    again, _ = one.client(replay=True)
    one.say(1, b"after")
    assert receive(late, 13) == frame(1, b"after")
    assert receive(again, 27) == frame(1, b"before") + frame(1, b"after")


@pytest.mark.parametrize("framed", [True, False])
def test_a_replay_meets_the_live_stream_without_gap_or_duplicate(container, framed):
    one = container(max_size=100_000, max_files=9)
    said, got = [], bytearray()
    client = None
    for number in range(400):
        said.append(b"%06d" % number * 300)
        one.say(1, said[-1])
        if number == 100:
            first = 100_000 // (len(said[0]) + 8) + 1  # the chunks of a segment; two whole ones are kept
            client, _ = one.client(STDOUT, framed, replay=True, buffer=4096)
            segments = sorted(int(name[:8]) for name in os.listdir(one.log.directory) if name.endswith(".idx"))
            kept = said[(segments[0] - 1) * first :]
        if client and number % 7 == 0:
            got += available(client, 9000)
    everything = b"".join(frame(1, data) if framed else data for data in kept + said[101:])
    while len(got) < len(everything):
        one.settle()
        got += available(client)
    assert bytes(got) == everything


def test_a_client_that_stops_reading_slows_the_container_and_loses_nothing(container):
    one = container()
    slow, _ = one.client(STDOUT, framed=False)
    other, _ = one.client(STDOUT, framed=False)
    os.set_blocking(one.outputs[1], False)
    sent = got = other_got = 0
    stuck = False
    while not stuck:
        try:
            sent += os.write(one.outputs[1], b"x" * 65536)
        except BlockingIOError:
            stuck = True
        one.settle(8)
        other_got += len(available(other))
    assert sent < 4 << 20
    before = one.log.position
    one.settle()
    assert one.log.position == before
    while got < sent:
        got += len(slow.recv(1 << 20))
        one.settle()
    while other_got < sent:
        other_got += len(other.recv(1 << 20))
    assert nothing_more(slow)
    assert nothing_more(other)


def test_a_stuck_client_holds_up_neither_events_nor_the_stdin_of_others(container):
    one = container(stdin="open")
    one.client(STDOUT)
    for _ in range(40):
        os.set_blocking(one.outputs[1], False)
        try:
            one.say(1, b"x" * 65536)
        except BlockingIOError:
            break
    typing, _ = one.client(STDIN)
    typing.sendall(b"hello")
    one.settle()
    assert os.read(one.stdin, 100) == b"hello"


def test_a_stuck_client_that_leaves_is_dropped_at_once(container):
    one = container()
    stuck, number = one.client(STDOUT)
    os.set_blocking(one.outputs[1], False)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(one.outputs[1], b"x" * 65536)
            one.settle()
    stuck.close()
    assert one.settle(8) == [("client", number, "gone")]
    assert one.pump.clients == 0
    os.write(one.outputs[1], b"x")


def test_a_replaying_client_that_reads_nothing_does_not_slow_the_container(container):
    one = container()
    for _ in range(64):
        one.say(1, b"x" * 65536)
    _silent, _ = one.client(STDOUT, replay=True)
    for _ in range(64):
        one.say(1, b"y" * 65536)
    assert one.log.position == 128 * 65544


def test_a_segment_that_a_replaying_client_still_needs_is_not_rotated_away(container):
    one = container(max_size=65536, max_files=2)
    one.say(1, b"a" * 65536)
    client, _ = one.client(STDOUT, framed=False, replay=True, buffer=4096)
    os.set_blocking(one.outputs[1], False)
    sent = 65536
    with pytest.raises(BlockingIOError):
        while True:
            sent += os.write(one.outputs[1], b"b" * 65536)
            one.settle()
    got = 0
    while got < sent:
        got += len(client.recv(1 << 20))
        one.settle()
    assert nothing_more(client)


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


def test_a_full_segment_is_told_and_stops_the_reading(container):
    one = container(max_size=15, max_files=2)
    os.write(one.outputs[1], b"0123456789")
    while (event := one.pump.run()) == ("readable", one.wake):
        pass
    assert event == ("full",)
    os.write(one.outputs[1], b"next")
    assert ("full",) in [one.pump.run() for _ in range(4)]
    assert one.log.position == 18
    one.log.rotate()
    one.settle()
    assert (one.log.number, one.log.position) == (2, 12)


def test_a_log_that_cannot_be_written_does_not_stop_the_container(container):
    one = container()
    client, _ = one.client(STDOUT, framed=False)
    good = os.dup(one.log.log_fd)
    full = os.open("/dev/full", os.O_RDWR)
    os.dup2(full, one.log.log_fd)
    assert one.say(1, b"lost") == [("unlogged", 28)]
    assert one.say(1, b"lost too") == []
    os.dup2(good, one.log.log_fd)
    assert one.say(1, b"kept") == []
    assert receive(client, 16) == b"lostlost tookept"
    assert one.log.position == 12
    os.close(good)
    os.close(full)


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


def test_a_signals_handler_runs_while_the_pump_waits(container):
    one = container()
    os.read(one.wake, 1)
    before = signal.signal(signal.SIGALRM, lambda *_: os.write(one._waker, b"x"))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        assert one.pump.run() == ("readable", one.wake)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_busy_control_descriptor_does_not_hide_another(container):
    one = container()
    reading, writing = os.pipe()
    os.write(writing, b"x")
    one.pump.watch(reading)
    assert {one.pump.run(), one.pump.run()} == {("readable", one.wake), ("readable", reading)}
    one.pump.unwatch(reading)
    assert {one.pump.run(), one.pump.run()} == {("readable", one.wake)}
    os.close(reading)
    os.close(writing)


def test_too_many_detach_keys_are_refused_and_the_descriptor_stays_the_callers(container):
    one = container()
    near, far = socket.socketpair()
    with near, far, pytest.raises(ValueError, match="detach"):
        one.pump.add_client(far.fileno(), 7, True, b"x" * 65)


def test_the_descriptors_are_all_given_back(twin, tmp_path):
    before = os.listdir("/proc/self/fd")
    with Writer(str(tmp_path)) as log:
        one = Container(twin, log, stdin="open")
        one.client(replay=True)
        one.say(1, b"x")
        one.close()
    assert os.listdir("/proc/self/fd") == before
