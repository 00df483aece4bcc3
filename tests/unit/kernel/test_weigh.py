"""engine.kernel.weigh: the sum of a tree's files, and that nothing in the tree can make it cost much or lead it out."""

import os

import pytest

from engine.kernel import weigh
from tests.harness.descriptors import open_below


@pytest.fixture
def tree(tmp_path):
    """`a` of 10 bytes, `deeper/b` of 20, `again` is `a` once more, and links that lead out."""
    top = tmp_path / "top"
    (top / "deeper").mkdir(parents=True)
    (top / "a").write_bytes(b"x" * 10)
    (top / "deeper/b").write_bytes(b"x" * 20)
    os.link(top / "a", top / "deeper/again")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "c").write_bytes(b"x" * 5000)
    (top / "out").symlink_to(outside)
    return top


def names_of_links(tree):
    """The bytes of the symbolic links themselves."""
    return len(os.readlink(tree / "out"))


def test_files_count_once_and_links_lead_nowhere(tree):
    assert weigh.below(tree, weigh.length) == 30 + names_of_links(tree)


def test_room_is_counted_in_blocks_and_with_directories_if_wanted(tree):
    files = weigh.below(tree, weigh.room)
    whole = weigh.below(tree, weigh.room, directories=True)
    assert files >= 1024 and whole - files == os.lstat(tree / "deeper").st_blocks * 512


@pytest.mark.parametrize("name", ["nope", "a", "out", "a/b"])
def test_what_is_no_directory_weighs_nothing(tree, name):
    assert weigh.below(tree / name, weigh.length) == 0


def test_a_directory_that_becomes_a_link_meanwhile_is_not_followed(tree):
    def swap(status):
        if (tree / "deeper").is_dir() and not (tree / "deeper").is_symlink():
            (tree / "deeper").rename(tree.parent / "gone")
            (tree / "deeper").symlink_to(tree.parent / "outside")
        return status.st_size

    assert weigh.below(tree, swap) < 5000


def test_what_goes_meanwhile_counts_nothing(tree, monkeypatch):
    real = os.open

    def late(path, flags, *rest, **named):
        if path == "deeper":
            (tree / "deeper").rename(tree.parent / "gone")
        return real(path, flags, *rest, **named)

    monkeypatch.setattr(os, "open", late)
    assert weigh.below(tree, weigh.length) == 10 + names_of_links(tree)


def test_of_more_linked_files_than_are_remembered_each_link_has_its_share(tree, monkeypatch):
    for number in range(4):
        (tree / f"one{number}").write_bytes(b"x" * 100)
        os.link(tree / f"one{number}", tree / f"two{number}")
    expected = weigh.below(tree, weigh.length)
    monkeypatch.setattr(weigh, "MOST_LINKED", 1)
    assert weigh.below(tree, weigh.length) == expected


def test_no_depth_breaks_it_and_all_descriptors_are_closed(tmp_path):
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(weigh.DEEPEST + 50):
        os.mkdir("d", dir_fd=here)
        with open(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=here), "wb") as file:
            file.write(b"x")
        deeper = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
    assert weigh.below(tmp_path, weigh.length) == weigh.DEEPEST
    assert open_below(tmp_path) == 0
