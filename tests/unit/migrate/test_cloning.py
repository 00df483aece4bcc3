"""Trees of files made a second time: what stays as it is, and what is one file."""

import os
import stat
from pathlib import Path

import pytest

from engine.errors import Invalid
from engine.migrate import cloning


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """One of each kind that needs no rights."""
    top = tmp_path / "from"
    (top / "d").mkdir(parents=True)
    (top / "d/f").write_bytes(b"x" * 5000)
    (top / "d/f").chmod(0o4751)
    os.link(top / "d/f", top / "same")
    (top / "link").symlink_to("/etc/passwd")
    os.mkfifo(top / "fifo", 0o640)
    os.utime(top / "d", ns=(5, 7))
    (tmp_path / "to").mkdir()
    return top


def clone(tree: Path, *, linked: bool) -> cloning.Shared:
    """Beside it, in `to`."""
    source, sink = os.open(tree, os.O_RDONLY), os.open(tree.parent / "to", os.O_RDONLY)
    try:
        return cloning.clone(source, sink, linked=linked)
    finally:
        os.close(source)
        os.close(sink)


@pytest.mark.parametrize("linked", [True, False])
def test_all_of_a_tree_is_as_it_was(tree: Path, linked: bool) -> None:
    done = clone(tree, linked=linked)
    made = tree.parent / "to"
    assert {str(path.relative_to(made)) for path in made.rglob("*")} == {"d", "d/f", "same", "link", "fifo"}
    for path in tree.rglob("*"):
        one, other = path.lstat(), (made / path.relative_to(tree)).lstat()
        assert (one.st_mode, one.st_uid, one.st_mtime_ns) == (other.st_mode, other.st_uid, other.st_mtime_ns), path
    assert os.readlink(made / "link") == "/etc/passwd" and stat.S_ISFIFO((made / "fifo").stat().st_mode)
    assert (made / "d/f").samefile(made / "same") and (made / "d/f").read_bytes() == b"x" * 5000
    assert (made / "d/f").samefile(tree / "d/f") == linked
    assert done.size == 5000 == done.shared + done.copied and (done.shared == 5000 or not linked)


def test_a_file_that_cannot_be_linked_is_copied(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From another file system, for example."""

    def refuse(*_: object, **more: object) -> None:
        if "src_dir_fd" in more:
            raise OSError(18, "Invalid cross-device link")
        return link(*_, **more)

    link = os.link
    monkeypatch.setattr(os, "link", refuse)
    clone(tree, linked=True)
    made = tree.parent / "to"
    assert not (made / "d/f").samefile(tree / "d/f") and (made / "d/f").samefile(made / "same")


def test_a_tree_that_is_too_deep_is_refused(tree: Path) -> None:
    here = tree
    for _ in range(cloning._DEEPEST + 2):
        here = here / "x"
        here.mkdir()
    with pytest.raises(Invalid, match="too deeply"):
        clone(tree, linked=False)


def test_a_mark_that_would_lead_an_overlay_elsewhere_is_refused(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only root can set one, so it is said to be there."""
    names = os.listxattr

    def told(path: object, **more: object) -> list[str]:
        return ["trusted.overlay.redirect"] if str(path).endswith("/d") else names(path, **more)

    monkeypatch.setattr(os, "listxattr", told)
    with pytest.raises(Invalid, match=r"d has the attribute trusted\.overlay\.redirect"):
        clone(tree, linked=True)
