"""The cgroups that a build's steps lie in by their client's word (`--cgroup-parent`): checks their names, removes them.

A parent that was not there before the first step that uses it is removed with the last one, if nobody else is in it.
Any thread that builds may call; the lock is held for a look or a change.
"""

import collections
import contextlib
import os
import posixpath
import threading
import time
from collections.abc import Iterator

from engine.daemon.containers.security import cgroupparent, walls
from engine.daemon.parts import ContainerParts
from engine.errors import Invalid
from engine.literals import quoted
from engine.sandbox.cgroups import slices

# Seconds for which a step waits for the end of its container's own cgroup, which the kernel may keep for a moment.
_LONGEST, _STEP = 0.5, 0.01
_lock = threading.Lock()
_using = collections.Counter[str]()  # parents that steps use now, and those above them; guarded by the lock
_made: set[str] = set()  # those of them that were not there before; guarded by the lock


def checked(parent: str) -> str:
    """The parent itself. Raises Invalid for one that leads upwards, or can be no path."""
    cgroupparent.check_path(parent)
    if ".." in parent.split("/"):
        raise Invalid(f"invalid cgroup-parent {quoted(parent)}: it leads upwards")
    return parent


@contextlib.contextmanager
def used(engine: ContainerParts, parent: str) -> Iterator[None]:
    """A step lies below this parent, which is removed after it if it was made for it; empty for the usual one.

    Slices are systemd's, which removes them itself.
    """
    if not parent or slices.is_slice(parent):
        yield
        return
    paths = _growing(walls.absolute(parent))
    with _lock:
        _made.update(path for path in paths if not _using[path] and not _is_there(engine, path))
        _using.update(paths)
    try:
        yield
    finally:
        with _lock:
            _using.subtract(paths)
        until = time.monotonic() + _LONGEST
        while not _removed(engine, paths) and time.monotonic() < until:
            time.sleep(_STEP)
        with _lock:
            _made.difference_update(path for path in paths if not _using[path])


def _removed(engine: ContainerParts, paths: list[str]) -> bool:
    """Remove those of the paths that nobody uses, the lowest first; False where one is still there."""
    with _lock:
        for path in reversed(paths):
            if _using[path]:
                continue
            del _using[path]
            if path in _made:
                engine.cgroups.leave(path)
                if _is_there(engine, path):
                    return False
                _made.discard(path)
    return True


def _growing(path: str) -> list[str]:
    """The path and those above it, the uppermost first, without the root."""
    found: list[str] = []
    while path != "/":
        found.append(path)
        path = posixpath.dirname(path)
    return found[::-1]


def _is_there(engine: ContainerParts, parent: str) -> bool:
    return any(os.path.isdir(directory) for directory in engine.cgroups.directories("", parent))
