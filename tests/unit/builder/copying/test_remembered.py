"""Digests that are remembered: a file that did not change is not read again, and one that did always is."""

import os
import time
from pathlib import Path

import pytest

from engine.daemon.builder.copying import prepare, remembered
from engine.daemon.builder.copying.remembered import Remembered
from engine.daemon.builder.copying.request import Request


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with files that are no longer young."""
    place = tmp_path / "files"
    (place / "d").mkdir(parents=True)
    for name in ("a", "d/b", "c"):
        (place / name).write_text(name)
    (place / "link").symlink_to("a")
    time.sleep(remembered._YOUNG_NS / 1e9 * 1.5)
    return place


def digest(place: Path, known: Remembered | None) -> str:
    """That of all files, as a COPY makes it."""
    root = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        request = Request((".",), "/", remembered=known)
        return prepare.prepare(root, request).digest
    finally:
        os.close(root)


def read(place: Path, known: Remembered, monkeypatch: pytest.MonkeyPatch) -> tuple[str, int]:
    """The digest, and how many files were read for it."""
    count = 0
    true = os.readv

    def readv(fd: int, buffers: list[memoryview]) -> int:
        nonlocal count
        found = true(fd, buffers)
        count += bool(found)
        return found

    monkeypatch.setattr(os, "readv", readv)
    found = digest(place, known)
    monkeypatch.undo()
    return found, count


def test_what_did_not_change_is_not_read_again(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = str(place.parent / "digests")
    plain = digest(place, None)
    first = Remembered(where)
    assert read(place, first, monkeypatch) == (plain, 3)
    first.save()
    second = Remembered(where)
    assert read(place, second, monkeypatch) == (plain, 0)
    status = os.stat(place / "c")
    (place / "c").write_text("x")
    os.utime(place / "c", ns=(status.st_atime_ns, status.st_mtime_ns))  # as whoever copies files does
    changed, count = read(place, Remembered(where), monkeypatch)
    assert changed != plain and count == 1 and changed == digest(place, None)


def test_a_mode_and_a_link_count_as_before(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = Remembered(str(place.parent / "digests"))
    digest(place, known)
    os.chmod(place / "a", 0o700)
    os.link(place / "c", place / "e")
    assert digest(place, known) == digest(place, None)


def test_what_changed_just_now_is_not_trusted(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file may change again within the granularity of its times."""
    (place / "a").write_text("young")
    known = Remembered(str(place.parent / "digests"))
    digest(place, known)
    assert read(place, known, monkeypatch)[1] == 1


@pytest.mark.parametrize("data", [b"", b"engine digests 1\nshort", b"engine digests 0\n", os.urandom(500)])
def test_a_torn_file_has_no_digests(place: Path, data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    where = place.parent / "digests"
    where.write_bytes(data)
    known = Remembered(str(where))
    assert read(place, known, monkeypatch) == (digest(place, None), 3)
    known.save()
    assert read(place, Remembered(str(where)), monkeypatch)[1] == 0


def test_a_file_that_cannot_be_written_is_no_failure(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    known = Remembered(str(place.parent / "absent" / "digests"))
    digest(place, known)
    known.save()
    assert "cannot be kept" in caplog.text


def test_digests_of_whole_sources_are_found_until_the_files_change(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, trees = str(place.parent / "digests"), str(place.parent / "trees")
    first = Remembered(where, trees)
    plain = digest(place, first)
    first.save()
    looked: list[object] = []
    monkeypatch.setattr(prepare, "_shown", lambda *asked: looked.append(asked) or "dir:")
    again = Remembered(where, trees)
    assert digest(place, again) == plain and not looked
    again.learn(os.stat(place / "a"), bytes(32))
    again.save()
    monkeypatch.undo()
    os.unlink(trees)  # as whoever changes a file does
    last = Remembered(where, trees)
    assert last.find(os.stat(place / "c")) is not None  # it was not looked for before, and is not forgotten
    assert last.tree("0" * 64) is None


@pytest.mark.parametrize("data", [b"\xff", b"short", b"0" * 64 + b" nothing:" + b"0" * 64, b"\n" * 200])
def test_a_torn_file_of_sources_has_none(place: Path, data: bytes) -> None:
    trees = place.parent / "trees"
    trees.write_bytes(data)
    assert digest(place, Remembered("/absent", str(trees))) == digest(place, None)
