"""Property tests: both twins make the same bytes, and those that a simple model of the rules makes."""

import os
import socket
import struct
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import _muxer
from engine.logs import format, reader
from engine.logs.query import Query
from tests.harness.amounts import examples

if not _muxer.built():
    pytest.skip("the C muxer is not built: python3 -m _muxer.build", allow_module_level=True)

from engine.logs import nativereader

quick = settings(
    deadline=None, max_examples=examples("MUXER_EXAMPLES", 150, 50), suppress_health_check=list(HealthCheck)
)

texts = st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\n\n", b"\0\xff"]), min_size=1, max_size=6).map(b"".join)
long_texts = st.tuples(texts, st.integers(16380, 16390), st.integers(1, 3), texts).map(
    lambda parts: (parts[0] + b"x" * parts[1] * parts[2] + parts[3])[: format.LARGEST_CHUNK]
)
chunks = st.tuples(st.sampled_from([1, 2]), st.one_of(texts, texts, texts, long_texts), st.integers(0, 3))
logs = st.lists(st.lists(chunks, max_size=8), max_size=4)
queries = st.builds(
    Query,
    stdout=st.booleans(),
    stderr=st.booleans(),
    since_ns=st.integers(-1, 40),
    until_ns=st.integers(0, 40),
    tail=st.one_of(st.none(), st.integers(0, 12)),
    timestamps=st.booleans(),
    prefix=st.sampled_from([b"", b"a=b,c=d "]),
    tty=st.booleans(),
)


def write(directory: Path, log) -> list[list[tuple[int, bytes, int]]]:
    """Makes the files of a log with steadily later times; its chunks with their times."""
    now, timed = 0, []
    for number, segment in enumerate(log, start=1):
        frames, index, opened = b"", format.pack_index_header(number), 0
        timed.append([])
        for stream, payload, later in segment:
            now += later
            timed[-1].append((stream, payload, now))
            opened = format.open_after(opened, stream, payload)
            index += format.pack_record(format.Record(len(frames), now, len(payload), stream, opened))
            frames += format.FRAME.pack(stream, len(payload)) + payload
        (directory / format.log_name(number)).write_bytes(frames)
        (directory / format.index_name(number)).write_bytes(index)
    return timed


def sent(send, directory: Path, query: Query, chunked: bool = False, ended_fd: int | None = None) -> bytes:
    with tempfile.TemporaryFile(dir=directory.parent) as sink:
        assert send(str(directory), sink.fileno(), query, chunked, ended_fd)
        return os.pread(sink.fileno(), 1 << 26, 0)


def model(timed, query: Query) -> bytes:
    """The rules, without any seeking."""
    done, progress = [], {}

    for segment in timed:
        for stream, payload, now in segment:
            if stream in query.streams:
                for line in payload.splitlines(keepends=True):
                    progress.setdefault(stream, [now, b""])[1] += line
                    if line.endswith(b"\n"):
                        done.append((stream, *progress.pop(stream)))
        for stream in (1, 2):
            if stream in progress:
                done.append((stream, *progress.pop(stream)))
    if query.tail is not None:
        done = done[len(done) - query.tail :] if query.tail < len(done) else done
    out = b""
    for stream, time_ns, line in done:
        if not query.first_ns <= time_ns <= query.last_ns:
            continue
        dress = (format.stamp(time_ns) if query.timestamps else b"") + query.prefix
        for start in range(0, len(line), format.LINE_LIMIT):
            piece = dress + line[start : start + format.LINE_LIMIT]
            out += piece if query.tty else struct.pack(">BxxxI", stream, len(piece)) + piece
            dress = b""
    return out


@quick
@given(logs, queries)
def test_both_twins_send_the_same_bytes(log, query):
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch, "log")
        directory.mkdir()
        write(directory, log)
        assert sent(nativereader.send, directory, query) == sent(reader.send, directory, query)


@quick
@given(
    st.lists(st.lists(st.tuples(st.sampled_from([1, 2]), texts, st.integers(0, 3)), max_size=8), max_size=4), queries
)
def test_what_is_sent_is_what_the_rules_say(log, query):
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch, "log")
        directory.mkdir()
        timed = write(directory, log)
        expected = model(timed, query)
        assert sent(reader.send, directory, query) == expected
        assert sent(nativereader.send, directory, query) == expected


@quick
@given(logs, queries)
def test_a_follower_of_a_log_that_has_ended_gets_the_same_from_both(log, query):
    with tempfile.TemporaryDirectory() as scratch, open("/dev/null", "rb") as ended:
        directory = Path(scratch, "log")
        directory.mkdir()
        write(directory, log)
        answers = [sent(send, directory, query, ended_fd=ended.fileno()) for send in (nativereader.send, reader.send)]
        assert answers[0] == answers[1]


@quick
@given(logs, queries)
def test_http_chunks_hold_the_same_body(log, query):
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch, "log")
        directory.mkdir()
        write(directory, log)
        plain = sent(nativereader.send, directory, query)
        assert [dechunk(sent(send, directory, query, True)) for send in (nativereader.send, reader.send)] == [plain] * 2


