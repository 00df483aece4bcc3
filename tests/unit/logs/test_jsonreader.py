"""Reading a log of JSON lines: whatever stands in it, however often it is rotated meanwhile, each line once."""

import contextlib
import gzip
import json
import os
import socket
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import _muxer
from engine.logs import compress, format, jsonfiles, jsonlines, jsonreader, jsonwriter, sending
from engine.logs.jsonlines import Message, parse
from engine.logs.jsonwriter import JsonWriter
from engine.logs.openlog import IDLE
from engine.logs.query import Query
from tests.unit.muxer.played import frame

MUXERS = ("python", *(("c",) if _muxer.built() else ()))


def read(directory, query=None, **how) -> bytes:
    """All that is sent for a query, by either muxer alike."""
    first, *others = (_read(directory, query, make=sending.lines(muxer), **how) for muxer in MUXERS)
    plain = unchunked if how.get("chunked") else bytes
    assert all(plain(other) == plain(first) for other in others)
    return first


def unchunked(body: bytes) -> bytes:
    """What an HTTP body in chunks says, whatever their sizes are."""
    said = b""
    while not body.startswith(b"0\r\n\r\n"):
        size, _, rest = body.partition(b"\r\n")
        said, body = said + rest[: int(size, 16)], rest[int(size, 16) :].removeprefix(b"\r\n")
    assert body == b"0\r\n\r\n"
    return said


def _read(directory, query, **how) -> bytes:
    near, far = socket.socketpair()
    got = bytearray()

    def receive() -> None:
        while data := near.recv(65536):
            got.extend(data)

    with near, far:
        reading = threading.Thread(target=receive)
        reading.start()
        assert jsonreader.send(str(directory), "x", far.fileno(), query or Query(), **how) is not None
        far.shutdown(socket.SHUT_WR)
        reading.join(20)
    return bytes(got)


@given(st.binary(max_size=60), st.sampled_from([1, 2]), st.integers(0, 1 << 61), st.sampled_from([b"", b'"attrs":{},']))
def test_what_was_written_is_read(text, stream, time_ns, attributes):
    found = parse(jsonwriter.line(stream, text, time_ns, attributes))
    assert (found.stream, found.time_ns) == (stream, time_ns)
    # Each byte that is no UTF-8 has become U+FFFD, as in Go.
    assert (
        found.text
        == text.decode("utf-8", "surrogateescape").translate(dict.fromkeys(range(0xDC80, 0xDD00), "\ufffd")).encode()
    )


@given(st.one_of(st.binary(max_size=80), st.text(max_size=80).map(str.encode)))
def test_no_line_can_do_harm(line):
    assert parse(line) is None or isinstance(parse(line), Message)


FIELDS = st.sampled_from(["log", "stream", "time", "attrs", "x"])
VALUES = st.one_of(
    st.sampled_from(["stdout", "stderr", "2026-11-22T00:30:17Z", "2026-11-22T02:30:17.5+02:00", "\ud800"]),
    st.none(),
    st.integers(),
    st.dictionaries(st.text(max_size=3), st.one_of(st.text(max_size=3), st.integers()), max_size=2),
)


@given(st.dictionaries(FIELDS, VALUES))
def test_no_object_can_do_harm(found):
    message = parse(json.dumps(found).encode())
    if message is not None:
        assert (message.stream in (1, 2), type(message.text)) == (True, bytes)


def test_times_are_read_in_every_zone():
    def time_of(text):
        found = parse(json.dumps({"log": "x", "stream": "stdout", "time": text}).encode())
        return found and found.time_ns

    assert time_of("1970-01-01T00:00:01.5Z") == 1_500_000_000
    assert time_of("1970-01-01T02:00:01.5+02:00") == 1_500_000_000
    assert time_of("1969-12-31T23:30:00-00:30") == 0
    assert time_of("2024-02-29T12:00:00Z") == 1_709_208_000 * 10**9
    assert (time_of("2024"), time_of("2024-02-29T12:00:00")) == (None, None)
    assert jsonlines.parse_time(b"2024-02-29T12:00:00.12x4Z") is None


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 60), max_size=8), st.integers(0, 200), st.integers(0, 3))
def test_the_tail_is_the_last_lines_of_all_files(tmp_path_factory, sizes, tail, packed):
    """Of any number of files, whichever of them is compressed."""
    directory, said = tmp_path_factory.mktemp("log"), []
    for number, size in enumerate(reversed(sizes)):
        age = len(sizes) - 1 - number
        lines = [b"%d %d\n" % (age, line) for line in range(size)]
        said += lines
        data = b"".join(jsonwriter.line(1, line, 1, b"") for line in lines)
        path = directory / (f"x.{age}" if age else "x")
        if age > packed:
            path.with_name(path.name + ".gz").write_bytes(gzip.compress(data))
        else:
            path.write_bytes(data)
    assert read(directory, Query(tail=tail, tty=True)) == b"".join(said[len(said) - min(tail, len(said)) :])


