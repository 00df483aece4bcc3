"""Removing directory trees that a stranger shaped: any depth, any links, and never a step outside.

Runs in the daemon, on any thread. Every name is relative to an open directory; no symbolic link is followed.
"""

import os
from collections.abc import Iterator

_READABLE = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def remove_tree(parent: int, name: str) -> None:
    """Remove the directory `name` of `parent` and all that is in it, following no link and however deep it is."""
    top = os.open(name, _READABLE | os.O_NOFOLLOW, dir_fd=parent)
    try:
        # A stack of names and one descriptor at a time: a hostile layer may be deeper than descriptors or recursion go.
        for directory, leaf in _bottom_up(top):
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


def _bottom_up(top: int) -> Iterator[tuple[int, str]]:
    """(descriptor, name) of each directory below `top`, emptied of all that is no directory, deepest first."""
    here = os.dup(top)
    trail: list[str] = []
    try:
        while True:
            child = _empty(here)
            if child is not None:
                deeper = os.open(child, _READABLE | os.O_NOFOLLOW, dir_fd=here)
                os.close(here)
                here = deeper
                trail.append(child)
                continue
            if not trail:
                return
            # Nobody else moves these directories about, so ".." is where this one was entered from.
            above = os.open("..", _READABLE, dir_fd=here)
            os.close(here)
            here = above
            yield here, trail.pop()
    finally:
        os.close(here)


def _empty(directory: int) -> str | None:
    """Unlink all that is no directory; returns the name of a directory that is there, or None."""
    with os.scandir(directory) as found:
        for item in found:
            if item.is_dir(follow_symlinks=False):
                return item.name
            os.unlink(item.name, dir_fd=directory)
    return None
