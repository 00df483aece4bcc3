"""Tests of the log's files: what is written is what is read, torn or rotated or hostile."""

import os
import resource
import shutil
import socket
import struct
import threading
import time

import pytest

from engine.logs import format, segment
from engine.logs.query import Query
from engine.logs.writer import Writer
from tests.harness.ready import ready


def frame(stream: int, data: bytes) -> bytes:
    return struct.pack(">BxxxI", stream, len(data)) + data


def write(directory, *chunks: tuple[int, bytes], **options) -> None:
    with Writer(str(directory), **options) as log:
        for stream, data in chunks:
            if log.full:
                log.rotate()
            log.append(stream, data)


def times(directory, *wanted: int) -> None:
    """Gives the records of the first segment these times."""
    path = directory / format.index_name(1)
    data = bytearray(path.read_bytes())
    for number, time_ns in enumerate(wanted):
        struct.pack_into("<Q", data, format.INDEX_HEADER.size + number * format.RECORD.size + 8, time_ns)
    path.write_bytes(data)


def test_a_stamp_is_rfc3339_with_nine_digits():
    assert format.stamp(1_795_152_691_523_911_047) == b"2026-11-20T05:31:31.523911047Z "
    assert format.stamp(0) == b"1970-01-01T00:00:00.000000000Z "
    assert format.stamp(951_782_400_000_000_001) == b"2000-02-29T00:00:00.000000001Z "


@pytest.mark.parametrize("name", ["1.idx", "00000001.log", "0000000x.idx", "00000000.idx", "000000001.idx", "x"])
def test_only_the_names_that_the_writer_makes_are_segments(name):
    assert format.segment_number(name) is None


def test_every_line_is_a_frame_of_its_own(tmp_path, served):
    write(tmp_path, (1, b"one\ntw"), (2, b"err\n"), (1, b"o\nthree"))
    assert served(tmp_path, Query()) == (
        frame(1, b"one\n") + frame(2, b"err\n") + frame(1, b"two\n") + frame(1, b"three")
    )


def test_a_log_that_is_not_there_is_empty(tmp_path, served):
    assert served(tmp_path / "nothing", Query()) == b""
    assert served(tmp_path / "nothing", Query(), chunked=True) == b"0\r\n\r\n"


def test_only_the_wanted_streams_are_sent(tmp_path, served):
    write(tmp_path, (1, b"out\n"), (2, b"err\n"))
    assert served(tmp_path, Query(stdout=False)) == frame(2, b"err\n")
    assert served(tmp_path, Query(stderr=False)) == frame(1, b"out\n")


def test_a_terminal_has_no_frames(tmp_path, served):
    write(tmp_path, (1, b"one\r\ntwo\r\n$ "))
    assert served(tmp_path, Query(tty=True)) == b"one\r\ntwo\r\n$ "


def test_a_long_line_goes_out_in_pieces_of_which_the_first_has_the_time(tmp_path, served):
    write(tmp_path, (1, b"x" * 20000), (1, b"x" * 12768 + b"\ny\n"))
    times(tmp_path, 0, 1)
    sent = served(tmp_path, Query(timestamps=True, prefix=b"k=v "))
    first = b"1970-01-01T00:00:00.000000000Z k=v "
    second = b"1970-01-01T00:00:00.000000001Z k=v "
    assert sent == (
        frame(1, first + b"x" * 16384) + frame(1, b"x" * 16384) + frame(1, b"\n") + frame(1, second + b"y\n")
    )