ODD = (
    b"",
    b"{}",
    b"[",
    b'{"log":"a\\ud83d\\ude00b\\ud800\\u0041\\udc00\\ud83d\\ud83d\\ude00\\/\\b\\f\\t\\u00e4\\u2028\\"\\\\n","stream":"stdout","time":"2024-02-29T12:00:00Z"}',
    b'{"log":"\\ud83d\\u12","stream":"stdout","time":"2024-02-29T12:00:00Z"}',
    b'{"log":"\\x41","stream":"stdout","time":"2024-02-29T12:00:00Z"}',
    b'{"log":"raw\x01 \xff\xe4\xc3\xa4 \xed\xa0\x80","stream":"stderr","time":"2024-02-29T12:00:00.5Z"}',
    b'{"log":"both\\n\xff","stream":"stderr","time":"2024-02-29T12:00:00.5Z"}',
    b'{"stream":"stdout","time":"2024-02-29T12:00:00Z"}',
    b'{"time":"2024-02-29T14:00:00+02:00","log":"turned","stream":"stderr"}',
    b'{"log":"a","stream":"stdout","attrs":{"a":"b c"},"time":"2024-02-29T12:00:00.25Z"}',
    b'{"log":"b","stream":"stderr","attrs":{"a":"b c"},"time":"2024-02-29T12:00:00.25Z"}',
    b'{"log":"c","stream":"stderr","attrs":{"a":"b c"},"log":"x","attrs":{"x":"y"},"time":"2024-02-29T12:00:00.25Z"}',
    b'{"log":"d","stream":"stderr","attrs":{"a":1,"time":"no"},"time":"2024-02-29T12:00:00.25Z"}',
    b'{"log":"e","stream":"stderr","attrs":{},"time":"2024-02-29T12:00:00.25Z"}',
    b'{"log":"f","stream":"stdout","time":"2024-02-29T12:00:00.25Z"} ',
    b'{"log":"g","stream":"stdout","time":"2024-02-29T12:00:00.25Z","x":1}',
    b'{"log":"h","stream":"stdout","time":"2024-02-29T12:00:00.Z"}',
    b'{"log":"i","stream":"stdout","time":"2024-02-29T12:00:00x25Z"}',
    b'{"log":"j","stream":"stdout","time":"2024-02-29T12:00:00.1234567891Z"}',
    b'{"log":"k","stream":"stdout","time":"2024-13-29T12:00:00Z"}',
    b'{"log":"l","stream":"stdin","time":"2024-02-29T12:00:00Z"}',
    b'{"log":"m\\n","stream":"stdout","time":"2600-01-01T00:00:00Z"}',
    b'{"log":"n","stream":"stdout","time":"2024-02-29T12:00:00Z"',
    b'{"log":"' + b"o" * 200_000 + b'\\n","stream":"stdout","time":"2024-02-29T12:00:00Z"}',
    b'{"log":"' + b"p" * jsonlines.LONGEST + b'\\n","stream":"stdout","time":"2024-02-29T12:00:00Z"}',
    b'{"log":"' + b"q" * jsonlines.LONGEST * 2 + b'\\n","stream":"stdout","time":"2024-02-29T12:00:00Z"}',
)


