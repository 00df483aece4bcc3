"""A directory that another user owns, can replace or write to is not taken, and nothing there is changed."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import SystemFailure
from engine.kernel import ownership

OTHER = 4711
INSIDE = ("tmp", "volumes", "volumes/.removed")


def mode(path: Path) -> int:
    """Its permissions."""
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory that an engine has made."""
    made = tmp_path / "above" / "root"
    ownership.make(str(made), 0o711, INSIDE)
    return made


def test_it_is_made_and_taken_again(root: Path) -> None:
    for _ in range(2):
        assert mode(root) == 0o711 and {mode(root / name) for name in INSIDE} == {0o700}
        root.chmod(0o755)
        (root / "tmp").chmod(0o755)
        ownership.make(str(root), 0o711, INSIDE)
    root.chmod(0o700)  # an administrator has shut it further
    ownership.make(str(root), 0o711)
    assert mode(root) == 0o700


def test_a_link_of_the_administrator_leads_to_the_root(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("above/./root")
    (tmp_path / "again").symlink_to(tmp_path / "link")
    ownership.make(f"{tmp_path}/again/", 0o711, INSIDE)
    ownership.make(f"{tmp_path}/link/../root2", 0o711)
    assert (root / "../../root2").exists()  # `..` is taken away before anything is looked up, as by the shell
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(SystemFailure, match="too many symbolic links"):
        ownership.make(f"{tmp_path}/round", 0o711)


def _link(name: str) -> Callable[[Path, Path], None]:
    def replace(root: Path, elsewhere: Path) -> None:
        os.rename(root / name, root.parent / "away")
        (root / name).symlink_to(elsewhere)

    return replace


def _given_away(name: str) -> Callable[[Path, Path], None]:
    return lambda root, _: os.chown(root / name, OTHER, -1)


def _opened(name: str, bits: int, group: int = 0) -> Callable[[Path, Path], None]:
    def change(root: Path, _: Path) -> None:
        os.chown(root / name, -1, group)
        (root / name).chmod(bits)

    return change


def _their_link(root: Path, elsewhere: Path) -> None:
    root.parent.chmod(0o1777)
    os.rename(root, elsewhere / "root")
    root.symlink_to(elsewhere / "root")
    os.chown(root, OTHER, OTHER, follow_symlinks=False)


def _planted(root: Path, elsewhere: Path) -> None:
    (root / "engine.db").symlink_to(elsewhere / "file")


def _their_file(root: Path, _: Path) -> None:
    (root / "lock").touch()
    os.chown(root / "lock", OTHER, OTHER)


@pytest.mark.root
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_link("tmp"), "tmp cannot be used: it is a symbolic link"),
        (_link("volumes/.removed"), "volumes/.removed cannot be used: it is a symbolic link"),
        (_planted, "engine.db cannot be used: it is a symbolic link"),
        (_given_away("."), f"it belongs to the user {OTHER}"),
        (_given_away("tmp"), f"tmp cannot be used: it belongs to the user {OTHER}"),
        (_given_away("volumes/.removed"), f"removed cannot be used: it belongs to the user {OTHER}"),
        (_given_away(".."), f"above cannot be used: it belongs to the user {OTHER}"),
        (_their_file, f"lock cannot be used: it belongs to the user {OTHER}"),
        (_their_link, f"root cannot be used: it belongs to the user {OTHER}"),
        (_opened(".", 0o777), "other users can write to it (mode 0777)"),
        (_opened("tmp", 0o1777), "tmp cannot be used: other users can write to it (mode 1777)"),
        (_opened(".", 0o1777), "other users can write to it (mode 1777)"),
        (_opened("..", 0o757), "above cannot be used: other users can write to it (mode 0757)"),
        (_opened("..", 0o775, OTHER), "above cannot be used: other users can write to it (mode 0775)"),
    ],
)
def test_what_is_not_this_users_own_is_refused(
    root: Path, tmp_path: Path, change: Callable[[Path, Path], None], words: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(0o755)
    (elsewhere / "file").touch()
    change(root, elsewhere)
    before = {path: path.lstat() for path in tmp_path.rglob("*")}
    with pytest.raises(SystemFailure) as refused:
        ownership.make(str(root), 0o700, (*INSIDE, "new"))
    assert words in str(refused.value)
    after = {path: path.lstat() for path in tmp_path.rglob("*")}
    assert {path: each.st_mode for path, each in after.items() if path != root and path in before} == {
        path: each.st_mode for path, each in before.items() if path != root
    }
    assert mode(elsewhere) == 0o755 and not (elsewhere / "new").exists()


@pytest.mark.root
def test_what_only_this_users_group_may_write_to_is_taken_and_so_is_a_directory_open_to_all_like_tmp(
    root: Path,
) -> None:
    root.parent.chmod(0o775)
    ownership.make(str(root), 0o711, INSIDE)
    root.parent.chmod(0o1777)
    ownership.make(str(root), 0o711, INSIDE)
    mounted = root.parent / "mounted"  # as a tmpfs is when it was just mounted
    mounted.mkdir()
    mounted.chmod(0o1777)
    (mounted / "lost+found").mkdir()
    os.chown(mounted / "lost+found", OTHER, OTHER)
    with pytest.raises(SystemFailure, match="can write to it"):
        ownership.make(str(mounted), 0o711)
    (mounted / "lost+found").rmdir()
    ownership.make(str(mounted), 0o711)
    assert mode(mounted) == 0o711