@pytest.mark.parametrize(
    "query",
    [Query(), Query(timestamps=True, prefix=b"k=v "), Query(prefix=b"k" * 70 + b" "), Query(tty=True, timestamps=True)],
    ids=["plain", "dressed", "long-prefix", "terminal"],
)
@pytest.mark.parametrize(
    "lengths",
    [(0,) * 60_000, (1, 0) * 20_000, (*range(480, 540), 3, 9000), (7, 16383, 8, 16384, 0, 16385, 2)],
    ids=["empty", "more-than-one-write", "medium", "cut"],
)
def test_each_of_many_lines_of_a_chunk_is_dressed(tmp_path, served, lengths, query):
    lines = [b"x" * length + b"\n" for length in lengths]
    whole = b"".join(lines)
    write(tmp_path, (1, b"the beginning, "), (1, whole))
    times(tmp_path, 5, 5)
    dress = (format.stamp(5) if query.timestamps else b"") + query.prefix
    expected = []
    for line in (b"the beginning, " + lines[0], *lines[1:]):
        pieces = [line[at : at + 16384] for at in range(0, len(line), 16384)]
        pieces[0] = dress + pieces[0]
        expected += pieces if query.tty else [frame(1, piece) for piece in pieces]
    assert served(tmp_path, query) == b"".join(expected)


@pytest.mark.parametrize(
    ("tail", "lines"),
    [(0, []), (1, [b"d"]), (2, [b"c\n", b"d"]), (3, [b"b\n", b"c\n", b"d"]), (9, [b"a\n", b"b\n", b"c\n", b"d"])],
)
def test_tail_counts_lines_from_the_end(tmp_path, served, tail, lines):
    write(tmp_path, (1, b"a\nb\n"), (1, b"c\nd"))
    assert served(tmp_path, Query(tail=tail)) == b"".join(frame(1, line) for line in lines)


def test_tail_keeps_a_line_that_began_long_before_another_ended(tmp_path, served):
    write(tmp_path, (1, b"old\nlong "), (2, b"e1\ne2\n"), (1, b"line\n"))
    assert served(tmp_path, Query(tail=2)) == frame(2, b"e2\n") + frame(1, b"long line\n")


def test_since_and_until_take_the_time_of_a_lines_first_byte(tmp_path, served):
    write(tmp_path, (1, b"a\nb"), (1, b"b\nc\n"), (1, b"d\n"))
    times(tmp_path, 10, 20, 30)
    assert served(tmp_path, Query(since_ns=11)) == frame(1, b"c\n") + frame(1, b"d\n")
    assert served(tmp_path, Query(until_ns=19)) == frame(1, b"a\n") + frame(1, b"bb\n")
    assert served(tmp_path, Query(since_ns=20, until_ns=29)) == frame(1, b"c\n")


def many_segments(directory, count: int) -> None:
    """A log of which each segment has one line, its number, at ten times that many nanoseconds."""
    with Writer(str(directory), max_size=1, max_files=count) as log:
        for number in range(count):
            if log.full:
                log.rotate()
            log.append_at(1, b"%d\n" % number, 10 * number)


@pytest.mark.parametrize(
    ("query", "lines"),
    [
        (Query(tail=3), range(97, 100)),
        (Query(since_ns=955), range(96, 100)),
        (Query(since_ns=2000), range(0)),
        (Query(tail=5, since_ns=985), range(99, 100)),
        (Query(tail=2, since_ns=900), range(98, 100)),
    ],
)
def test_a_start_near_the_end_of_a_log_opens_few_of_its_segments(tmp_path, served, query, lines):
    many_segments(tmp_path, 100)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 40, limits[1]))
    try:
        assert served(tmp_path, query) == b"".join(frame(1, b"%d\n" % number) for number in lines)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_since_finds_its_segment_beside_empty_and_half_removed_ones(tmp_path, served):
    many_segments(tmp_path, 40)
    left = [number for number in range(40) if number not in (0, 1, 10, 18, 19, 20, 21, 30, 38)]
    for number in (1, 10, 18, 21, 38):
        os.truncate(tmp_path / format.index_name(number + 1), format.INDEX_HEADER.size)
    for number in (0, 19, 20, 30):
        (tmp_path / format.log_name(number + 1)).unlink()
    for since in range(0, 410, 5):
        lines = [frame(1, b"%d\n" % number) for number in left if 10 * number >= since]
        assert served(tmp_path, Query(since_ns=since)) == b"".join(lines)
        assert served(tmp_path, Query(since_ns=since, tail=7)) == b"".join(lines[-7:])


