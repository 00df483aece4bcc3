"""Finds a container process's uid, gid and groups: looks the API's User up in the image's passwd and group files.

`resolve` is pure, texts in and numbers out, with the rules and the words of docker (moby/sys/user); `identify` reads
the files beneath the container's root. Runs in init before pivot_root, and in an exec's joiner. It never asks the
host's user database.
"""

import errno
import os
import stat

from engine.dataclass import dataclass
from engine.errors import Invalid
from engine.kernel.beneath import open_beneath
from engine.literals import natural

_LARGEST_FILE = 4 << 20
_LARGEST_ID = 2**31 - 1
_BLANKS = " \t\n\v\f\r"


@dataclass(frozen=True, slots=True)
class Identity:
    """uid, gid and the whole list for setgroups(2), the primary group first; home is the user's directory."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str


def with_home(env: tuple[str, ...], home: str) -> list[str]:
    """The variables with HOME as the user has it, unless they name another directory than an empty one."""
    kept = [each for each in env if each != "HOME="]
    return kept if any(each.startswith("HOME=") for each in kept) else [*kept, f"HOME={home}"]


def resolve(user: str, additional: tuple[str, ...], passwd: str, group: str) -> Identity:
    """The identity for `user` (empty, `name`, `uid`, `name:group`, ...) and additional groups (names or numbers).

    `passwd` and `group` are the texts of the files (passwd(5), group(5)); lines that do not parse are passed over.
    Digits are always a number, even if the image has a user of that name: else a passwd file with a user "1000" whose
    uid is 0 would make root of every process that was to be 1000 (CVE-2016-3697, CVE-2026-46680). A number that the
    files do not have is taken as it is, a name raises Invalid, as does a number out of range.
    """
    name, group_name, *_ = *user.split(":"), ""
    groups = _groups(group)
    uid, gid, home, login = 0, 0, "/", ""
    entry = _passwd_entry(name, passwd)
    if entry is not None:
        login, uid, gid, home = entry
    elif name:
        uid = _number(name, f"unable to find user {name}: no matching entries in passwd file")
    extra: list[int] = []
    if group_name:
        gid = _group_id(group_name, groups)
    elif login:
        extra = [number for _, number, members in groups if login in members]
    extra += [_group_id(text, groups) for text in additional]
    return Identity(uid, gid, tuple(dict.fromkeys([gid, *extra])), home or "/")


def identify(root_fd: int, user: str, additional: tuple[str, ...], own_proc: bool = True) -> Identity:
    """`resolve` with the files of the root behind `root_fd`; files that are missing count as empty.

    own_proc: as in `read`
    """
    passwd, group = (read(root_fd, path, own_proc) for path in ("/etc/passwd", "/etc/group"))
    return resolve(user, additional, passwd, group)


def _passwd_entry(name: str, passwd: str) -> tuple[str, int, int, str] | None:
    """The first matching line as (name, uid, gid, home); an empty name asks for uid 0, and digits for that uid."""
    wanted = natural(name or "0", _LARGEST_ID)
    for line in passwd.split("\n"):
        fields = line.split(":")
        uid, gid = (natural(text, _LARGEST_ID) for text in fields[2:4]) if len(fields) > 3 else (None, None)
        if uid is None or gid is None:
            continue
        if uid == wanted or (fields[0] == name and not _is_number(name)):
            return fields[0], uid, gid, fields[5] if len(fields) > 5 else ""
    return None


def _groups(group: str) -> list[tuple[str, int, list[str]]]:
    """Every group as (name, gid, members)."""
    rows = []
    for line in group.split("\n"):
        fields = line.strip(_BLANKS).split(":")
        gid = natural(fields[2], _LARGEST_ID) if len(fields) > 2 else None
        if gid is not None:
            rows.append((fields[0], gid, fields[3].split(",") if len(fields) > 3 else []))
    return rows


def _group_id(text: str, groups: list[tuple[str, int, list[str]]]) -> int:
    for name, number, _ in groups:
        if text == name and not _is_number(text):
            return number
    return _number(text, f"unable to find group {text}: no matching entries in group file")


def _number(text: str, otherwise: str) -> int:
    if not _is_number(text):
        raise Invalid(otherwise)
    value = natural(text, _LARGEST_ID)
    if value is None:
        raise Invalid(f"uids and gids must be in range 0-{_LARGEST_ID}")
    return value


def _is_number(text: str) -> bool:
    return text.isascii() and text.removeprefix("-").isdecimal()


def read(root_fd: int, path: str, own_proc: bool = True) -> str:
    """The text of a file of the root; empty where it is missing. Raises Invalid for what is no file, OSError.

    own_proc: /proc is the host's and not the container's
    """
    try:
        place = open_beneath(root_fd, path, os.O_PATH)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):  # an image need not have these files
            return ""
        raise
    try:
        # The image may have put anything there, and to open a device can have effects: so it is looked at first.
        _check_regular(place, path)
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
        # With a /proc of the container's the path is opened again. The caller is in the container's cgroup then: if the
        # container has put a device there meanwhile, its own rules for devices hold.
        fd = os.open(f"/proc/self/fd/{place}", flags) if own_proc else open_beneath(root_fd, path, flags)
    finally:
        os.close(place)
    try:
        size = _check_regular(fd, path)
        return os.read(fd, min(size, _LARGEST_FILE)).decode("utf-8", "surrogateescape")
    finally:
        os.close(fd)


def _check_regular(fd: int, path: str) -> int:
    """Its size in bytes. Raises Invalid."""
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        raise Invalid(f"{path} in the image is not a regular file")
    return found.st_size