def dechunk(data: bytes) -> bytes:
    body = b""
    while True:
        head, _, data = data.partition(b"\r\n")
        size = int(head, 16)
        body, end, data = body + data[:size], data[size : size + 2], data[size + 2 :]
        assert end == b"\r\n"
        if size == 0:
            assert data == b""
            return body


scraps = st.lists(
    st.tuples(st.sampled_from([1, 2]), st.sampled_from([b"a", b"bc", b"\n", b"d\n", b"x" * 3000]), st.integers(0, 1)),
    max_size=80,
)


@quick
@given(st.lists(scraps, max_size=2), queries)
def test_lines_written_in_many_small_pieces_are_sent_the_same(log, query):
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch, "log")
        directory.mkdir()
        timed = write(directory, log)
        expected = model(timed, query)
        assert sent(reader.send, directory, query) == expected
        assert sent(nativereader.send, directory, query) == expected


def large_log(directory: Path, line: int) -> None:
    """Up to three megabytes, full chunks of stdout cut wherever, a few words of stderr between some."""
    count = min(3_000_000 // line, 60_000)
    text, place, chunks = b"".join(b"%0*d\n" % (line - 1, number) for number in range(count)), 0, []
    while place < len(text):
        size = (65536, 65536, 40_000, 70)[len(chunks) % 4]
        chunks.append((1, text[place : place + size], 1))
        place += size
        if len(chunks) % 5 == 0:
            chunks.append((2, b"so it is" if len(chunks) % 2 else b", it seems\n", 1))
    directory.mkdir()
    write(directory, [chunks])


@pytest.mark.parametrize("line", [6, 20, 100, 8000, 16385, 100_000])
def test_a_log_of_many_windows_is_sent_the_same(tmp_path, line):
    large_log(tmp_path / "log", line)
    dressed = {"timestamps": True, "prefix": b"a=b "}
    ways = ({}, dressed, {"tail": 1000}, {"tty": True}, {"tty": True} | dressed, {"prefix": b"p" * 5000, "tail": 700})
    for how in ways:
        query = Query(True, True, **how)
        assert sent(nativereader.send, tmp_path / "log", query) == sent(reader.send, tmp_path / "log", query), how


@pytest.mark.parametrize("blocking", [True, False])
def test_a_slow_client_gets_every_byte(tmp_path, blocking):
    large_log(tmp_path / "log", 50)
    query = Query(True, True, timestamps=True)
    near, far = socket.socketpair()
    with near, far, ThreadPoolExecutor(1) as threads:
        far.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        far.setblocking(blocking)
        done = threads.submit(nativereader.send, str(tmp_path / "log"), far.fileno(), query)
        done.add_done_callback(lambda _: far.shutdown(socket.SHUT_WR))
        got = b"".join(iter(lambda: near.recv(777), b""))
        assert done.result()
    assert got == sent(reader.send, tmp_path / "log", query)


def test_a_pipe_takes_a_gathered_write_too(tmp_path):
    large_log(tmp_path / "log", 100)
    reading, writing = os.pipe()
    with open(reading, "rb") as source, ThreadPoolExecutor(1) as threads:
        done = threads.submit(nativereader.send, str(tmp_path / "log"), writing, Query(True, True))
        done.add_done_callback(lambda _: os.close(writing))
        assert source.read() == sent(reader.send, tmp_path / "log", Query(True, True))
        assert done.result()


damages = st.lists(
    st.tuples(
        st.sampled_from(["flip", "cut", "grow", "record", "zero"]),
        st.booleans(),
        st.integers(0, 400),
        st.binary(min_size=1, max_size=40),
        st.sampled_from([0, 1, 24, 1 << 31, 1 << 32, (1 << 63) - 1, (1 << 64) - 9, (1 << 64) - 1]),
    ),
    min_size=1,
    max_size=5,
)


@quick
@given(logs, queries, damages)
def test_a_damaged_log_crashes_neither_and_both_serve_the_same(log, query, damage):
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch, "log")
        directory.mkdir()
        write(directory, log)
        files = sorted(directory.iterdir())
        for number, (kind, index, place, data, value) in enumerate(damage if files else []):
            half = [path for path in files if (path.suffix == ".idx") == index]
            path = half[number % len(half)]
            path.write_bytes(damaged(path.read_bytes(), kind, place, data, value))
        assert sent(nativereader.send, directory, query) == sent(reader.send, directory, query)


def damaged(content: bytes, kind: str, place: int, data: bytes, value: int) -> bytes:
    place = place % (len(content) + 1)
    record = format.RECORD.pack(value, place, len(data), 1 + place % 3, 0, 0)
    return {
        "flip": content[:place] + data + content[place + len(data) :],
        "cut": content[:place],
        "grow": content + data,
        "record": content + record,
        "zero": content + bytes(24 * (1 + place % 5)),
    }[kind]
