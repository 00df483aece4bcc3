"""Unpacking layers: hostile paths and links, whiteouts as files, duplicates; what needs root is in tests/images."""

import contextlib
import errno
import io
import os
import stat
import tarfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.daemon.images.layers import unpack as layers
from engine.daemon.tar import extract
from engine.daemon.tar.space import NoSpace
from engine.errors import EngineError, Invalid, SystemFailure
from tests.unit.images.made import archive, directory, files_below, link, member, symlink

pytestmark = pytest.mark.usefixtures("way")


@contextlib.contextmanager
def opened(path):
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


def unpack(path, *members):
    path.mkdir(exist_ok=True)
    with opened(path) as fd:
        return layers.unpack(io.BufferedReader(io.BytesIO(archive(*members))), fd, overlay=False)


@pytest.fixture
def root(tmp_path):
    """Where a layer goes, with something beside it that must stay as it is."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("untouched")
    yield tmp_path / "layer"
    assert files_below(tmp_path / "outside") == {"file"}
    assert (tmp_path / "outside" / "file").read_text() == "untouched"
    assert {path.name for path in tmp_path.iterdir()} <= {"outside", "layer"}


def test_files_directories_and_links_come_out_with_modes_and_times(root):
    unpack(
        root,
        directory("d/", 0o1777),
        member("d/f", b"hello", mode=0o4750, mtime=1000),
        symlink("d/s", "f"),
        link("d/h", "d/f"),
        member("d/p", type=tarfile.FIFOTYPE),
    )
    found = os.stat(root / "d/f")
    assert (stat.S_IMODE(found.st_mode), found.st_mtime, found.st_nlink) == (0o4750, 1000, 2)
    assert stat.S_IMODE(os.stat(root / "d").st_mode) == 0o1777
    assert os.readlink(root / "d/s") == "f"
    assert stat.S_ISFIFO(os.stat(root / "d/p").st_mode)


def test_a_directory_has_its_own_time_and_not_that_of_its_last_member(root):
    unpack(root, directory("d/"), member("d/f", b""), member("d/g", b""))
    assert os.stat(root / "d").st_mtime == 0


@pytest.mark.parametrize("name", ["../outside/file", "a/../../outside/file", "..", "a/.."])
def test_a_path_with_two_dots_is_refused(root, name):
    with pytest.raises(Invalid, match=r"contains '\.\.'"):
        unpack(root, member(name, b"evil"))


def test_an_absolute_path_stays_inside(root, tmp_path):
    unpack(root, member(f"{tmp_path}/outside/file", b"evil"))
    assert (root / str(tmp_path)[1:] / "outside/file").read_bytes() == b"evil"


@pytest.mark.parametrize("target", ["../outside", "/outside", "../../../../../../../../.."])
def test_a_symbolic_link_out_is_kept_and_leads_writers_nowhere_out(root, tmp_path, target):
    absolute = str(tmp_path / "outside") if target == "/outside" else target
    with contextlib.suppress(Invalid):
        unpack(root, symlink("l", absolute), member("l/file", b"evil"), directory("l/sub"))
    assert os.readlink(root / "l") == absolute


def test_a_file_in_the_place_of_a_symbolic_link_replaces_the_link(root):
    unpack(root, symlink("l", "../outside/file"), member("l", b"mine"))
    assert (root / "l").read_bytes() == b"mine"
    assert not (root / "l").is_symlink()


def test_a_directory_replaced_by_a_link_while_it_is_open_is_not_written_to(root):
    unpack(
        root, member("d/a", b"1"), symlink("d", "../outside"), directory("e"), symlink("d", "e"), member("d/b", b"2")
    )
    assert files_below(root) == {"d", "e", "e/b"}


@pytest.mark.parametrize("target", ["../outside/file", "/../outside/file", "nothing", ""])
def test_a_hard_link_to_what_the_layer_does_not_have_is_refused(root, target):
    with pytest.raises(Invalid):
        unpack(root, link("h", target))


def test_a_hard_link_by_way_of_a_symbolic_link_stays_inside(root):
    with pytest.raises(Invalid):
        unpack(root, symlink("l", "../outside"), link("h", "l/file"))


def test_a_hard_link_to_a_symbolic_link_is_one_to_the_link_itself(root):
    unpack(root, symlink("l", "../outside/file"), link("h", "l"))
    assert os.readlink(root / "h") == "../outside/file"


def test_of_two_members_with_one_name_the_later_counts(root):
    unpack(
        root,
        member("a", b"1"),
        member("a", b"2"),
        directory("b"),
        member("b/x", b""),
        member("b", b"file"),
        member("c", b""),
        directory("c"),
        member("c/y", b""),
        member("h", b"3"),
        link("g", "h"),
        link("g", "h"),
    )
    assert (root / "a").read_bytes() == b"2"
    assert (root / "b").read_bytes() == b"file"
    assert files_below(root) == {"a", "b", "c", "c/y", "h", "g"}


def test_a_directory_that_comes_twice_keeps_what_is_in_it(root):
    unpack(root, directory("d"), member("d/x", b""), directory("d", 0o700))
    assert files_below(root) == {"d", "d/x"}
    assert stat.S_IMODE(os.stat(root / "d").st_mode) == 0o700


def test_missing_parents_are_made_and_told(root):
    result = unpack(root, member("a/b/c", b""), directory("a"))
    assert files_below(root) == {"a", "a/b", "a/b/c"}
    assert result.implied == ("a/b",)


def test_a_file_in_the_way_of_a_directory_is_refused(root):
    with pytest.raises(Invalid, match="not a directory"):
        unpack(root, member("f", b""), member("f/x", b""))


def test_whiteouts_for_plain_copies_stay_files(root):
    unpack(root, member("d/.wh.gone", b""), member("d/.wh..wh..opq", b""), member("d/.wh..wh.plnk", b""))
    assert files_below(root) == {"d", "d/.wh.gone", "d/.wh..wh..opq"}


def test_a_whiteout_beneath_what_is_a_file_now_hides_nothing_more(root):
    unpack(root, member("f", b"file"), member("f/.wh.old", b""))
    assert files_below(root) == {"f"}


@pytest.mark.parametrize("name", [".wh.", ".wh..", ".wh..."])
def test_a_whiteout_of_nothing_is_refused(root, name):
    with pytest.raises(Invalid):
        unpack(root, member(name, b""))


def test_a_name_longer_than_the_file_system_takes_is_refused(root):
    with pytest.raises(Invalid, match="file name too long"):
        unpack(root, member("x" * 300, b""))


def test_more_directories_than_descriptors_are_no_matter(root):
    unpack(root, *(member(f"{number}/f", b"") for number in range(200)))
    assert len(list(root.iterdir())) == 200


def test_empty_files_that_take_the_last_inodes_are_given_up(root, monkeypatch):
    # Fragments and blocks of 4096 bytes, files: how many, how many are free, how many are free for all.
    few = os.statvfs_result((4096, 4096, 100, 100, 100, 100, 1, 1, 0, 255))
    monkeypatch.setattr(os, "fstatvfs", lambda fd: few)
    with pytest.raises(NoSpace, match="inodes"):
        unpack(root, *(member(f"f{number}", b"") for number in range(5000)))
    assert len(list(root.iterdir())) < 5000


NAMES = st.lists(st.sampled_from(["a", "b", "..", ".", "", ".wh.a", ".wh..wh..opq", "l"]), min_size=1, max_size=4)
KINDS = st.sampled_from([tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(NAMES, KINDS, NAMES, st.booleans()), max_size=12))
def test_no_archive_touches_anything_outside(tmp_path_factory, members):
    above = tmp_path_factory.mktemp("hostile")
    (above / "a").mkdir()
    (above / "b").write_text("untouched")
    made = []
    for parts, kind, target, absolute in members:
        name = ("/" if absolute else "") + "/".join(parts)
        made.append(member(name, type=kind, linkname="/".join(["..", *target] if absolute else target)))
    with contextlib.suppress(EngineError):
        unpack(above / "layer", *made)
    assert (above / "b").read_text() == "untouched"
    assert files_below(above / "a") == set()
    assert {path.name for path in above.iterdir()} <= {"a", "b", "layer"}


@pytest.mark.parametrize("most", [1, 1000])
def test_a_host_that_cannot_set_a_directorys_time_is_told_in_words(tmp_path, monkeypatch, most):
    """In the midst of a layer with many directories, and at its end."""

    def full(work):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(extract, "_MOST_WAITING", most)
    monkeypatch.setattr(extract.Extraction, "settle_directories", full)
    with pytest.raises(SystemFailure, match=r"^failed to unpack '.*': too many open files$"):
        unpack(tmp_path, directory("a"), directory("b"), directory("c"))
