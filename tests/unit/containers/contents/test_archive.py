"""The paths of an archive request: how they are read, shown and resolved beneath a root."""

import io
import os
import stat
from pathlib import Path

import pytest

from engine.daemon.containers.contents import archive, rootfs
from engine.daemon.containers.record import State
from engine.daemon.tar import extract
from engine.errors import Conflict
from tests.harness.parts import container


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("/etc", "/etc"),
        ("etc", "/etc"),
        ("/etc/", "/etc/"),
        ("/etc/.", "/etc/."),
        ("/etc/./", "/etc/./"),
        ("/etc/..", "/"),
        ("/../..", "/"),
        ("/", "/"),
        ("/.", "/."),
        (".", "/."),
        ("//a//b", "/a/b"),
        ("/a/../b/", "/b/"),
    ],
)
def test_the_end_of_a_path_is_kept(path: str, kept: str) -> None:
    assert archive.keep_end(archive._cleaned(path), path) == kept


@pytest.mark.parametrize(
    ("mode", "go"),
    [
        (stat.S_IFREG | 0o644, 0o644),
        (stat.S_IFREG | 0o6755, 0o755 | 1 << 23 | 1 << 22),
        (stat.S_IFDIR | 0o1777, 0o777 | 1 << 31 | 1 << 20),
        (stat.S_IFLNK | 0o777, 0o777 | 1 << 27),
        (stat.S_IFCHR | 0o600, 0o600 | 1 << 26 | 1 << 21),
        (stat.S_IFBLK | 0o600, 0o600 | 1 << 26),
        (stat.S_IFIFO | 0o600, 0o600 | 1 << 25),
        (stat.S_IFSOCK | 0o600, 0o600 | 1 << 24),
    ],
)
def test_modes_are_gos(mode: int, go: int) -> None:
    assert archive.go_mode(mode) == go


@pytest.mark.parametrize(
    ("path", "resolved"),
    [
        ("/", "/"),
        ("/d/f", "/d/f"),
        ("/link/f", "/d/f"),
        ("/abs/f", "/d/f"),
        ("/up/d", "/d"),
        ("/d/../d/./f", "/d/f"),
        ("/gone/x/y", "/nowhere/x/y"),
        ("/d/f/x", "/d/f/x"),
        ("/chain", "/d/f"),
    ],
)
def test_links_are_followed_inside_the_root(tmp_path: Path, path: str, resolved: str) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").touch()
    for name, target in (
        ("link", "d"),
        ("abs", "/d"),
        ("up", "../../../.."),
        ("gone", "nowhere"),
        ("chain", "link/f"),
        ("loop", "loop"),
    ):
        (tmp_path / name).symlink_to(target)
    root = os.open(tmp_path, os.O_PATH)
    try:
        assert archive.resolve(root, path) == resolved
        with pytest.raises(OSError, match=r"[Tt]oo many"):
            archive.resolve(root, "/loop/x")
        with pytest.raises(FileNotFoundError):
            archive.resolve(root, "/gone", whole=True)
    finally:
        os.close(root)


def test_a_mode_is_not_set_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "f").touch(mode=0o600)
    (tmp_path / "link").symlink_to("f")
    fd = os.open(tmp_path, os.O_PATH)
    extract.set_mode(fd, "link", 0o777)
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o600
    extract.set_mode(fd, "f", 0o751)
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o751
    os.close(fd)


def test_an_archive_that_was_never_unpacked_is_not_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """The container is found running, and has ended before anything was read, each time."""

    def ended(*_: object, **__: object) -> None:
        raise archive._Stopped

    monkeypatch.setattr(rootfs, "visit", ended)
    running = container(id="c1", state=State("running"))
    with pytest.raises(Conflict, match="c1 starts and ends too often"):
        archive.receive(None, running, "c1", archive.AskedCopy("/"), io.BytesIO())
