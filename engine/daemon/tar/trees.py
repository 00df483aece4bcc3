"""Removing whole directory trees of untrusted shape, at any depth and without following links out of the tree.

Runs in the daemon, on any thread: in C where the C muxer was selected, unless the caller may end the removal. Every
name is relative to an open directory, no symbolic link is followed, and what is mounted in the tree is not touched: the
removal ends there (EBUSY). If a process moves a directory away while it is emptied, the removal ends with an error.
"""

import contextlib
import errno
import logging
import os
from collections.abc import Callable, Iterator

from engine.kernel.beneath import open_unmounted
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # where the daemon has C remove trees
    from engine.daemon.tar import nativetrees
else:
    nativetrees = late("engine.daemon.tar.nativetrees")

log = logging.getLogger(__name__)

_READABLE = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

_in_c = False


def choose(muxer: str) -> None:
    """Have trees made and removed in C, or not; the daemon's start calls it. muxer: what `engine.muxer.select` has
    chosen.
    """
    global _in_c
    _in_c = muxer == "c"


def in_c() -> bool:
    """Whether trees are made and removed in C."""
    return _in_c


def remove_tree(parent: int, name: str, check: Callable[[], None] | None = None) -> None:
    """Remove the directory `name` of `parent` and all that is in it, however deep it is. Raises OSError.

    check: called before each entry; it may raise to end the removal, where a process makes files as fast as they go.
        The tree is one that is in use then, and what is mounted on its files stays too
    """
    if _in_c and check is None:
        nativetrees.remove(parent, name)
        return
    top = open_unmounted(parent, name, _READABLE)
    try:
        # A stack of names with one open descriptor: a hostile layer may be deeper than descriptors or recursion allow.
        for directory, leaf in _bottom_up(top, check):
            os.rmdir(leaf, dir_fd=directory)
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=parent)


def remove_path(path: str) -> None:
    """Remove the tree at an absolute path, whose parent directories are trusted. Raises OSError."""
    above, name = os.path.split(path)
    parent = os.open(above, _READABLE)
    try:
        remove_tree(parent, name)
    finally:
        os.close(parent)


@contextlib.contextmanager
def left_for_later(what: str) -> Iterator[None]:
    """Log an OSError of the removal of `what`, and go on: the daemon's next start tries again.

    A file that cannot be removed must not keep the daemon, with all its containers, from starting.
    """
    try:
        yield
    except OSError as error:
        log.warning("cannot delete %s; the next start tries again: %s", what, error)


def _bottom_up(top: int, check: Callable[[], None] | None) -> Iterator[tuple[int, str]]:
    """(descriptor of the parent, name) of each directory below `top`, deepest first and emptied, for the caller to
    remove.
    """
    here = os.dup(top)
    trail: list[tuple[str, os.stat_result]] = []
    try:
        while True:
            child = _empty(here, check)
            if child is not None:
                deeper = open_unmounted(here, child, _READABLE)
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
            # A container's process may move a directory while it is emptied. Then `..` is another directory, and going
            # on would remove everything in it.
            if not os.path.samestat(os.fstat(here), entered_from):
                raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), name)
            yield here, name
    finally:
        os.close(here)


def _empty(directory: int, check: Callable[[], None] | None) -> str | None:
    """Unlink entries until one is a directory; returns the name of that directory, None if there is none."""
    with os.scandir(directory) as found:
        for item in found:
            if check is not None:
                check()
                os.close(open_unmounted(directory, item.name, os.O_PATH))
            if item.is_dir(follow_symlinks=False):
                return item.name
            os.unlink(item.name, dir_fd=directory)
    return None