@settings(max_examples=120, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.sampled_from(ODD),
            st.builds(
                jsonwriter.line,
                st.sampled_from([1, 2]),
                st.one_of(st.binary(max_size=60), st.text(max_size=40).map(str.encode)),
                st.integers(1, 4).map(lambda second: second * 500_000_000),
                st.sampled_from([b"", b'"attrs":{"a":"b"},', b'"attrs":{"a":"b","c":"d&e"},']),
            ).map(bytes.rstrip),
        ),
        max_size=12,
    ),
    st.builds(
        Query,
        stdout=st.booleans(),
        stderr=st.booleans(),
        since_ns=st.sampled_from([0, 1_000_000_000]),
        until_ns=st.sampled_from([0, 1_500_000_000]),
        tail=st.one_of(st.none(), st.integers(0, 9)),
        timestamps=st.booleans(),
        tty=st.booleans(),
    ),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_both_muxers_read_whatever_stands_there_in_one_way(tmp_path_factory, lines, query, details, chunked, packed):
    """Lines that docker writes, that another program has written, and what is damaged."""
    directory = tmp_path_factory.mktemp("log")
    data = b"".join(line + b"\n" for line in lines)
    (directory / "x").write_bytes(b"" if packed else data)
    if packed:
        (directory / "x.1.gz").write_bytes(gzip.compress(data))
    read(directory, query, details=details, chunked=chunked)


def test_what_another_program_has_written_is_read_as_docker_reads_it(tmp_path):
    (tmp_path / "x").write_bytes(b"\n".join(ODD[:11]) + b"\n")
    said = [
        'a\U0001f600b\ufffdA\ufffd\ufffd\U0001f600/\b\f\t\u00e4\u2028"\\n'.encode(),
        "raw\x01 \ufffd\ufffd\u00e4 \ufffd\ufffd\ufffd".encode(),
        "both\n\ufffd".encode(),
        b"",
        b"turned",
        b"a",
    ]
    assert read(tmp_path, Query(tty=True)) == b"".join(said)


LATER = 4 * 10**18


@pytest.fixture
def clock(monkeypatch):
    """Sets the clock that a writer in Python reads."""
    return lambda moment: monkeypatch.setattr(jsonwriter.time, "time_ns", lambda: moment)


@pytest.mark.parametrize("since", range(0, 3000, 271))
def test_lines_since_a_time_are_found_by_a_seek(tmp_path, clock, since):
    """Among those of several files, with long lines whose later pieces have the time of the first."""
    with JsonWriter(str(tmp_path), "x", 300_000, 4) as log:
        for number in range(3000):
            clock(LATER + number)
            log.append(
                1 + number % 2, b"%d " % number * (6000 if number % 500 == 7 else 30) + b"\n" * (number % 50 != 9)
            )
    paths = [path for path in (tmp_path / "x.3", tmp_path / "x.2", tmp_path / "x.1", tmp_path / "x") if path.exists()]
    kept = [parse(line) for path in paths for line in path.read_bytes().splitlines()]
    assert len(paths) > 2
    wanted = b"".join(message.text for message in kept if message.time_ns >= LATER + since)
    assert wanted
    assert read(tmp_path, Query(tty=True, since_ns=LATER + since)) == wanted


@pytest.mark.parametrize(
    ("query", "first", "most"),
    [
        (Query(tty=True, tail=3), 5997, 2),
        (Query(tty=True, since_ns=LATER + 5990), 5990, 2),
        (Query(tty=True, tail=30, since_ns=LATER + 5990), 5990, 2),
        (Query(tty=True, tail=5, since_ns=LATER + 100), 5995, 2),
        (Query(tty=True, tail=0), 6000, 1),
        (Query(tty=True, tail=100), 5900, 6),
    ],
)
def test_the_end_of_a_log_of_many_files_is_found_without_the_older_ones(
    tmp_path, monkeypatch, clock, query, first, most
):
    """Of which there are three hundred: to open each of them takes longer than to read the end."""
    with JsonWriter(str(tmp_path), "x", 20 * 80, 400) as log:
        for number in range(6000):
            clock(LATER + number)
            log.append(1, b"%d\n" % number)
    assert len(list(tmp_path.iterdir())) > 200
    opened = []
    real = jsonfiles.os.open

    def counted(path, *rest, **named):
        fd = real(path, *rest, **named)
        opened.append(path)
        return fd

    monkeypatch.setattr(jsonfiles.os, "open", counted)
    assert read(tmp_path, query) == b"".join(b"%d\n" % number for number in range(first, 6000))
    assert len(opened) <= most * len(MUXERS)


def test_a_torn_last_line_is_not_read(tmp_path):
    (tmp_path / "x").write_bytes(jsonwriter.line(1, b"whole\n", 1, b"") + b'{"log":"torn","stream":"std')
    assert read(tmp_path) == frame(1, b"whole\n")
    assert read(tmp_path, Query(tail=1)) == frame(1, b"whole\n")
    assert read(tmp_path, Query(tail=0)) == b""


