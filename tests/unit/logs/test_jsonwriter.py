"""The log that is docker's: the same bytes from both twins as from dockerd, and what becomes of its files."""

import json
import os
import re
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import _muxer
from engine.logs import format, jsonwriter
from engine.logs.jsonlines import parse
from engine.logs.jsonwriter import JsonWriter
from engine.logs.openlog import IDLE
from tests.harness.amounts import examples
from tests.unit.muxer import twins
from tests.unit.muxer.played import STDERR, STDOUT, Container, available, frame, receive

TWINS = ["python", *(["c"] if _muxer.built() else [])]
EXAMPLES = examples("MUXER_EXAMPLES", 150, 50)
TIME = re.compile(rb'"time":"([^"]*)"')

# What dockerd 20.10 wrote, captured on 2026-11-22 from containers that printed these bytes.
CAPTURED = [
    (
        bytes(range(10)) + b"\n",
        rb'{"log":"\u0000\u0001\u0002\u0003\u0004\u0005\u0006\u0007\u0008\u0009\n","stream":"stdout","time":"2026-11-22T00:30:16.4722149Z"}',
    ),
    (
        bytes(range(11, 0x83)) + b"\n",
        rb'{"log":"\u000b\u000c\r\u000e\u000f\u0010\u0011\u0012\u0013\u0014\u0015\u0016\u0017\u0018\u0019\u001a'
        rb"\u001b\u001c\u001d\u001e\u001f !\"#$%\u0026'()*+,-./0123456789:;\u003c=\u003e?@ABCDEFGHIJKLMNOPQRSTUVWXYZ"
        b'[\\\\]^_`abcdefghijklmnopqrstuvwxyz{|}~\x7f\\ufffd\\ufffd\\ufffd\\n","stream":"stdout",'
        b'"time":"2026-11-22T00:30:16.551278395Z"}',
    ),
    (
        b"a\xe2\x80\xa8b\xe2\x80\xa9c\xc3\xa9\xf0\x9f\x98\x80\xed\xa0\x80\xc0\x80\xf4\x90\x80\x80\xf0\x9f\n",
        b'{"log":"a\\u2028b\\u2029c\xc3\xa9\xf0\x9f\x98\x80' + b"\\ufffd" * 11 + b'\\n","stream":"stdout",'
        b'"time":"2026-11-22T00:30:16.551361079Z"}',
    ),
    (b"tail", b'{"log":"tail","stream":"stdout","time":"2026-11-22T00:30:16.574397108Z"}'),
]


def written(
    name: str, chunks: list, max_size: int = 0, max_files: int = 1, attributes: bytes = b""
) -> dict[str, bytes]:
    """The log's files after these chunks, made by one twin."""
    with tempfile.TemporaryDirectory() as directory:
        with JsonWriter(directory, "x-json.log", max_size, max_files, attributes) as log:
            one = Container(twins.select(name), log)
            for stream, data in chunks:
                for start in range(0, len(data), 60000):  # a pipe holds no more than 64 KiB
                    one.say(stream, data[start : start + 60000])
            one.end(1)
            one.settle()
            one.pump.drain()
            one.close()
        return {found.name: open(found, "rb").read() for found in os.scandir(directory)}


def lines(files: dict[str, bytes]) -> list[dict]:
    """All lines of a log, the oldest first."""
    names = sorted(files, key=lambda name: -int(name.rpartition(".")[2]) if name[-1].isdigit() else 1)
    return [json.loads(each) for name in names for each in files[name].splitlines()]


@pytest.mark.parametrize("name", TWINS)
@pytest.mark.parametrize(("said", "line"), CAPTURED)
def test_dockerd_has_written_the_same(name, said, line):
    made = written(name, [(1, said)])["x-json.log"]
    assert TIME.sub(b"", made) == TIME.sub(b"", line) + b"\n"
    assert parse(line).text == parse(made).text


