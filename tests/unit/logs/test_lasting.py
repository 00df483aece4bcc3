"""A rotation deletes nothing that is on the disk before what stays is there too; both twins, both kinds of logs.

That a file is synced shows where it cannot be: fdatasync(2) refuses a file of /proc.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import _muxer
from engine.logs import compress, format, lasting
from engine.logs.jsonwriter import JsonWriter
from engine.logs.writer import Writer
from tests.unit.muxer import twins
from tests.unit.muxer.played import Container

TWINS = ["python", *(["c"] if _muxer.built() else [])]
FILES = 3
UNSYNCABLE = "/proc/version"


class Segments:
    """The engine's own log: two segments are full, and the third has been begun."""

    lines = 2

    def __init__(self, directory: Path) -> None:
        self.names = [format.log_name(number) for number in (1, 2, 3)]
        self.log = Writer(str(directory), max_size=20, max_files=FILES)


class Lines:
    """docker's, with two older files."""

    lines = 3

    def __init__(self, directory: Path) -> None:
        self.names = ["x.2", "x.1", "x"]
        self.log = JsonWriter(str(directory), "x", 60, FILES)


@pytest.fixture(params=[(name, kind) for name in TWINS for kind in (Segments, Lines)], ids=str)
def filled(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Segments | Lines, Callable[[bytes], list]]:
    """A log with as many files as it may have, and what has the container say something."""
    name, kind = request.param
    made = kind(tmp_path)
    one = Container(twins.select(name), made.log)
    for number in range(made.lines):
        one.say(1, b"line %d of the log, long enough\n" % number)
    assert all((tmp_path / each).exists() for each in made.names)
    yield made, lambda data: one.say(1, data)
    one.close()
    made.log.close()


def age(path: Path, seconds: float) -> None:
    """Let a file have been written so long ago."""
    then = time.time() - seconds
    os.utime(path, (then, then))


def spoil(path: Path) -> None:
    """Put something that cannot be synced in the place of a file."""
    path.unlink()
    path.symlink_to(UNSYNCABLE)


def test_what_is_old_goes_when_what_stays_is_on_the_disk(filled, tmp_path):
    made, say = filled
    oldest = tmp_path / made.names[0]
    inode = oldest.stat().st_ino
    age(oldest, 60)
    say(b"one more line that is long enough\n")
    assert inode not in {each.stat().st_ino for each in tmp_path.iterdir()}


def test_what_is_old_stays_while_what_stays_cannot_be_put_on_the_disk(filled, tmp_path):
    made, say = filled
    oldest = tmp_path / made.names[0]
    inode = oldest.stat().st_ino
    age(oldest, 60)
    spoil(tmp_path / made.names[1])
    assert "unlogged" in [told[0] for told in say(b"one more line that is long enough\n")]
    assert inode in {each.lstat().st_ino for each in tmp_path.iterdir()}


def test_nobody_waits_for_the_disk_while_what_goes_is_young(filled, tmp_path):
    """A container that talks so fast loses nothing that a loss of power would have left."""
    made, say = filled
    oldest = tmp_path / made.names[0]
    inode = oldest.stat().st_ino
    spoil(tmp_path / made.names[1])
    assert "unlogged" not in [told[0] for told in say(b"one more line that is long enough\n")]
    assert inode not in {each.lstat().st_ino for each in tmp_path.iterdir()}


def test_a_compressed_file_is_on_the_disk_before_the_other_form_goes(tmp_path, monkeypatch):
    (tmp_path / "x.1").write_bytes(b'{"log":"a\\n","stream":"stdout","time":"2026-11-22T00:00:00Z"}\n')
    done = []
    unlink, fdatasync = os.unlink, os.fdatasync
    monkeypatch.setattr(
        os, "fdatasync", lambda fd: (done.append(os.path.getsize(f"/proc/self/fd/{fd}")), fdatasync(fd))
    )
    monkeypatch.setattr(os, "unlink", lambda name, **where: (done.append(name), unlink(name, **where)))
    directory = os.open(tmp_path, os.O_RDONLY)
    compress.compress_all(directory, "x", 1)
    os.close(directory)
    assert done == [(tmp_path / "x.1.gz").stat().st_size, "x.1"]


def test_a_file_of_the_future_is_old(tmp_path):
    """The clock was set back: nothing is known of when it was written."""
    (tmp_path / "x").touch()
    directory = os.open(tmp_path, os.O_RDONLY)
    now = (tmp_path / "x").stat().st_mtime_ns
    assert not lasting.is_old(directory, "x", now)
    age(tmp_path / "x", -1000)
    assert lasting.is_old(directory, "x", now)
    assert not lasting.is_old(directory, "nothing", now)
    os.close(directory)
