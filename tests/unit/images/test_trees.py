"""Removing trees: deeper than a path may be long, and with links that lead elsewhere."""

import contextlib
import os

from engine.daemon.images.trees import remove_tree
from tests.unit.images.archives import files_below


@contextlib.contextmanager
def opened(path):
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


def test_a_tree_deeper_than_a_path_may_be_long_is_removed(tmp_path):
    deep = tmp_path / "top"
    deep.mkdir()
    here = os.open(deep, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("ddd", dir_fd=here)
        inner = os.open("ddd", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    with opened(tmp_path) as fd:
        remove_tree(fd, "top")
    assert not deep.exists()


def test_removing_a_tree_follows_no_link(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("untouched")
    (tmp_path / "d/sub").mkdir(parents=True)
    for place in ("d/l", "d/sub/l"):
        (tmp_path / place).symlink_to(tmp_path / "outside")
    with opened(tmp_path) as fd:
        remove_tree(fd, "d")
    assert files_below(tmp_path) == {"outside", "outside/file"}


def test_a_directory_that_is_moved_away_meanwhile_ends_the_removal(tmp_path: Path) -> None:
    """What is above its new place is not part of the tree."""
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "tree" / "a" / "b").mkdir(parents=True)
    (tmp_path / "tree" / "a" / "b" / "file").touch()
    moved = []

    def move() -> None:
        if not moved and not (tmp_path / "tree" / "a" / "b" / "file").exists():
            moved.append(os.rename(tmp_path / "tree" / "a" / "b", tmp_path / "b"))
        if (tmp_path / "tree" / "a" / "b" / "file").exists() and (tmp_path / "tree" / "a" / "b" / "last").exists():
            (tmp_path / "tree" / "a" / "b" / "last").unlink()

    (tmp_path / "tree" / "a" / "b" / "other").touch()
    parent = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(OSError, match="Stale|No such"):
        trees.remove_tree(parent, "tree", move)
    os.close(parent)
    assert (tmp_path / "precious").read_text() == "kept"


def test_a_removal_can_be_ended(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "file").touch()

    def end() -> None:
        raise TimeoutError

    parent = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(TimeoutError):
        trees.remove_tree(parent, "tree", end)
    os.close(parent)
