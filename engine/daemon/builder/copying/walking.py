"""Walks a directory tree that is not trusted: every member once, in the order of names, and never out of the tree.

Runs in the build's thread. It holds a bounded number of names and of descriptors, however wide and deep the tree is.
The names of a very large directory are read again for each part of them.
"""

import heapq
import itertools
import os
from collections.abc import Callable, Iterator

from engine.dataclass import dataclass
from engine.kernel.beneath import open_beneath

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_LEVELS = 32
_MOST_NAMES = 50_000


@dataclass(frozen=True, slots=True)
class Member:
    """One entry of the tree: `name` in the directory `parent`, which stays open until the next member is asked for.

    path: from the directory that is walked; is_directory: false for a symbolic link to a directory
    """

    parent: int
    name: str
    path: str
    is_directory: bool


# For a path, and whether it is a directory: whether it is yielded, and whether a directory's contents are looked at.
Choice = Callable[[str, bool], tuple[bool, bool]]


def _all(_path: str, _is_directory: bool) -> tuple[bool, bool]:
    return True, True


def members(top: int, choose: Choice = _all) -> Iterator[Member]:
    """The members beneath the directory `top`, a directory before its contents. Raises OSError."""
    levels = [_Level(os.open(".", _DIRECTORY, dir_fd=top), "")]
    try:
        while levels:
            level = levels[-1]
            if level.fd < 0:
                level.fd = open_beneath(top, level.path.rstrip("/"), _DIRECTORY, no_symlinks=True)
            entered = None
            for name, is_directory in level.entries:
                path = level.path + name
                shown, looked_at = choose(path, is_directory)
                if shown:
                    yield Member(level.fd, name, path, is_directory)
                if is_directory and looked_at:
                    entered = _Level(os.open(name, _DIRECTORY, dir_fd=level.fd), f"{path}/")
                    break
            if entered is None:
                levels.pop().close()
                continue
            levels.append(entered)
            if len(levels) > _OPEN_LEVELS:
                levels[-_OPEN_LEVELS].close()
    finally:
        for level in levels:
            level.close()


class _Level:
    """One directory on the way: its descriptor (-1: closed meanwhile), its path, and the entries still to come."""

    __slots__ = ("entries", "fd", "path")

    def __init__(self, fd: int, path: str):
        self.fd = fd
        self.path = path
        self.entries = self._sorted()

    def _sorted(self) -> Iterator[tuple[str, bool]]:
        """The directory's names in order, each with whether it is a directory."""
        with os.scandir(self.fd) as found:
            part = [_entry(each) for each in itertools.islice(found, _MOST_NAMES)]
            whole = next(found, None) is None
        if whole:
            yield from sorted(part)
            return
        last = ""
        while part:
            with os.scandir(self.fd) as found:
                part = heapq.nsmallest(_MOST_NAMES, (_entry(each) for each in found if each.name > last))
            yield from part
            last = part[-1][0] if part else last

    def close(self) -> None:
        """Close the descriptor."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def _entry(found: os.DirEntry[str]) -> tuple[str, bool]:
    return found.name, found.is_dir(follow_symlinks=False)
