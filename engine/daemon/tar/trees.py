"""Removing directory trees that a stranger shaped: any depth, any links, and never a step outside.

Runs in the daemon, on any thread. Every name is relative to an open directory; no symbolic link is followed, and a
directory that somebody moves away meanwhile ends it.
"""

import errno
import os
from collections.abc import Callable, Iterator

_READABLE = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def remove_tree(parent: int, name: str, check: Callable[[], None] | None = None) -> None:
    """Remove the directory `name` of `parent` and all that is in it, following no link and however deep it is.

    check: called again and again, to end it by raising: where somebody makes files as fast as they are removed
    """
    top = os.open(name, _READABLE | os.O_NOFOLLOW, dir_fd=parent)
    try:
        # A stack of names and one descriptor at a time: a hostile layer may be deeper than descriptors or recursion go.
        for directory, leaf in _bottom_up(top, check):
            os.rmdir(leaf, dir_fd=directory)
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=parent)


def remove_path(path: str) -> None:
    """`remove_tree` of an absolute path, whose directories above are not a stranger's."""
    above, name = os.path.split(path)
    parent = os.open(above, _READABLE)
    try:
        remove_tree(parent, name)
    finally:
        os.close(parent)


def _bottom_up(top: int, check: Callable[[], None] | None) -> Iterator[tuple[int, str]]:
    """(descriptor, name) of each directory below `top`, emptied of all that is no directory, deepest first."""
    here = os.dup(top)
    trail: list[tuple[str, os.stat_result]] = []
    try:
        while True:
            child = _empty(here, check)
            if child is not None:
                deeper = os.open(child, _READABLE | os.O_NOFOLLOW, dir_fd=here)
                trail.append((child, os.fstat(here)))
                os.close(here)
                here = deeper
                continue
            if not trail:
                return
            above = os.open("..", _READABLE, dir_fd=here)
            os.close(here)
            here = above
            name, entered_from = trail.pop()
            # In a container's tree a directory may be moved while it is emptied: up there everything would go.
            if not os.path.samestat(os.fstat(here), entered_from):
                raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), name)
            yield here, name
    finally:
        os.close(here)


def _empty(directory: int, check: Callable[[], None] | None) -> str | None:
    """Unlink all that is no directory; returns the name of a directory that is there, or None."""
    with os.scandir(directory) as found:
        for item in found:
            if check is not None:
                check()
            if item.is_dir(follow_symlinks=False):
                return item.name
            os.unlink(item.name, dir_fd=directory)
    return None