def test_the_end_of_a_segment_ends_a_line(tmp_path, served):
    write(tmp_path, (1, b"a\nb"), (1, b"c\n"), max_size=1, max_files=5)
    assert sorted(path.name for path in tmp_path.glob("*.log")) == ["00000001.log", "00000002.log"]
    assert served(tmp_path, Query()) == frame(1, b"a\n") + frame(1, b"b") + frame(1, b"c\n")
    assert served(tmp_path, Query(tail=2)) == frame(1, b"b") + frame(1, b"c\n")


@pytest.mark.parametrize("size", [0, 20], ids=["one segment", "rotated"])
@pytest.mark.parametrize("before", [0, 1, 5])
def test_what_came_behind_a_place_is_left_out_whatever_the_clock_says(tmp_path, served, before, size):
    lines = [b"line %d\n" % number for number in range(12)]
    assert segment.end(f"{tmp_path}/none") == (0, 0)
    end = (0, 0)
    for number, line in enumerate(lines):
        if number == before:
            end = segment.end(str(tmp_path))
        with Writer(str(tmp_path), size, 4) as log:  # each in a run of its own
            if log.full:
                log.rotate()
            log.append_at(1, line, 10**18 - number % 5 * 10**9)
        if number >= before:
            said, there = (served(tmp_path, Query(tty=True, end=now)) for now in (end, None))
            assert said == b"".join(each for each in lines[:before] if each in there.splitlines(keepends=True))
            last = [each for each in lines[:before] if each in said][-2:]
            assert served(tmp_path, Query(tty=True, end=end, tail=2)) == b"".join(last)


def test_a_torn_record_is_behind_the_end(tmp_path, served):
    write(tmp_path, (1, b"whole\n"))
    with (tmp_path / format.index_name(1)).open("ab") as torn:
        torn.write(format.pack_record(format.Record(14, 1, 99999, 1)))
    end = segment.end(str(tmp_path))
    write(tmp_path, (1, b"next\n"))
    assert end == (1, 1) and served(tmp_path, Query(tty=True, end=end)) == b"whole\n"


def test_the_oldest_segment_goes(tmp_path, served):
    write(tmp_path, *((1, b"%d\n" % number) for number in range(5)), max_size=1, max_files=2)
    assert served(tmp_path, Query()) == frame(1, b"3\n") + frame(1, b"4\n")


def test_a_torn_tail_is_not_served_and_is_cut_by_the_next_writer(tmp_path, served):
    write(tmp_path, (1, b"whole\n"))
    log, index = tmp_path / format.log_name(1), tmp_path / format.index_name(1)
    with log.open("ab") as torn:
        torn.write(frame(1, b"never told\n"))
    with index.open("ab") as torn:
        torn.write(format.pack_record(format.Record(14, 1, 99999, 1)) + bytes(24) + b"\x01\x02")
    assert served(tmp_path, Query()) == frame(1, b"whole\n")
    assert served(tmp_path, Query(since_ns=1, tail=1)) == frame(1, b"whole\n")
    write(tmp_path, (2, b"next\n"))
    assert served(tmp_path, Query()) == frame(1, b"whole\n") + frame(2, b"next\n")
    assert (log.stat().st_size, index.stat().st_size) == (27, 72)


@pytest.mark.parametrize("behind", [b"", b"\xff" * format.RECORD.size, format.RECORD.pack(0, 7, 6, 1, 0, 0)])
def test_an_index_with_a_large_hole_holds_nobody(tmp_path, served, behind):
    """At its end, or with something behind it."""
    count = 2000
    with Writer(str(tmp_path)) as log:
        for number in range(count):
            log.append_at(1, b"%05d\n" % number, 10 + number)
        assert log.position == 14 * count
    with (tmp_path / format.index_name(1)).open("r+b") as index:
        index.truncate(1 << 33)
        index.seek(1 << 33)
        index.write(behind)
    begun = time.monotonic()
    whole = b"".join(frame(1, b"%05d\n" % number) for number in range(count))
    assert served(tmp_path, Query()) == whole
    assert served(tmp_path, Query(tail=3)) == whole[-3 * 14 :]
    for since in (0, 15, count + 7, count + 20):
        assert served(tmp_path, Query(since_ns=since)) == whole[max(since - 10, 0) * 14 :]
    with Writer(str(tmp_path)) as log:
        assert (log.records, log.position) == (count, 14 * count)
        log.append(1, b"after\n")
    assert served(tmp_path, Query(tail=2)) == whole[-14:] + frame(1, b"after\n")
    assert time.monotonic() - begun < 20


