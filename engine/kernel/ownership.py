"""Opens, and makes where they are missing, directories that no other user of the host owns, can replace or write to.

Runs in the process that is to be a daemon, before it writes or reads anything there. Each component of a path is opened
beneath the one before. Links on the way are followed only where nobody else could have put them; in the directory
itself none is. To a user's daemon the host's root may be an id that has no name, so it is whoever owns "/"; and since
others have none either, such a daemon looks at its paths once before it has a user namespace (`reach`).

A group may write where nobody else is in it: that of a user's own name. The group databases know a group by the number
that it has outside of a user namespace, and of one without a number nobody knows who is in it.
"""

import contextlib
import os
import stat
from collections.abc import Iterable

from engine.errors import SystemFailure
from engine.kernel import userns

_PLACE = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READABLE = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_LINKS = 40
_PRIVATE = 0o700
_OF_THE_DISK = "lost+found"  # of ext4, and root's also where the file system is a user's


def make(path: str, mode: int, inside: Iterable[str] = ()) -> None:
    """Make a directory that is this process's own, or take the one that is there; it has no more than this mode then.

    inside: names of directories in it, made or taken likewise, which this process's user alone may enter; a name of two
        parts comes after its first part
    All else that is directly in it has to be this process's own too. Raises SystemFailure in words, and OSError.
    """
    opened = {"": _reached(path, mode)}
    try:
        top = opened[""]
        found = os.fstat(top)
        # A file system that was just mounted is open to all, as /tmp is, until somebody shuts it.
        fresh = bool(found.st_mode & stat.S_ISVTX) and not os.listdir(top)
        _check(path, found, own=True, open_to_all=fresh)
        os.fchmod(top, stat.S_IMODE(found.st_mode) & mode)
        with os.scandir(top) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):  # another daemon runs here, as the lock will tell
                    if entry.name != _OF_THE_DISK:
                        _check(f"{path}/{entry.name}", entry.stat(follow_symlinks=False), own=True)
        for name in inside:
            above, _, last = name.rpartition("/")
            with contextlib.suppress(FileExistsError):
                os.mkdir(last, _PRIVATE, dir_fd=opened[above])
            place = f"{path}/{name}"
            _check(place, os.stat(last, dir_fd=opened[above], follow_symlinks=False), own=True)
            opened[name] = os.open(last, _READABLE, dir_fd=opened[above])
            os.fchmod(opened[name], _PRIVATE)
    finally:
        for fd in opened.values():
            os.close(fd)


def reach(path: str, mode: int) -> None:
    """Check the way to a directory, which is made where it is missing. Raises SystemFailure in words, and OSError."""
    os.close(_reached(path, mode))


def _reached(path: str, mode: int) -> int:
    """Open a directory by a path on which nobody else can put another one."""
    waiting = os.path.abspath(path).split("/")[::-1]
    here, above, name, links = os.open("/", _PLACE), "", "", 0
    try:
        while waiting:
            name = waiting.pop()
            if name in ("", "."):
                continue
            try:
                found = os.stat(name, dir_fd=here, follow_symlinks=False)
            except FileNotFoundError:
                os.mkdir(name, 0o755 if any(waiting) else mode, dir_fd=here)
                found = os.stat(name, dir_fd=here, follow_symlinks=False)
            place = f"{above}/{name}"
            target = ""
            if stat.S_ISLNK(found.st_mode):
                _check(place, found)
                target, links = os.readlink(name, dir_fd=here), links + 1
                if links > _MOST_LINKS:
                    raise SystemFailure(f"{path} cannot be used: too many symbolic links")
                waiting += target.split("/")[::-1]
                if not target.startswith("/"):
                    continue
            there = os.open("/" if target else name, _PLACE, dir_fd=here)
            os.close(here)
            here, found, above = there, os.fstat(there), "" if target else place
            # Whoever may write to a directory with the sticky bit cannot replace what others have there.
            _check(place, found, open_to_all=bool(found.st_mode & stat.S_ISVTX) or not any(waiting))
        return os.open(".", _READABLE, dir_fd=here)
    except OSError as error:
        error.filename = f"{above}/{name}"
        raise
    finally:
        os.close(here)


def _check(path: str, found: os.stat_result, own: bool = False, open_to_all: bool = False) -> None:
    """Raise SystemFailure for what another user owns or can write to.

    own: it is to belong to this process's user, and not to the host's root; nor may it be a symbolic link
    open_to_all: others may write to it
    """
    root = os.stat("/")
    user = os.geteuid()
    if own and stat.S_ISLNK(found.st_mode):
        raise SystemFailure(f"{path} cannot be used: it is a symbolic link")
    if found.st_uid != user and (own or found.st_uid != root.st_uid):
        raise SystemFailure(
            f"{path} cannot be used: it belongs to the user {found.st_uid}, who could put anything there;"
            f" it has to belong to the user {user}"
        )
    writers = found.st_mode & (stat.S_IWOTH | stat.S_IWGRP)
    if not writers or open_to_all or stat.S_IFMT(found.st_mode) not in (stat.S_IFDIR, stat.S_IFREG):
        return
    if writers & stat.S_IWOTH or not _is_private(found.st_gid):
        of = "" if writers & stat.S_IWOTH else f" of the group {found.st_gid}"
        raise SystemFailure(
            f"{path} cannot be used: other users{of} can write to it (mode {stat.S_IMODE(found.st_mode):04o})"
        )


def _is_private(gid: int) -> bool:
    """Whether it is the group of this process's user alone, or of root alone."""
    number = userns.hosts_group(gid)
    return number >= 0 and any(_is_of(uid, number) for uid in (userns.hosts_number(), 0))


def _is_of(uid: int, gid: int) -> bool:
    import grp  # loaded for a path to which a group may write
    import pwd

    try:
        group = grp.getgrgid(gid)
    except KeyError:
        return gid == uid
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        return False
    return group.gr_name == name and set(group.gr_mem) <= {name}