def test_a_log_that_is_not_there_is_empty(tmp_path):
    assert read(tmp_path) == b""
    assert read(tmp_path, chunked=True) == b"0\r\n\r\n"


@pytest.mark.parametrize("muxer", MUXERS)
@pytest.mark.parametrize(
    ("packed", "still", "text"),
    [(False, False, b"line %d\n"), (True, False, b"line %d\n"), (True, True, b"line %d\n"), (True, True, b"%.0dy\n")],
    ids=["plain", "packed", "one time", "all alike"],
)
def test_a_follower_gets_each_line_once_whatever_is_rotated(tmp_path, clock, packed, still, text, muxer):
    """While files are renamed, compressed and cut under it. All lines may have one time, and all files be alike."""
    if still:
        clock(LATER)
    near, far = socket.socketpair()
    near.settimeout(20)
    ended = os.eventfd(0)
    following = threading.Thread(
        target=jsonreader.send,
        args=(str(tmp_path), "x", far.fileno(), Query(tty=True)),
        kwargs={"ended_fd": ended, "make": sending.lines(muxer)},
    )
    following.start()
    got = bytearray()

    def receive() -> None:
        while data := near.recv(65536):
            got.extend(data)

    receiving = threading.Thread(target=receive)
    receiving.start()
    with JsonWriter(str(tmp_path), "x", 2000, 400, compress=packed) as log:
        for number in range(2000):
            log.append(1, text % number)
            if log.busy:
                compress.compress_all(log.directory_fd, "x", 3)
                log.busy = IDLE
            if number % 50 == 0:
                time.sleep(0.002)
    os.eventfd_write(ended, 1)
    following.join(20)
    far.close()
    receiving.join(20)
    near.close()
    os.close(ended)
    assert bytes(got) == b"".join(text % number for number in range(2000))


@pytest.mark.parametrize("muxer", MUXERS)
def test_a_reader_gets_each_line_once_while_files_are_rotated_and_compressed(tmp_path, clock, muxer):
    clock(LATER)
    ended, failed, read = threading.Event(), [], 0

    def write() -> None:
        with JsonWriter(str(tmp_path), "x", 1000, 40, compress=True) as log:
            for number in range(100_000):
                log.append(1, b"%d\n" % number)
                if log.busy:
                    compress.compress_all(log.directory_fd, "x", 39)
                    log.busy = IDLE
                if ended.is_set():
                    break

    writing = threading.Thread(target=write)
    writing.start()
    while read < 40 and not failed:
        numbers = [int(line) for line in _read(tmp_path, Query(tty=True), make=sending.lines(muxer)).split()]
        read += bool(numbers)
        if numbers and numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            failed.append(numbers)
    ended.set()
    writing.join(20)
    assert not failed


