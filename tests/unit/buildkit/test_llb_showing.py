"""What a frontend sees of a result's files, among links that lead out of it and files that never end."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.daemon.buildkit.llb import showing
from engine.errors import EngineError, Invalid, NotFound

DIRECTORY, LINK, PIPE = 1 << 31, 1 << 27, 1 << 25


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "secret").write_text("of the host")
    inside = tmp_path / "inside"
    (inside / "d" / "below").mkdir(parents=True)
    (inside / "d" / "f").write_bytes(b"0123456789")
    (inside / "d" / "g.txt").write_bytes(b"")
    os.chmod(inside / "d" / "f", 0o4751)
    os.utime(inside / "d" / "f", ns=(1, 1_500_000_000_000_000_001))
    (inside / "l").symlink_to("d/f")
    (inside / "out").symlink_to("../secret")
    (inside / "absolute").symlink_to(str(tmp_path / "secret"))
    (inside / "etc").symlink_to("/d")
    (inside / "loop").symlink_to("loop")
    os.mkfifo(inside / "p")
    descriptor = os.open(inside, os.O_PATH | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


def test_a_file(root: int) -> None:
    assert showing.file(root, "d/f") == showing.file(root, "/l") == showing.file(root, "etc/f") == b"0123456789"
    assert showing.file(root, "../../d/../d/f", 2, 3) == b"234"
    assert showing.file(root, "d/f", 8, 100) == b"89" and showing.file(root, "d/f", 100) == b""
    assert showing.file(root, "d/f", 0, 0) == b""


def test_a_directory(root: int) -> None:
    found = showing.directory(root, "/etc")
    assert [each["path"] for each in found] == ["below", "f", "g.txt"]
    below, file, _ = found
    assert (file["mode"], file["size"], file["modTime"]) == (0o751 | 1 << 23, 10, 1_500_000_000_000_000_001)
    assert below["mode"] & DIRECTORY and not below["size"]
    assert [each["path"] for each in showing.directory(root, "d", "*.txt")] == ["g.txt"]
    assert {each["path"]: each["linkname"] for each in showing.directory(root, "/") if each["mode"] & LINK} == {
        "l": "d/f",
        "out": "../secret",
        "absolute": os.readlink(f"/proc/self/fd/{root}").removesuffix("inside") + "secret",
        "etc": "/d",
        "loop": "loop",
    }


def test_a_path(root: int) -> None:
    assert (showing.one(root, "l")["path"], showing.one(root, "l")["size"]) == ("f", 10)
    assert showing.one(root, "etc")["path"] == "d" and showing.one(root, "p")["mode"] & PIPE
    assert showing.one(root, "/")["mode"] & DIRECTORY and showing.one(root, "..")["path"] == ""


@pytest.mark.parametrize("path", ["out", "absolute", "nothing", "d/nothing", "d/f/x", "loop", "p", "d", "a\0b", "l/"])
def test_what_cannot_be_read_is_refused(root: int, path: str) -> None:
    with pytest.raises(EngineError):
        showing.file(root, path)


@pytest.mark.parametrize("path", ["out", "absolute", "nothing", "loop", "p", "d/f", "\0"])
def test_what_cannot_be_listed_is_refused(root: int, path: str) -> None:
    with pytest.raises(EngineError):
        showing.directory(root, path)


def test_what_is_not_there_is_not_found(root: int) -> None:
    for look in (showing.file, showing.one, showing.directory):
        with pytest.raises(NotFound, match="no such file or directory"):
            look(root, "out")
    with pytest.raises(Invalid, match="invalid range"):
        showing.file(root, "d/f", -1)


def test_an_answer_is_bounded(root: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open(tmp_path / "inside" / "large", "wb") as sparse:
        sparse.truncate(1 << 40)
    with pytest.raises(Invalid, match="exceeds maximum allowed size"):
        showing.file(root, "large")
    with pytest.raises(Invalid, match="exceeds maximum allowed size"):
        showing.file(root, "large", 0, 1 << 39)
    assert showing.file(root, "large", (1 << 40) - 3, 10) == bytes(3)
    monkeypatch.setattr(showing, "_MOST_ENTRIES", 2)
    with pytest.raises(Invalid, match="more entries"):
        showing.directory(root, "d")


def test_a_device_is_not_opened(tmp_path: Path) -> None:
    node = tmp_path / "node"
    try:
        os.mknod(node, stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("needs the right to make device nodes")
    descriptor = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    try:
        with pytest.raises(Invalid, match="not a regular file"):
            showing.file(descriptor, "node")
        assert showing.one(descriptor, "node")["devminor"] == 5
    finally:
        os.close(descriptor)
