"""Removing trees: deeper than a path may be long, and with links that lead elsewhere; in Python, and in C."""

import concurrent.futures
import contextlib
import os

import pytest

from engine.daemon.tar.trees import remove_tree
from engine.kernel import syscalls
from engine.sandbox.mounts import FLAGS, leave_peers
from tests.unit.images.made import files_below


@contextlib.contextmanager
def opened(path):
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


def test_a_tree_deeper_than_a_path_may_be_long_is_removed(tmp_path, way):
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


def test_removing_a_tree_follows_no_link(tmp_path, way):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("untouched")
    (tmp_path / "d/sub").mkdir(parents=True)
    for place in ("d/l", "d/sub/l"):
        (tmp_path / place).symlink_to(tmp_path / "outside")
    with opened(tmp_path) as fd:
        remove_tree(fd, "d")
    assert files_below(tmp_path) == {"outside", "outside/file"}


def test_a_directory_that_is_moved_away_meanwhile_ends_the_removal(tmp_path):
    """What is above its new place is no part of the tree."""
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "tree" / "a" / "b").mkdir(parents=True)
    (tmp_path / "tree" / "a" / "b" / "file").touch()
    seen = []

    def move():
        seen.append(1)
        if len(seen) == 3:  # in b
            os.rename(tmp_path / "tree" / "a" / "b", tmp_path / "b")

    with opened(tmp_path) as parent, pytest.raises(OSError, match="Stale"):
        remove_tree(parent, "tree", move)
    assert (tmp_path / "precious").read_text() == "kept"


def test_a_removal_can_be_ended(tmp_path):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "file").touch()

    def end():
        raise TimeoutError

    with opened(tmp_path) as parent, pytest.raises(TimeoutError):
        remove_tree(parent, "tree", end)
    assert (tmp_path / "tree" / "file").exists()


def test_every_kind_of_entry_is_removed(tmp_path, way):
    """Also more entries than are read at once, names that are no UTF-8, and a directory that nobody may enter."""
    top = tmp_path / "top"
    (top / "full" / "below").mkdir(parents=True)
    (top / "closed").mkdir(mode=0)
    os.mkfifo(top / "fifo")
    (top / "dangling").symlink_to("nowhere")
    with open(os.fsencode(top) + b"/\xff", "w"):
        pass
    for number in range(700):
        (top / "full" / f"a-rather-long-name-{number}").touch()
        (top / "full" / f"directory-{number}").mkdir()
    (top / "full" / "below" / "file").touch()
    os.link(top / "full" / "below" / "file", tmp_path / "kept")
    with opened(tmp_path) as fd:
        remove_tree(fd, "top")
    assert files_below(tmp_path) == {"kept"}


@pytest.mark.parametrize(("name", "error"), [("absent", FileNotFoundError), ("link", OSError), ("file", OSError)])
def test_what_is_no_directory_is_refused(tmp_path, way, name, error):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").touch()
    (tmp_path / "link").symlink_to("elsewhere")
    (tmp_path / "file").touch()
    with opened(tmp_path) as fd, pytest.raises(error, match=name):
        remove_tree(fd, name)
    assert files_below(tmp_path) == {"elsewhere", "elsewhere/file", "file", "link"}


@pytest.fixture
def mounted(tmp_path):
    """A descriptor of what holds `tree`, whose directory `in` has a tmpfs on `m` and a file on `f`, in no namespace."""
    (tmp_path / "tree" / "in" / "m").mkdir(parents=True)
    (tmp_path / "tree" / "in" / "f").write_text("below")
    place = str(tmp_path / "tree" / "in")

    def mount():
        syscalls.unshare(syscalls.CLONE_NEWNS)
        leave_peers()
        syscalls.mount("tmpfs", f"{place}/m", "tmpfs", 0, "")
        for name in ("m/file", "m/other"):
            with open(f"{place}/{name}", "w") as file:
                file.write("kept")
        syscalls.mount(f"{place}/m/other", f"{place}/f", "", FLAGS["bind"], "")
        with opened(tmp_path) as fd:
            return syscalls.open_tree(fd, "", syscalls.OPEN_TREE_CLONE | syscalls.AT_EMPTY_PATH | syscalls.AT_RECURSIVE)

    # The namespace ends with the thread.
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        fd = thread.submit(mount).result()
    try:
        yield fd
    finally:
        os.close(fd)


@pytest.mark.root
@pytest.mark.parametrize("top", ["", "tree/in"])
def test_a_removal_enters_no_mount(mounted, way, top):
    """Wherever it is mounted: the kernel itself refuses only what is mounted in the caller's own namespace."""
    parent = os.open(top or ".", os.O_RDONLY, dir_fd=mounted)
    with pytest.raises(OSError, match="busy"):
        remove_tree(parent, "m" if top else "tree")
    os.close(parent)
    assert os.stat("tree/in/m/file", dir_fd=mounted).st_size == 4


@pytest.mark.root
def test_a_removal_in_a_tree_that_is_in_use_takes_no_mount_away(mounted):
    os.rmdir("tree/in/m", dir_fd=mounted)  # so that it comes to the file
    with pytest.raises(OSError, match="busy"):
        remove_tree(mounted, "tree", lambda: None)
    assert os.stat("tree/in/f", dir_fd=mounted).st_size == 4