pieces = st.one_of(
    st.binary(max_size=30),
    st.text(max_size=20).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.sampled_from(
        [b"\n", b"\n\n", b"x" * 16383, b"y" * 16384, b"z" * 16385, b"\xf0\x9f\x98", b"\x80", b"\xe2\x80\xa8"]
    ),
)
chunks = st.lists(
    st.tuples(st.sampled_from([1, 2]), st.lists(pieces, max_size=5).map(b"".join).filter(bool)), max_size=8
)


@pytest.mark.skipif("c" not in TWINS, reason="the C muxer is not built: python3 -m _muxer.build")
@settings(max_examples=EXAMPLES, deadline=None)
@given(chunks, st.sampled_from([0, 0, 200, 20000]), st.integers(1, 4), st.sampled_from([b"", b'"attrs":{"a":"b"},']))
def test_both_twins_write_the_same(said, max_size, max_files, attributes):
    python, c = (written(name, said, max_size, max_files, attributes) for name in ("python", "c"))
    digits = {name: b"".join(TIME.findall(data)) for name, data in c.items()}
    # The times differ; where a file is full may then differ too, by the zeros that are left out.
    if max_size == 0:
        bare = [{name: TIME.sub(b"", data) for name, data in files.items()} for files in (python, c)]
        assert bare[0] == bare[1]
    for files in (python, c):
        assert len(files) <= max_files
        for each in lines(files):
            nanoseconds = parse(json.dumps(each).encode()).time_ns
            assert jsonwriter.rfc3339_nano(nanoseconds).decode() == each["time"]
    if max_files == 4 and len(c) < 4 and len(python) < 4:
        assert [(each["log"], each["stream"]) for each in lines(c)] == [
            (each["log"], each["stream"]) for each in lines(python)
        ]
    assert digits is not None


@pytest.mark.parametrize("name", TWINS)
def test_a_long_line_is_written_in_pieces_that_share_their_time(name):
    files = written(name, [(1, b"x" * 40000), (1, b"\n" + b"y" * 16384 + b"\nz" * 1)])
    found = lines(files)
    assert [len(each["log"]) for each in found] == [16384, 16384, 7233, 16384, 1, 1]
    assert [each["log"][-1] for each in found] == ["x", "x", "\n", "y", "\n", "z"]
    assert len({each["time"] for each in found[:3]}) == len({each["time"] for each in found[3:5]}) == 1


@pytest.mark.parametrize("name", TWINS)
def test_the_files_are_rotated_between_lines(name):
    files = written(name, [(1, b"one\ntwo\n"), (1, b"three\nfour\nfive\n")], max_size=100, max_files=3)
    assert sorted(files) == ["x-json.log", "x-json.log.1", "x-json.log.2"]
    assert [each["log"] for each in lines(files)] == ["one\n", "two\n", "three\n", "four\n", "five\n"]
    assert [data.count(b"\n") for _, data in sorted(files.items())] == [1, 2, 2]


@pytest.mark.parametrize("name", TWINS)
def test_a_rotation_touches_only_the_files_that_there_are(name):
    """Of the billions that a log may have."""
    files = written(name, [(1, b"one\n"), (1, b"two\n"), (1, b"three\n")], max_size=60, max_files=2**32 - 1)
    assert sorted(files) == ["x-json.log", "x-json.log.1", "x-json.log.2"]
    assert [each["log"] for each in lines(files)] == ["one\n", "two\n", "three\n"]


@pytest.mark.parametrize("name", TWINS)
@pytest.mark.parametrize("absent", [1, 2, 3, 4])
def test_a_rotation_fills_the_first_place_that_is_free(name, absent, tmp_path):
    """One that was cut short has left it; the files behind it stay where they are, compressed or not."""
    for number in range(1, 5):
        (tmp_path / f"x.{number}{'.gz' * (number % 2)}").write_text(str(number))
    (tmp_path / f"x.{absent}{'.gz' * (absent % 2)}").unlink()
    with JsonWriter(str(tmp_path), "x", 1, 5) as log:
        one = Container(twins.select(name), log)
        one.say(1, b"one\n")
        one.say(1, b"two\n")
        one.close()
    names = {int(each.name.split(".")[1]): each for each in tmp_path.glob("x.*")}
    assert sorted(names) == [1, 2, 3, 4]
    assert b"one" in names.pop(1).read_bytes()
    assert [int(names[number].read_text()) for number in sorted(names)] == [n for n in range(1, 5) if n != absent]


