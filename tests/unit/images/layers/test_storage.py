"""Plain copies of layers: whiteouts obeyed, everything else kept. (The overlay itself is tried in tests/images.)"""

import errno
import io
import os
import stat

import pytest

from engine.daemon.images.layers import storage
from engine.daemon.images.layers import unpack as layers
from engine.daemon.tar.space import NoSpace
from engine.errors import Unavailable
from tests.unit.images.made import archive, directory, files_below, link, member, symlink


def flattened(tmp_path, *contents):
    """The directory that the layers, each a list of members, come out as."""
    base = tmp_path / "layers"
    for number, members in enumerate(contents):
        path = base / str(number)
        path.mkdir(parents=True)
        fd = os.open(path, os.O_RDONLY)
        layers.unpack(io.BufferedReader(io.BytesIO(archive(*members))), fd, overlay=False)
        os.close(fd)
    target = tmp_path / "target"
    target.mkdir()
    storage.copy_layers(str(base), [str(number) for number in range(len(contents))], str(target))
    return target


def test_files_modes_times_and_links_are_copied(tmp_path):
    target = flattened(
        tmp_path,
        [
            directory("d", 0o2755),
            member("d/f", b"x" * 70000, mode=0o4711, mtime=99),
            link("d/h", "d/f"),
            symlink("s", "d/f"),
        ],
    )
    found = os.stat(target / "d/f")
    assert (stat.S_IMODE(found.st_mode), found.st_mtime, found.st_size, found.st_nlink) == (0o4711, 99, 70000, 2)
    assert os.readlink(target / "s") == "d/f"
    assert stat.S_IMODE(os.stat(target / "d").st_mode) == 0o2755


def test_a_whiteout_removes_and_is_not_there_itself(tmp_path):
    target = flattened(
        tmp_path,
        [member("a", b""), member("d/x", b""), member("keep", b"")],
        [member(".wh.a", b""), member(".wh.d", b""), member(".wh.never", b"")],
    )
    assert files_below(target) == {"keep"}


def test_an_opaque_directory_hides_what_is_below_and_keeps_its_own(tmp_path):
    target = flattened(
        tmp_path,
        [member("d/old", b""), member("d/sub/old", b"")],
        [directory("d"), member("d/new", b""), member("d/.wh..wh..opq", b"")],
    )
    assert files_below(target) == {"d", "d/new"}


def test_a_later_layer_replaces_whatever_kind_was_there(tmp_path):
    target = flattened(
        tmp_path,
        [member("a", b"1"), directory("b"), member("b/x", b""), symlink("c", "b"), member("e", b"1"), link("f", "e")],
        [directory("a"), member("b", b"2"), member("c/y", b""), member("e", b"2")],
    )
    assert files_below(target) == {"a", "b", "c", "c/y", "e", "f"}
    assert (target / "b").read_bytes() == b"2"
    assert (target / "f").read_bytes() == b"1"
    assert not (target / "c").is_symlink()


def test_a_layer_replaces_a_link_and_does_not_write_through_it(tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("untouched")
    target = flattened(tmp_path, [symlink("l", str(outside))], [member("l", b"mine")])
    assert (target / "l").read_bytes() == b"mine"
    assert outside.read_text() == "untouched"


def test_a_tree_deeper_than_any_image_has_is_refused_and_not_recursed_into_for_ever(tmp_path):
    with pytest.raises(OSError, match="too deep"):
        flattened(tmp_path, [member("d/" * 400 + "x")])


def test_choosing_leaves_nothing_behind(tmp_path):
    assert storage.choose(str(tmp_path)) in (storage.OVERLAY, storage.COPY)
    assert files_below(tmp_path) == {"storage", "tmp"}


def test_what_was_found_once_stays(tmp_path, monkeypatch):
    def refused(probe):
        raise OSError(errno.EPERM, "no overlay")

    monkeypatch.setattr(storage, "try_overlay", refused)
    assert storage.choose(str(tmp_path)) == storage.COPY
    monkeypatch.setattr(storage, "try_overlay", lambda probe: None)
    assert storage.choose(str(tmp_path)) == storage.COPY


def test_a_driver_of_dockerds_that_copies_has_copies(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "try_overlay", lambda probe: None)
    assert storage.choose(str(tmp_path), "vfs") == storage.COPY
    assert storage.choose(str(tmp_path)) == storage.COPY
    with pytest.raises(Unavailable, match="cannot have the storage driver overlay2: it has the storage copy"):
        storage.choose(str(tmp_path), "overlay2")


def test_overlays_that_were_asked_for_and_do_not_work_are_an_error_that_stays_unwritten(tmp_path, monkeypatch):
    def refused(probe):
        raise OSError(errno.EPERM, "no overlay")

    monkeypatch.setattr(storage, "try_overlay", refused)
    with pytest.raises(Unavailable, match="overlays do not work there"):
        storage.choose(str(tmp_path), "overlay2")
    assert storage.choose(str(tmp_path), "native") == storage.COPY


def test_a_full_disk_is_not_taken_for_one_without_overlays(tmp_path, monkeypatch):
    def full(probe):
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(storage, "try_overlay", full)
    with pytest.raises(OSError, match="no space left"):
        storage.choose(str(tmp_path))
    monkeypatch.setattr(storage, "try_overlay", lambda probe: None)
    assert storage.choose(str(tmp_path)) == storage.OVERLAY


def test_a_copy_is_ended_by_who_asked_for_it(tmp_path):
    """A hole costs nothing where it is; a copy of it would fill the disk."""
    for name in ("from", "to"):
        (tmp_path / name).mkdir()
    with open(tmp_path / "from/sparse", "wb") as file:
        file.truncate(1 << 40)
    looks = iter(range(4))

    def check():
        if next(looks) == 3:
            raise NoSpace("enough")

    places = [os.open(tmp_path / name, os.O_RDONLY) for name in ("from", "to")]
    with pytest.raises(NoSpace):
        storage.copy_tree(*places, check)
    assert os.stat(tmp_path / "to/sparse").st_size < 1 << 30


def test_a_python_without_extended_attributes_is_told_which_one_is_needed(tmp_path, monkeypatch):
    """With musl 3.11.2 and older have none."""
    for name in ("getxattr", "setxattr", "listxattr", "removexattr"):
        monkeypatch.delattr(os, name)
    with pytest.raises(Unavailable, match=r"this Python lacks os\.setxattr .* 3\.11\.3"):
        storage.choose(str(tmp_path))
    assert not list(tmp_path.iterdir())