def test_since_is_right_beside_a_hole_in_the_index(tmp_path, served):
    """Of which the records are lost, and no others."""
    with Writer(str(tmp_path)) as log:
        for number in range(300):
            log.append_at(1, b"%05d\n" % number, 10 + number)
    with (tmp_path / format.index_name(1)).open("r+b") as index:
        index.seek(format.INDEX_HEADER.size + 100 * format.RECORD.size)
        index.write(bytes(150 * format.RECORD.size))
    left = [*range(100), *range(250, 300)]
    for since in range(0, 315, 7):
        lines = [frame(1, b"%05d\n" % number) for number in left if 10 + number >= since]
        assert served(tmp_path, Query(since_ns=since)) == b"".join(lines)


def test_an_index_of_another_kind_is_left_alone(tmp_path, served):
    write(tmp_path, (1, b"lost\n"))
    (tmp_path / format.index_name(1)).write_bytes(b"something else, longer than a header")
    write(tmp_path, (1, b"new\n"))
    assert served(tmp_path, Query()) == frame(1, b"new\n")
    assert (tmp_path / format.log_name(1)).read_bytes() == frame(1, b"lost\n")


def test_a_log_truncated_by_hand_serves_what_came_after(tmp_path, served):
    with Writer(str(tmp_path)) as log:
        log.append(1, b"gone\n")
        os.truncate(tmp_path / format.log_name(1), 0)
        log.append(1, b"here\n")
    assert served(tmp_path, Query()) == frame(1, b"here\n")


def test_the_latest_time_is_known_to_the_next_run(tmp_path):
    with Writer(str(tmp_path)) as log:
        log.append(1, b"a")
        log.last_ns = later = log.last_ns + 10**12
        log.append(1, b"b")
    with Writer(str(tmp_path)) as log:
        assert log.last_ns == later


def test_http_chunks_carry_the_same_bytes(tmp_path, served):
    write(tmp_path, *((1, b"0123456789" * 9 + b"\n") for _ in range(5000)))
    sent, body = served(tmp_path, Query(), chunked=True), b""
    while True:
        size, _, sent = sent.partition(b"\r\n")
        assert size == b"%x" % int(size, 16)
        body, sent = body + sent[: int(size, 16)], sent[int(size, 16) :]
        assert sent[:2] == b"\r\n"
        sent = sent[2:]
        if int(size, 16) == 0:
            break
    assert sent == b""
    assert body == frame(1, b"0123456789" * 9 + b"\n") * 5000


class Following:
    """A follower in a thread, and the container that it follows."""

    def __init__(self, twin, directory, query: Query, chunked: bool = False):
        self.near, far = socket.socketpair()
        self.near.settimeout(10)
        self.ended, self._end = os.pipe()
        self.result: list[bool] = []

        def follow() -> None:
            with far:
                self.result.append(twin.send(str(directory), far.fileno(), query, chunked, self.ended))

        self.thread = threading.Thread(target=follow)
        self.thread.start()

    def end(self) -> None:
        os.close(self._end)
        self._end = -1

    def close(self) -> None:
        self.near.close()
        if self._end >= 0:
            self.end()
        self.thread.join(10)
        assert not self.thread.is_alive()
        os.close(self.ended)

    def expect(self, data: bytes) -> None:
        got = b""
        while len(got) < len(data):
            part = self.near.recv(len(data) - len(got))
            assert part, got
            got += part
        assert got == data