@pytest.mark.parametrize("by", ["this", "another"])
def test_a_file_that_is_compressed_meanwhile_is_known_again(tmp_path, clock, by):
    """Also one whose compressed form does not name it, since another program has made that."""
    clock(LATER)
    with JsonWriter(str(tmp_path), "x", 150, 9) as log, jsonfiles.Log(str(tmp_path), "x") as follower:
        log.append(1, b"one\ntwo\n")
        follower.begin(None)
        assert new(follower) == [b"one\n", b"two\n"]
        place = follower.position
        log.append(1, b"three\nfour\nfive\nsix\nseven\neight\nnine\n")
        if by == "this":
            compress.compress_all(log.directory_fd, "x", 8)
        else:
            for path in tmp_path.glob("x.?"):
                (tmp_path / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
                path.unlink()
        assert len(list(tmp_path.glob("x.*.gz"))) > 1
        rest = [b"three\n", b"four\n", b"five\n", b"six\n", b"seven\n", b"eight\n", b"nine\n"]
        assert new(follower) == rest
        if by == "this":  # the place alone does not say more than the inode
            assert [text for _, text in jsonfiles.later(log.directory_fd, "x", place)] == rest
            assert read(tmp_path, Query(tty=True), after=place) == b"".join(rest)


def new(log) -> list[bytes]:
    """The lines that a reader of a log has not read yet."""
    found = []

    def take(file) -> None:
        for block in jsonfiles.whole_lines(file):
            messages = [parse(line) for line in block.splitlines()]
            found.extend(message.text for message in messages)

    log.read_new(take)
    return found


class _Watched(JsonWriter):
    """A log that calls `look` after each renaming of its rotations."""

    def look(self) -> None:
        """Nothing, until a test puts a function of its own in this place."""

    def _rename(self, old: str, new: str) -> None:
        super()._rename(old, new)
        self.look()


@pytest.mark.parametrize("steps", range(1, 9))
def test_a_rotation_that_stands_still_hides_no_line(tmp_path, steps):
    """After any number of its renamings, whoever has read some of the log gets the rest, and who has read none all.

    A rotation renames from the oldest file to the newest, so that one number after the other has no file.
    """
    said = [b"line %d\n" % number for number in range(5)]
    places, seen, followed = [], [], []
    with _Watched(str(tmp_path), "x", 1, 9) as log, contextlib.ExitStack() as stack:
        for line in said[:4]:
            log.append(1, line)  # each line is in a file of its own
            follower = stack.enter_context(jsonfiles.Log(str(tmp_path), "x"))
            follower.begin(None)
            places.append((len(new(follower)), follower, follower.position))

        def look() -> None:
            nonlocal steps
            steps -= 1
            if steps:
                return
            for count, follower, place in places:
                seen.append(read(tmp_path, Query(tty=True), after=place))
                assert seen[-1] == b"".join(said[count:4])
                followed.append(new(follower))
            assert read(tmp_path, Query(tty=True)) == b"".join(said[:4])

        log.look = look
        log.append(1, said[4])
        assert len(seen) == 4
        for (count, follower, _), before in zip(places, followed, strict=True):
            assert before + new(follower) == said[count:]


def test_what_came_later_is_found_over_a_rotation(tmp_path):
    """By the place up to which it was read."""
    with JsonWriter(str(tmp_path), "x", 150, 5) as log:
        log.append(1, b"one\ntwo\n")
        place = jsonreader.send(str(tmp_path), "x", os.open(os.devnull, os.O_WRONLY), Query())
        log.append(2, b"three\nfour\nfive\nsix\n")
        assert len(os.listdir(tmp_path)) > 1
        found = jsonfiles.later(log.directory_fd, "x", place)
    assert found == [(2, b"three\n"), (2, b"four\n"), (2, b"five\n"), (2, b"six\n")]
    assert read(tmp_path, Query(tty=True), after=place) == b"three\nfour\nfive\nsix\n"


@pytest.mark.parametrize("muxer", MUXERS)
def test_a_file_cut_by_hand_is_followed_from_its_beginning(tmp_path, muxer):
    ended = os.eventfd(0)
    near, far = socket.socketpair()
    near.settimeout(20)
    with JsonWriter(str(tmp_path), "x") as log:
        log.append(1, b"before, and longer than what comes behind the cut\n")
        following = threading.Thread(
            target=jsonreader.send,
            args=(str(tmp_path), "x", far.fileno(), Query(tty=True)),
            kwargs={"ended_fd": ended, "make": sending.lines(muxer)},
        )
        following.start()
        assert near.recv(100) == b"before, and longer than what comes behind the cut\n"
        os.truncate(tmp_path / "x", 0)
        time.sleep(0.1)
        log.append(1, b"after\n")
        assert near.recv(100) == b"after\n"
        assert b"\0" not in (tmp_path / "x").read_bytes()
    os.eventfd_write(ended, 1)
    following.join(20)
    near.close()
    far.close()
    os.close(ended)


def test_compression_says_the_time_of_the_last_line_and_is_done_once(tmp_path):
    last = jsonwriter.line(1, b"b\n", 2_500_000_000, b"")
    (tmp_path / "x.1").write_bytes(jsonwriter.line(1, b"a\n", 1, b"") + last)
    directory = os.open(tmp_path, os.O_RDONLY)
    for _ in range(2):
        compress.compress_all(directory, "x", 2**32 - 2)
    os.close(directory)
    data = (tmp_path / "x.1.gz").read_bytes()
    assert os.listdir(tmp_path) == ["x.1.gz"]
    assert b'{"lastTime":"1970-01-01T00:00:02.5Z"}' in data
    assert gzip.decompress(data).endswith(last)
    assert format.LINE_LIMIT == 16384
