"""The digest of what is copied: what changes it and what does not. Needs no root: nothing is chowned."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.daemon.builder.copying import prepare
from engine.daemon.builder.copying.request import Base, Request
from engine.errors import Invalid, NotFound

BASE = Base((), "/nowhere", -1)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "s" / "sub").mkdir(parents=True)
    (tmp_path / "s" / "a").write_text("a")
    (tmp_path / "s" / "sub" / "b").write_text("b" * 3_000_000)
    (tmp_path / "s" / "l").symlink_to("a")
    os.link(tmp_path / "s" / "a", tmp_path / "s" / "hard")
    return tmp_path


@pytest.fixture
def digest(place: Path) -> Iterator[Callable[..., str]]:
    """The digest of a COPY of the directory now."""
    fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    yield lambda *sources, **more: prepare.prepare(fd, Request(sources or ("s",), "/x/", **more)).digest
    os.close(fd)


def unlink_and_write(path: Path) -> None:
    path.unlink()
    path.write_text("a")


CHANGES = {
    "contents": lambda place: (place / "s/sub/b").write_text("c"),
    "a name": lambda place: (place / "s/a").rename(place / "s/c"),
    "a mode": lambda place: (place / "s/sub").chmod(0o711),
    "a link's target": lambda place: ((place / "s/l").unlink(), (place / "s/l").symlink_to("b")),
    "a link that is a file now": lambda place: unlink_and_write(place / "s/l"),
    "a hard link that is a file of its own": lambda place: unlink_and_write(place / "s/hard"),
    "an empty directory": lambda place: (place / "s/new").mkdir(),
    "a pipe": lambda place: os.mkfifo(place / "s/pipe"),
    "the end of one file in the next one's name": lambda place: (place / "s/ab").write_text(""),
}


@pytest.mark.parametrize("what", CHANGES)
def test_it_changes_with(place: Path, digest: Callable[..., str], what: str) -> None:
    before = digest()
    CHANGES[what](place)
    assert digest() != before


def test_it_does_not_change_with_times_or_what_is_not_copied(place: Path, digest: Callable[..., str]) -> None:
    before = digest()
    for path in (place / "s", place / "s/a", place / "s/sub"):
        os.utime(path, (5, 5))
    (place / "other").write_text("x")
    assert digest() == before


def test_it_changes_with_what_the_instruction_says(digest: Callable[..., str]) -> None:
    ways = [{}, {"chown": "1"}, {"chmod": "600"}, {"exclude": ("a",)}, {"parents": True}, {"link": True}]
    ways += [{"unpack": True}, {"keep_owners": True}, {"shown": "ADD"}, {"inline": (("n", b"1"),)}, {"workdir": "/w"}]
    assert len({digest(**way) for way in ways}) == len(ways)


def test_it_says_what_dockers_history_says(place: Path) -> None:
    fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        shown = {
            sources: prepare.prepare(fd, Request(sources, "/x/")).shown.partition(":")[0]
            for sources in (("s",), ("s/a",), ("s/a", "s"), ("s/*",))
        }
        assert list(shown.values()) == ["dir", "file", "multi", "multi"]
        with pytest.raises(NotFound, match="stat nope: file does not exist"):
            prepare.prepare(fd, Request(("nope",), "/x/"))
        with pytest.raises(Invalid, match="forbidden path"):
            prepare.prepare(fd, Request(("../s",), "/x/"))
    finally:
        os.close(fd)


def test_somebody_may_end_it(place: Path, digest: Callable[..., str]) -> None:
    class Gone(Exception):
        pass

    def check() -> None:
        raise Gone

    with pytest.raises(Gone):
        digest(check=check)
