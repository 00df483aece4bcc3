"""WORKDIR: which directories are made, beneath a root that a stranger has shaped."""

import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.daemon.builder import workdir
from engine.errors import Invalid


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    """A root with links in it."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("x")
    for name, target in (
        ("link", "/etc"),
        ("relative", "link/new"),
        ("out", "../../../.."),
        ("loop", "loop"),
        ("away", "/nowhere/x"),
    ):
        (tmp_path / name).symlink_to(target)
    descriptor = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


CASES = [
    ("/etc", ()),
    ("/a/b", ("a", "a/b")),
    ("/etc/x", ("etc/x",)),
    ("/link/x/y", ("etc/x", "etc/x/y")),
    ("/relative", ("etc/new",)),
    ("/out/x", ("x",)),
    ("/away", ("nowhere", "nowhere/x")),
    ("//etc/./x/", ("etc/x",)),
    ("/", ()),
]


@pytest.mark.parametrize(("path", "expected"), CASES)
def test_what_is_missing(root: int, path: str, expected: tuple[str, ...]) -> None:
    assert workdir.missing(root, path) == expected


@pytest.mark.parametrize("path", ["/etc/passwd", "/etc/passwd/x", "/loop/x"])
def test_what_is_in_the_way_is_told(root: int, path: str) -> None:
    with pytest.raises(Invalid):
        workdir.missing(root, path)


def test_the_layer_has_the_directories_as_roots_own() -> None:
    with tarfile.open(fileobj=io.BytesIO(b"".join(workdir.tar(("a", "a/b"))))) as tar:
        members = tar.getmembers()
    assert [(member.name, member.mode & 0o7777, member.uid, member.isdir()) for member in members] == [
        ("a", 0o755, 0, True),
        ("a/b", 0o755, 0, True),
    ]
