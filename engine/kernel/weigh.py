"""Sums the sizes of the files below a directory, safely also while a container changes it.

Runs wherever a size is asked for. The files may be a container's. So no symbolic link is followed, a directory is
opened from its parent by its bare name, and the cost in descriptors and bytes is bounded whatever the container
creates. Files that vanish meanwhile count nothing.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Callable

DEEPEST = 256
"""The most levels of directories that are read, with two descriptors each. Files below them count nothing."""
MOST_LINKED = 1 << 18
"""The most files with several links that are remembered. Of any further such file each link counts its share."""
_READABLE = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_BLOCK = 512


def length(status: os.stat_result) -> int:
    """The length of a file in bytes, a weight for `below`."""
    return status.st_size


def room(status: os.stat_result) -> int:
    """The bytes that a file takes on the disk, a weight for `below`."""
    return status.st_blocks * _BLOCK


def below(path: str, weight: Callable[[os.stat_result], int], directories: bool = False) -> int:
    """The sum of the weights of all files below a directory; with `directories`, of directories too.

    A file with several links counts once. 0 where `path` is no directory or does not exist. Raises OSError for a
    directory that cannot be read.
    """
    try:
        top = _Level(os.open(path, _READABLE))
    except OSError as error:
        if error.errno in _GONE:
            return 0
        raise
    links = _Links()
    total = 0
    levels = [top]
    try:
        while levels:
            status, name = levels[-1].next()
            if status is None:
                levels.pop().close()
                continue
            is_directory = stat.S_ISDIR(status.st_mode)
            if directories or not is_directory:
                total += weight(status) if is_directory else links.share(status, weight(status))
            if is_directory and len(levels) < DEEPEST:
                levels += levels[-1].into(name)
    finally:
        for level in levels:
            level.close()
    return total


class _Level:
    """One directory that is being read."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        try:
            self._entries = os.scandir(descriptor)
        except BaseException:
            os.close(descriptor)
            raise

    def next(self) -> tuple[os.stat_result | None, str]:
        """The next entry that still exists, and its name; None at the end."""
        for entry in self._entries:
            with contextlib.suppress(FileNotFoundError):
                return entry.stat(follow_symlinks=False), entry.name
        return None, ""

    def into(self, name: str) -> list["_Level"]:
        """The subdirectory of that name; empty if it has gone."""
        try:
            return [_Level(os.open(name, _READABLE, dir_fd=self._descriptor))]
        except OSError as error:
            if error.errno in _GONE:
                return []
            raise

    def close(self) -> None:
        self._entries.close()
        os.close(self._descriptor)


class _Links:
    """Remembers the files with several links, so that each counts once."""

    def __init__(self) -> None:
        self._known: dict[int, set[int]] = {}  # device → inodes
        self._count = 0

    def share(self, status: os.stat_result, weight: int) -> int:
        """The weight that this link of a file adds to the sum."""
        if status.st_nlink < 2:
            return weight
        known = self._known.setdefault(status.st_dev, set())
        if status.st_ino in known:
            return 0
        if self._count >= MOST_LINKED:
            return weight // status.st_nlink
        known.add(status.st_ino)
        self._count += 1
        return weight
