"""Where a path leads beneath a root: symbolic links followed inside it, never out, as its containers would.

Runs in the build's thread and in the one that looks into the base. Both roots are strangers': an image's `/etc` may be
a link to `../../..`, which is the root again.
"""

import errno
import os
import stat
from dataclasses import dataclass

from engine.errors import Invalid
from engine.kernel.beneath import followed, open_beneath

_PLACE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Place:
    """A destination with its links resolved.

    above: each directory on the way and the place itself, topmost first, with what is there now (None: nothing yet)
    path: of the place, without a slash at either end; empty: the root itself
    """

    above: tuple[tuple[str, os.stat_result | None], ...]
    path: str

    @property
    def found(self) -> os.stat_result | None:
        """What is at the place; None: nothing, or it is the root."""
        return self.above[-1][1] if self.above else None

    @property
    def is_directory(self) -> bool:
        """Whether the place is a directory already; the root is always one."""
        return not self.above or (self.found is not None and stat.S_ISDIR(self.found.st_mode))


def within(root: int, path: str, whole: bool, follow: bool = True) -> list[tuple[str, os.stat_result | None]]:
    """Each real directory on the way to `path` and what it leads to in the end, paths from the root.

    whole: all of it must be there; else what is missing is taken as it is named
    follow: symbolic links lead somewhere; else one, or a file on the way, counts as nothing at all. Raises OSError.
    """
    seen: dict[str, os.stat_result | None] = {}

    def link_at(here: str) -> str | None:
        directory = here.rpartition("/")[0]
        if directory:
            above = seen[directory]
            if above is None:
                seen[here] = None
                return None
            if not stat.S_ISDIR(above.st_mode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        found, link = _look(root, here, whole)
        if not follow and found is not None and not stat.S_ISDIR(found.st_mode):
            found, link = None, None
        seen[here] = found
        return link

    parts = followed(path, link_at).split("/")
    ways = ("/".join(parts[: count + 1]) for count in range(len(parts)) if parts[count])
    return [(way, seen[way]) for way in ways]


def _look(root: int, path: str, whole: bool) -> tuple[os.stat_result | None, str | None]:
    """What is at the path, whose directories are real ones, and what it says if it is a symbolic link."""
    try:
        fd = open_beneath(root, path, _PLACE)
    except FileNotFoundError:
        if whole:
            raise
        return None, None
    try:
        found = os.fstat(fd)
        return found, os.readlink("", dir_fd=fd) if stat.S_ISLNK(found.st_mode) else None
    finally:
        os.close(fd)


def destination(root: int, path: str, follow: bool = True) -> Place:
    """Where an instruction's destination is in the base; see `within`. Raises Invalid for a file in the way."""
    try:
        above = within(root, path, False, follow)
    except NotADirectoryError as error:
        raise Invalid(f"failed to copy files: lstat {path}: not a directory") from error
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise Invalid(f"failed to copy files: evalSymlinksInScope: too many links in {path}") from error
        if error.errno == errno.ENAMETOOLONG:
            raise Invalid(f"failed to copy files: lstat {path}: file name too long") from error
        raise
    return Place(tuple(above), above[-1][0] if above else "")
