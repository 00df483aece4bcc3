"""Tests of the pump: every byte once, in order, and nobody waits for another."""

import gc
import os
import signal

import pytest

from engine.logs.query import Query
from engine.logs.writer import Writer, list_segments
from tests.harness.descriptors import all_open
from tests.unit.muxer.played import STDERR, STDIN, STDOUT, Container, available, frame, nothing_more, receive


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
            segments = sorted(int(name[:8]) for name in os.listdir(one.log.directory_fd) if name.endswith(".idx"))
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


def test_a_full_segment_is_followed_by_another(container):
    one = container(max_size=15, max_files=2)
    assert one.say(1, b"0123456789") == []
    assert (one.log.number, one.log.position) == (2, 0)
    assert one.say(1, b"next") == []
    assert (one.log.number, one.log.position) == (2, 12)
    one.say(1, b"and more")
    one.say(1, b"!")
    assert list_segments(one.log.directory_fd) == [2, 3]


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


def test_the_descriptors_are_all_given_back(twin, tmp_path):
    gc.collect()  # what other tests have left open for it to close
    before = all_open()
    with Writer(str(tmp_path)) as log:
        one = Container(twin, log, stdin="open")
        one.client(replay=True)
        one.say(1, b"x")
        one.close()
    assert not all_open() - before


def test_a_rotation_that_the_host_refuses_lets_the_segment_grow(container):
    one = container(max_size=10, max_files=2)
    good, nowhere = os.dup(one.log.directory_fd), os.open("/proc/self", os.O_RDONLY)  # where no file can be made
    os.dup2(nowhere, one.log.directory_fd)
    assert [event[0] for event in one.say(1, b"0123456789")] == ["unlogged"]
    assert one.say(1, b"x") == []
    assert (one.log.number, one.log.position, one.log.limit) == (1, 27, 28)
    os.dup2(good, one.log.directory_fd)
    one.say(1, b"y")
    assert (one.log.number, one.log.position, one.log.limit) == (2, 0, 10)
    for fd in (good, nowhere):
        os.close(fd)