@pytest.mark.parametrize("name", TWINS)
def test_a_single_file_is_cut_when_it_is_full(name):
    files = written(name, [(1, b"one\ntwo\nthree\n")], max_size=100, max_files=1)
    assert list(files) == ["x-json.log"]
    assert [each["log"] for each in lines(files)] == ["three\n"]


@pytest.mark.parametrize("name", TWINS)
def test_a_log_that_is_compressed_is_told_of_once_and_waits(name, tmp_path):
    with JsonWriter(str(tmp_path), "x", 100, 3, compress=True) as log:
        one = Container(twins.select(name), log)
        assert one.say(1, b"one\ntwo\nthree\n") == [("rotated",)]
        assert one.say(1, b"four\n") == []
        os.write(one.outputs[1], b"five\n")
        one.settle()
        assert sorted(os.listdir(tmp_path)) == ["x", "x.1"]
        log.busy = IDLE
        assert one.settle() == [("rotated",)]
        assert sorted(os.listdir(tmp_path)) == ["x", "x.1", "x.2"]
        one.close()


@pytest.mark.parametrize("name", TWINS)
def test_a_client_gets_what_it_is_owed_and_what_is_unfinished_is_known(name, tmp_path):
    with JsonWriter(str(tmp_path), "x") as log:
        one = Container(twins.select(name), log)
        one.say(1, b"half a l")
        assert (one.pump.unfinished(1), one.pump.unfinished(2)) == (b"half a l", b"")
        near, far = __import__("socket").socketpair()
        one.pump.add_client(far.detach(), STDOUT | STDERR, True, owed=frame(1, b"half a l"))
        one.peers.append(near)
        one.say(1, b"ine\n")
        assert receive(near, 28) == frame(1, b"half a l") + frame(1, b"ine\n")
        assert available(near) == b""
        assert one.pump.unfinished(1) == b""
        one.close()


def test_a_torn_line_is_cut_off(tmp_path):
    whole = jsonwriter.line(1, b"kept\n", 1_000_000_001, b"")
    (tmp_path / "x").write_bytes(whole + b'{"log":"torn')
    with JsonWriter(str(tmp_path), "x") as log:
        assert log.position == len(whole)
    assert (tmp_path / "x").read_bytes() == whole


@pytest.mark.parametrize("name", TWINS)
def test_a_full_disk_is_told_and_leaves_whole_lines(name, tmp_path):
    with JsonWriter(str(tmp_path), "x") as log:
        one = Container(twins.select(name), log)
        one.say(1, b"kept\n")
        good, full = os.dup(log.log_fd), os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, log.log_fd)
        assert one.say(1, b"lost\n") == [("unlogged", 28)]
        os.dup2(good, log.log_fd)
        assert one.say(1, b"kept too\n") == []
        one.close()
        os.close(good)
        os.close(full)
    assert [json.loads(line)["log"] for line in (tmp_path / "x").read_bytes().splitlines()] == ["kept\n", "kept too\n"]


def test_the_time_is_gos():
    assert jsonwriter.rfc3339_nano(1_479_628_800_000_000_000) == b"2016-11-20T08:00:00Z"
    assert jsonwriter.rfc3339_nano(1_479_628_800_120_000_000) == b"2016-11-20T08:00:00.12Z"
    assert jsonwriter.rfc3339_nano(1_479_628_800_000_000_001) == b"2016-11-20T08:00:00.000000001Z"
    assert format.LINE_LIMIT == 16384
