"""Paths with links in them, resolved beneath a root."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.daemon.builder.copying import places
from engine.errors import Invalid


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    """A root with links of every kind, and something beside it that none of them may reach."""
    (tmp_path / "outside").mkdir()
    top = tmp_path / "root"
    for name in ("usr/lib", "d/sub", "outside"):
        (top / name).mkdir(parents=True)
    (top / "file").write_text("")
    links = {"lib": "usr/lib", "abs": "/usr/lib", "up": "../" * 9 + "outside", "dangling": "/no/where", "loop": "loop"}
    links |= {"d/rel": "../usr", "d/out": str(tmp_path / "outside")}
    for name, target in links.items():
        (top / name).symlink_to(target)
    fd = os.open(top, os.O_PATH | os.O_DIRECTORY)
    yield fd
    os.close(fd)


@pytest.mark.parametrize(
    ("path", "real", "is_directory"),
    [
        ("/", "", True),
        ("/lib", "usr/lib", True),
        ("/lib/x/y", "usr/lib/x/y", False),
        ("/abs/..", "usr", True),
        ("/up/x", "outside/x", False),
        ("/dangling/x", "no/where/x", False),
        ("/d/rel/lib", "usr/lib", True),
        ("/file", "file", False),
        ("/new/../d", "d", True),
    ],
)
def test_links_lead_inside_the_root(root: int, path: str, real: str, is_directory: bool) -> None:
    place = places.destination(root, path)
    assert (place.path, place.is_directory) == (real, is_directory)
    parts = real.split("/") if real else []
    assert [name for name, _ in place.above] == ["/".join(parts[: count + 1]) for count in range(len(parts))]


def test_a_link_out_leads_to_a_place_of_that_name_inside(root: int, tmp_path: Path) -> None:
    assert places.destination(root, "/d/out/x").path == f"{tmp_path}/outside/x".lstrip("/")


def test_without_following_a_link_counts_as_nothing(root: int) -> None:
    place = places.destination(root, "/lib/x", follow=False)
    assert place.path == "lib/x" and [found for _, found in place.above] == [None, None]
    assert places.destination(root, "/file/x", follow=False).above[0][1] is None
    assert places.destination(root, "/d/x", follow=False).above[0][1] is not None


def test_what_cannot_be_a_destination(root: int) -> None:
    with pytest.raises(Invalid, match="lstat /file/x: not a directory"):
        places.destination(root, "/file/x")
    with pytest.raises(Invalid, match="too many links in /loop/x"):
        places.destination(root, "/loop/x")
    with pytest.raises(Invalid, match="file name too long"):
        places.destination(root, "/" + "x" * 300)
    with pytest.raises(FileNotFoundError):
        places.within(root, "lib/nope", whole=True)
