"""A directory that another user owns, can replace or write to is not taken, and nothing there is changed."""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.errors import SystemFailure
from engine.kernel import ownership, userns

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
        (
            _opened("..", 0o775, OTHER),
            f"above cannot be used: other users of the group {OTHER} can write to it (mode 0775)",
        ),
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


class Databases:
    """Users and groups that a host knows: by number, a user's name, and a group's with its members."""

    users = {0: "root", 1000: "me", 1001: "other"}
    groups = {0: ("root", []), 1000: ("me", ["me"]), 100: ("users", []), 50: ("staff", []), 27: ("me", ["other"])}

    def getpwuid(self, uid):
        return SimpleNamespace(pw_name=self.users[uid])

    def getgrgid(self, gid):
        name, members = self.groups[gid]
        return SimpleNamespace(gr_name=name, gr_mem=members)


WHOLE = [(0, 0, 1 << 32)]
ROOTLESS = [(0, 1000, 1), (1, 100_000, 65_536)]
SHARED = [(0, 100, 1), (1, 100_000, 65_536)]
REMAPPED = [(0, 100_000, 65_536)]


@pytest.mark.parametrize(
    ("uid", "users", "groups", "gid", "private"),
    [
        (0, WHOLE, WHOLE, 0, True),
        (0, WHOLE, WHOLE, 50, False),
        (0, WHOLE, WHOLE, 1000, False),
        (1000, WHOLE, WHOLE, 1000, True),
        (1000, WHOLE, WHOLE, 0, True),
        (1000, WHOLE, WHOLE, 100, False),  # also where it is the primary group
        (1000, WHOLE, WHOLE, 27, False),
        (0, ROOTLESS, ROOTLESS, 0, True),
        (0, ROOTLESS, SHARED, 0, False),
        (0, ROOTLESS, ROOTLESS, 65_534, False),  # a number that a container's group may have
        (0, ROOTLESS, ROOTLESS[:1], 65_534, False),  # one that is not mapped: the host's root's, or anybody's
        (0, REMAPPED, REMAPPED, 0, True),  # numbers that nobody has a name for
        (0, REMAPPED, REMAPPED, 50, False),
        (4711, WHOLE, WHOLE, 4711, True),
        (4711, WHOLE, WHOLE, 4712, False),
        (4711, WHOLE, WHOLE, 50, False),
    ],
)
def test_a_group_may_write_where_nobody_else_is_in_it(monkeypatch, uid, users, groups, gid, private):
    databases = Databases()
    for module, name in (("pwd", "getpwuid"), ("grp", "getgrgid")):
        monkeypatch.setattr(f"{module}.{name}", getattr(databases, name))
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr(userns, "_map", lambda path: users if "uid" in path else groups)
    userns.hosts_number.cache_clear()
    monkeypatch.setattr(os, "getegid", lambda: gid)
    mode = stat.S_IFDIR | 0o770
    found = os.stat_result((mode, 0, 0, 0, uid, gid, 0, 0, 0, 0))
    try:
        if private:
            ownership._check("/x", found)
        else:
            with pytest.raises(SystemFailure, match=f"other users of the group {gid} can write to it"):
                ownership._check("/x", found)
        ownership._check("/x", found, open_to_all=True)
        for shut in (0o711, 0o710, 0o700, 0o750):
            ownership._check("/x", os.stat_result((stat.S_IFDIR | shut, 0, 0, 0, uid, gid, 0, 0, 0, 0)))
    finally:
        userns.hosts_number.cache_clear()


def test_a_way_is_looked_at_before_a_namespace_hides_whose_it_is(tmp_path):
    ownership.reach(f"{tmp_path}/made/root", 0o711)
    assert mode(tmp_path / "made/root") == 0o711
    (tmp_path / "made").chmod(0o777)
    with pytest.raises(SystemFailure, match="made cannot be used: other users can write to it"):
        ownership.reach(f"{tmp_path}/made/root", 0o711)


@pytest.mark.root
def test_what_only_this_users_group_may_write_to_is_taken_and_so_is_a_directory_open_to_all_like_tmp(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grp.getgrgid", Databases().getgrgid)
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
