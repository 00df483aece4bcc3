"""Resolves a path beneath a root directory: symbolic links are followed inside the root, as in a container, never out.

Runs in the build's thread, and in the thread that looks into the base. Neither root, context or base image, is trusted:
an image's `/etc` may be a link to `../../..`, which resolves to the root again.
"""

import errno
import os
import stat

from engine.dataclass import dataclass
from engine.errors import Invalid
from engine.kernel.beneath import followed, open_beneath

_PLACE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Place:
    """A destination with its links resolved.

    above: each directory on the way and the place itself, topmost first, each with its status now (None: nothing there)
    path: of the place, without a slash at either end; empty: the root itself
    """

    above: tuple[tuple[str, os.stat_result | None], ...]
    path: str

    @property
    def found(self) -> os.stat_result | None:
        """The status of what is at the place; None where nothing is, or where the place is the root."""
        return self.above[-1][1] if self.above else None

    @property
    def is_directory(self) -> bool:
        """Whether the place is a directory already; the root always is one."""
        return not self.above or (self.found is not None and stat.S_ISDIR(self.found.st_mode))


def within(root: int, path: str, whole: bool, follow: bool = True) -> list[tuple[str, os.stat_result | None]]:
    """Each real directory on the way to `path`, and what it leads to, each with its status; paths are from the root.

    whole: all of the path must exist; else the missing rest of it is taken as named
    follow: symbolic links are followed; else a link, or a file on the way, counts as nothing (None). Raises OSError.
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
    """The status of what is at the path, and its target if it is a symbolic link. (None, None) for nothing."""
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
    """The place of an instruction's destination in the base.

    Raises Invalid for a file in the way; `follow`: see `within`.
    """
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