@pytest.fixture
def follow(twin):
    made = []

    def start(*arguments, **options) -> Following:
        made.append(Following(twin, *arguments, **options))
        return made[-1]

    yield start
    for following in made:
        following.close()


def test_a_follower_gets_lines_as_they_are_completed_and_the_rest_at_the_end(tmp_path, follow):
    with Writer(str(tmp_path), max_size=30, max_files=2) as log:
        log.append(1, b"old\nnew\nun")
        client = follow(tmp_path, Query(tail=1))
        client.expect(frame(1, b"new\n"))
        log.append(1, b"til\nrest")
        client.expect(frame(1, b"until\n"))
        assert log.full
        log.rotate()
        log.append(1, b"second\n$ ")
        client.expect(frame(1, b"rest") + frame(1, b"second\n"))
        client.end()
        client.expect(frame(1, b"$ "))
        assert client.near.recv(1) == b""
    assert client.result == [True]


def test_a_follower_may_come_before_the_log(tmp_path, follow):
    client = follow(tmp_path / "log", Query(tail=1))
    with Writer(str(tmp_path / "log")) as log:
        log.append(2, b"hello\n")
        client.expect(frame(2, b"hello\n"))


def test_a_follower_that_hangs_up_is_let_go_at_once(tmp_path, follow):
    write(tmp_path, (1, b"a\n"))
    client = follow(tmp_path, Query())
    client.expect(frame(1, b"a\n"))
    client.near.close()
    client.thread.join(10)
    assert client.result == [False]


def test_a_log_that_is_removed_meanwhile_ends_with_what_was_read(tmp_path, follow):
    """Its container was removed: that is the end of it, and no failure."""
    with Writer(str(tmp_path / "log")) as log:
        log.append(1, b"one\n")
        client = follow(tmp_path / "log", Query())
        client.expect(frame(1, b"one\n"))
        shutil.rmtree(tmp_path / "log")
    client.end()
    assert client.near.recv(1) == b""
    client.thread.join(10)
    assert client.result == [True]


def test_a_follower_goes_on_where_a_restarted_containers_writer_cuts_a_torn_tail(tmp_path, follow):
    write(tmp_path, (1, b"a\n"))
    with (tmp_path / format.index_name(1)).open("ab") as torn:
        torn.write(bytes(48))
    client = follow(tmp_path, Query())
    client.expect(frame(1, b"a\n"))
    write(tmp_path, (1, b"b\n"))
    client.expect(frame(1, b"b\n"))


def test_following_stops_when_until_is_past(tmp_path, follow):
    write(tmp_path, (1, b"a\n"))
    client = follow(tmp_path, Query(until_ns=1))
    client.thread.join(10)
    assert client.result == [True]
    assert client.near.recv(1) == b""


def test_a_sink_that_takes_little_at_a_time_gets_everything(tmp_path, twin):
    write(tmp_path, (1, b"0123456789" * 9 + b"\n"), *((1, b"x" * 65536) for _ in range(20)))
    near, far = socket.socketpair()
    far.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    far.setblocking(False)
    got = bytearray()

    def read() -> None:
        while data := near.recv(777):
            got.extend(data)

    thread = threading.Thread(target=read)
    thread.start()
    with near, far:
        assert twin.send(str(tmp_path), far.fileno(), Query(tty=True))
        far.shutdown(socket.SHUT_WR)
        thread.join()
    assert bytes(got) == b"0123456789" * 9 + b"\n" + b"x" * 65536 * 20


def test_the_sink_may_be_a_pipe(tmp_path, twin, pipe):
    write(tmp_path, (1, b"a\n"))
    reading, writing = pipe()
    assert twin.send(str(tmp_path), writing, Query())
    assert os.read(reading, 100) == frame(1, b"a\n")
    assert not ready(reading)


def test_a_client_that_leaves_in_the_middle_is_no_failure(tmp_path, twin):
    write(tmp_path, *((1, b"x" * 65536) for _ in range(40)))
    near, far = socket.socketpair()
    with far:
        near.close()
        assert not twin.send(str(tmp_path), far.fileno(), Query())
