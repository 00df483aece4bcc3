"""Reading a log of JSON lines up to a place: what came behind it is left out, whatever was done to the files since."""

import os

import pytest

from engine.logs import compress, jsonfiles, jsonwriter
from engine.logs.jsonwriter import JsonWriter
from engine.logs.openlog import IDLE
from engine.logs.query import Query
from tests.unit.logs.test_jsonreader import LATER, read


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("most", [0, 150], ids=["one file", "rotated"])
@pytest.mark.parametrize("before", [0, 1, 9])
def test_what_came_behind_a_place_is_left_out_whatever_the_clock_says(tmp_path, monkeypatch, before, most, packed):
    """Also where its file was renamed, packed, or removed since."""
    lines, moment = [b"line %d\n" % number for number in range(40)], [LATER]
    monkeypatch.setattr(jsonwriter.time, "time_ns", lambda: moment[0])
    with JsonWriter(str(tmp_path), "x", most, 5, compress=packed) as log:

        def write(numbers: range) -> None:
            for number in numbers:
                moment[0] = LATER - number % 7 * 10**9
                log.append(number % 2 + 1, lines[number])
                if log.busy:
                    compress.compress_all(log.directory_fd, "x", 4)
                    log.busy = IDLE

        write(range(before))
        with jsonfiles.Log(str(tmp_path), "x") as held:
            held.begin(0)
            end = held.position
            for until in range(before, 41):
                said, there = (read(tmp_path, Query(tty=True, end=now)) for now in (end, None))
                assert said == b"".join(line for line in lines[:before] if line in there.splitlines(keepends=True))
                write(range(until, min(until + 1, 40)))


def test_of_a_file_that_was_cut_since_nothing_is_read_up_to_a_place(tmp_path):
    with JsonWriter(str(tmp_path), "x") as log:
        log.append(1, b"before, and longer than what comes behind the cut\n")
        with jsonfiles.Log(str(tmp_path), "x") as held:
            held.begin(0)
            end = held.position
        os.truncate(tmp_path / "x", 0)
        log.append(1, b"after\n")
    assert read(tmp_path, Query(tty=True)) == b"after\n" and read(tmp_path, Query(tty=True, end=end)) == b""
    (tmp_path / "x").unlink()
    with jsonfiles.Log(str(tmp_path), "x") as held:
        assert not held.begin(0) and held.position == (0, 0)
    (tmp_path / "x").write_bytes(jsonwriter.line(1, b"new\n", 1, b""))
    assert read(tmp_path, Query(tty=True, end=(0, 0))) == b""
