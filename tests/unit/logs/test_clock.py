"""A clock that is set, ahead or back: each line has its own time, and `since` and `until` find it by that.

The order of the lines is that in which they were written, whatever their times are. Both kinds of logs, both readers,
over rotations and restarts; both writers, where the true clock does.
"""

import errno
import os
import socket
import struct
import tempfile
import time
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import _muxer
from engine.logs import compress, format, jsonreader, order, sending
from engine.logs.jsonwriter import JsonWriter
from engine.logs.openlog import IDLE
from engine.logs.query import Query
from engine.logs.writer import Writer
from tests.harness.amounts import examples
from tests.unit.muxer import twins
from tests.unit.muxer.played import Container

MUXERS = ("python", *(("c",) if _muxer.built() else ()))
FRAMES, LINES, PACKED = "frames", "lines", "packed"
S = 10**9
NOW = 1_800_000_000 * S
# The clock's time at each line. A restart of the container is None.
AHEAD = (NOW, NOW + S, NOW + 30 * S, NOW + 31 * S, NOW + 2 * S, NOW + 3 * S, None, NOW + 4 * S, NOW + 40 * S)
FROM_1970 = (NOW, NOW + S, None, 5 * S, 6 * S, NOW + 60 * S, NOW + 61 * S, None, 4 * S, None, NOW + 70 * S)


def open_log(directory: str, kind: str, size: int) -> Writer | JsonWriter:
    if kind == FRAMES:
        return Writer(directory, size, 1000)
    return JsonWriter(directory, "x", size, 1000, compress=kind == PACKED)


def write(directory: str, kind: str, size: int, times) -> list[tuple[int, bytes]]:
    """Have lines written at these times; each with its time. Their numbers are their texts."""
    said: list[tuple[int, bytes]] = []
    clock, sync, log = time.time_ns, os.fdatasync, open_log(directory, kind, size)
    os.fdatasync = lambda _fd: None  # some hundred of them take long
    try:
        for moment in times:
            if moment is None:
                log.close()
                log = open_log(directory, kind, size)
                continue
            if log.due:
                log.rotate()
            said.append((moment, b"%d\n" % len(said)))
            time.time_ns = lambda moment=moment: moment
            log.append(1 + len(said) % 2, said[-1][1])
            time.time_ns = clock
            if log.busy:
                compress.compress_all(log.directory_fd, "x", 999)
                log.busy = IDLE
    finally:
        time.time_ns, os.fdatasync = clock, sync
        log.close()
    return said


def read(directory: str, kind: str, query: Query, muxer: str) -> bytes:
    """What is sent for a query. It fits into a socket."""
    near, far = socket.socketpair()
    with near:
        with far:
            if kind == FRAMES:
                assert sending.sender(muxer)(directory, far.fileno(), query, False, None)
            else:
                jsonreader.send(directory, "x", far.fileno(), query, make=sending.lines(muxer))
        return b"".join(iter(partial(near.recv, 65536), b""))


def check(directory: str, kind: str, said, since: int, until: int) -> None:
    wanted = b"".join(text for moment, text in said if moment >= since and (not until or moment <= until))
    for muxer in MUXERS:
        got = read(directory, kind, Query(since_ns=since, until_ns=until, tty=True), muxer)
        assert got == wanted, (muxer, since, until)


@pytest.mark.parametrize("kind", [FRAMES, LINES, PACKED])
@pytest.mark.parametrize("size", [0, 1, 150])
@pytest.mark.parametrize("times", [AHEAD, FROM_1970], ids=["ahead", "1970"])
def test_since_and_until_are_right_before_in_and_after_a_jump(tmp_path, kind, size, times):
    said = write(str(tmp_path), kind, size, times)
    assert len(said) == len([moment for moment in times if moment is not None])
    points = sorted({moment + off for moment, _ in said for off in (-1, 0, 1)})
    for point in points:
        check(str(tmp_path), kind, said, point, 0)
        check(str(tmp_path), kind, said, 0, point)
    for since, until in zip(points[::2], points[::-3], strict=False):
        check(str(tmp_path), kind, said, since, until)
    stamped = read(str(tmp_path), kind, Query(tty=True, timestamps=True), MUXERS[-1])
    assert stamped == b"".join(format.stamp(moment) + text for moment, text in said)


