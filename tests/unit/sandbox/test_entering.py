"""The cgroup that an exec enters, where the container has divided its own."""

import errno
import os
from pathlib import Path

import pytest

from engine.sandbox.cgroups import entering

ID = "5" * 64


@pytest.mark.parametrize(
    ("listing", "where"),
    [
        (f"0::/engine/{ID}\n", ""),
        (f"0::/engine/{ID}/init\n", "init"),
        (f"0::/engine/{ID}/init.scope/a b\n", "init.scope/a b"),
        (f"0::/engine/{ID}/x/{ID}/y\n", f"x/{ID}/y"),
        (f"4:memory:/engine/{ID}/no\n0::/engine/{ID}/init\n", "init"),
        (f"4:memory:/engine/{ID}/no\n", ""),
        (f"0::/engine/{'6' * 64}/init\n", ""),
        ("0::/../../user.slice\n", ""),
        ("", ""),
    ],
)
def test_where_process_1_is(listing: str, where: str) -> None:
    assert entering.below(f"/sys/fs/cgroup/engine/{ID}", listing) == where


class Tree:
    """A container's cgroup with one below it, whose files take what a kernel would."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.own = root / ID
        self.own.mkdir()
        self.make("")
        self.divided: set[Path] = set()
        self.at: list[str] = []
        write = os.write
        monkeypatch.setattr(os, "write", lambda fd, data: self.refuse(fd) or write(fd, data))
        monkeypatch.setattr(entering, "_place_of", lambda pid, own: self.at.pop(0) if len(self.at) > 1 else self.at[0])

    def make(self, name: str) -> None:
        """A cgroup below it."""
        (self.own / name).mkdir(exist_ok=True)
        (self.own / name / "cgroup.procs").touch()

    def refuse(self, fd: int) -> None:
        """No process enters a cgroup that is divided."""
        if Path(os.readlink(f"/proc/self/fd/{fd}")).parent in self.divided:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    def enter(self) -> None:
        """What a joiner does."""
        entering.enter(str(self.own / "cgroup.procs"), 1)

    def entered(self, name: str) -> bool:
        """Whether the process is in this one."""
        return (self.own / name / "cgroup.procs").read_text() == "0"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """The container's own cgroup and `init`, both undivided."""
    made = Tree(tmp_path, monkeypatch)
    made.make("init")
    return made


def test_an_undivided_cgroup_is_entered(tree: Tree) -> None:
    tree.enter()
    assert tree.entered("")


def test_a_newcomer_goes_where_process_1_is(tree: Tree) -> None:
    tree.divided, tree.at = {tree.own}, ["init"]
    tree.enter()
    assert tree.entered("init")
    assert not tree.entered("")


@pytest.mark.parametrize("gone", [True, False])
def test_it_follows_a_process_1_that_moves_on(tree: Tree, gone: bool) -> None:
    tree.make("later")
    tree.make("before")
    if not gone:
        tree.make("between")
    tree.divided, tree.at = {tree.own, tree.own / "before", tree.own / "between"}, ["before", "between", "later"]
    tree.enter()
    assert tree.entered("later")


def test_a_process_1_that_is_nowhere_below_is_not_followed(tree: Tree) -> None:
    tree.divided, tree.at = {tree.own}, [""]
    with pytest.raises(OSError, match="busy"):
        tree.enter()


def test_the_tries_are_bounded(tree: Tree) -> None:
    tree.divided, tree.at = {tree.own, tree.own / "init"}, ["init"]
    with pytest.raises(OSError, match="busy"):
        tree.enter()


def test_nothing_outside_the_containers_own_is_entered(tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "cgroup.procs").touch()
    tree.divided, tree.at = {tree.own}, ["../other"]
    with pytest.raises(OSError):
        tree.enter()
    assert (tmp_path / "other" / "cgroup.procs").read_text() == ""
