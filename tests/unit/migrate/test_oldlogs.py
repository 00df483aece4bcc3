"""Logs of dockerd's driver `local`, whole and damaged."""

import gzip
import struct
from pathlib import Path

import pytest

from engine.daemon.containers.paths import Paths
from engine.errors import Invalid
from engine.logs.target import FRAMES
from engine.migrate import oldlogs
from engine.migrate.oldroot import Source
from engine.protocols import protobuf

LOG = "containers/x/local-logs/container.log"


def entry(line: bytes, source: str = "stdout", time: int = 5, *, partial: bool = False) -> bytes:
    """One entry, between its lengths."""
    told = {"source": source, "time_nano": time, "line": line, "partial": partial}
    data = protobuf.encode(oldlogs._Entry, told)
    return struct.pack(">I", len(data)) + data + struct.pack(">I", len(data))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A data root with the directory of a log."""
    (tmp_path / LOG).parent.mkdir(parents=True)
    (tmp_path / "home").mkdir()
    return tmp_path


def brought(place: Path) -> bytes:
    """The frames of what comes of it."""
    with Source(str(place)) as source:
        where = Paths(str(place / "home"), "")
        oldlogs.bring(source, "containers/x", "x", FRAMES, "local", where)
    return b"".join(path.read_bytes() for path in sorted((place / "home/log").glob("*.log")))


def frame(stream: int, data: bytes) -> bytes:
    """A frame of the engine's own log."""
    return struct.pack(">BxxxI", stream, len(data)) + data


def test_older_files_come_first_and_parts_of_a_line_have_no_end(place: Path) -> None:
    (place / LOG).write_bytes(entry(b"two", "stderr", 9) + entry(b"a", partial=True) + entry(b"b"))
    (place / f"{LOG}.2.gz").write_bytes(gzip.compress(entry(b"zero", time=1)))
    (place / f"{LOG}.1").write_bytes(entry(b"one", time=2))
    wanted = [(1, b"zero\n"), (1, b"one\n"), (2, b"two\n"), (1, b"a"), (1, b"b\n")]
    assert brought(place) == b"".join(frame(*each) for each in wanted)


def test_an_entry_that_was_not_finished_is_left_out(place: Path) -> None:
    whole = entry(b"one")
    for cut in range(1, len(whole)):
        (place / LOG).write_bytes(whole + entry(b"two")[:cut])
        if cut >= 4:  # else there is not even a length
            assert frame(1, b"one\n") in brought(place)


def test_what_is_no_log_is_refused(place: Path) -> None:
    (place / LOG).write_bytes(b"{}" * 100)
    with pytest.raises(Invalid):
        brought(place)


def test_no_log_makes_none(place: Path) -> None:
    (place / LOG).parent.rmdir()
    assert brought(place) == b"" and not (place / "home/log").exists()