moments = st.lists(st.one_of(st.none(), st.integers(1, 30)), max_size=30)


@settings(max_examples=examples("MUXER_EXAMPLES", 300, 60), deadline=None)
@given(moments, st.sampled_from([FRAMES, FRAMES, LINES, PACKED]), st.sampled_from([0, 1, 50, 200]), st.data())
def test_whatever_the_clock_does_each_line_is_found_by_its_time(times, kind, size, data):
    with tempfile.TemporaryDirectory() as directory:
        said = write(directory, kind, size, [moment and moment * S for moment in times])
        for _ in range(6):
            since, until = (data.draw(st.integers(0, 31)) * S for _ in range(2))
            check(directory, kind, said, since, until)


def test_what_another_program_wrote_out_of_order_is_found(tmp_path):
    """dockerd marks nothing; and its lines have the clock's own times too."""
    said = write(str(tmp_path), LINES, 150, AHEAD)
    for path in tmp_path.iterdir():
        data = path.read_bytes()
        path.unlink()
        path.write_bytes(data)
    for moment, _ in said:
        check(str(tmp_path), LINES, said, moment, 0)
        check(str(tmp_path), LINES, said, moment + 1, moment + 20 * S)


def mark(log: Writer | JsonWriter) -> int | None:
    return order.read(log.log_fd) if log.json else struct.unpack("<Q", os.pread(log.index_fd, 8, 16))[0]


@pytest.mark.parametrize("muxer", MUXERS)
@pytest.mark.parametrize("kind", [FRAMES, LINES])
def test_a_line_has_the_clocks_own_time_once_the_clock_is_right_again(tmp_path, muxer, kind):
    """In a log whose last line came when the clock was ahead: for ever, and for a moment."""
    ahead = time.time_ns() + 500 * S
    write(str(tmp_path), kind, 0, [ahead])
    with open_log(str(tmp_path), kind, 0) as log:
        assert log.last_ns == ahead
        one = Container(twins.select(muxer), log)
        before = time.time_ns()
        one.say(1, b"now\n")
        one.say(2, b"and now\n")
        after = time.time_ns()
        one.close()
        assert mark(log) == ahead | order.STEPPED
        assert log.last_ns == ahead
    for reader in MUXERS:
        for query in (Query(tty=True, since_ns=before, until_ns=after), Query(tty=True, until_ns=after)):
            assert read(str(tmp_path), kind, query, reader) == b"now\nand now\n"
        assert read(str(tmp_path), kind, Query(tty=True, since_ns=after + 1), reader) == b"0\n"


@pytest.mark.parametrize("muxer", MUXERS)
@pytest.mark.parametrize("kind", [FRAMES, LINES])
def test_a_new_file_is_marked_with_the_latest_time_of_the_older_ones(tmp_path, muxer, kind):
    with open_log(str(tmp_path), kind, 1) as log:
        assert mark(log) == 0
        one = Container(twins.select(muxer), log)
        one.say(1, b"one\n")
        first = log.last_ns
        one.say(1, b"two\n")
        one.close()
        assert mark(log) >= first > time.time_ns() - 60 * S
        assert not mark(log) & order.STEPPED
        assert len(list(tmp_path.iterdir())) > 1


@pytest.mark.parametrize("number", sorted({errno.ENOSPC, errno.EDQUOT, errno.EPERM, errno.EACCES, errno.ENOTSUP}))
def test_a_file_that_cannot_be_marked_goes_without(tmp_path, monkeypatch, number):
    """A new log on a full disk, say; a mark that a file has had, and is no longer true, is taken off."""

    def refuse(*_):
        raise OSError(number, os.strerror(number))

    with open_log(str(tmp_path), LINES, 0) as log:
        assert mark(log) == 0
        (tmp_path / "fresh").touch()
        monkeypatch.setattr(os, "setxattr", refuse)
        with (tmp_path / "fresh").open() as fresh:
            order.write(fresh.fileno(), 5, anew=True)
            assert order.read(fresh.fileno()) is None
        order.write(log.log_fd, 5, anew=False)
        assert mark(log) == (0 if number == errno.ENOTSUP else None)
        monkeypatch.setattr(os, "removexattr", refuse)
        order.write(log.log_fd, 6, anew=False)
