"""Copying an image's directory at a volume's mount point into the volume, and checking whether a volume is empty.

Runs in the daemon, on the thread that creates a container. Strangers control both directory trees. So every name is
opened relative to an open directory descriptor. A symbolic link is followed only on the way to the mount point, and
within the image's root.
"""

import os

from engine.daemon.images.layers.storage import copy_tree
from engine.daemon.tar.space import check_space
from engine.errors import SystemFailure
from engine.kernel.beneath import is_directory, open_beneath

_READABLE = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def is_empty(path: str) -> bool:
    """Whether the directory `path` has no entries."""
    with os.scandir(path) as found:
        return next(found, None) is None


def is_there(root_fd: int, place: str) -> bool:
    """Whether the image's root has anything at the path `place`."""
    try:
        os.close(open_beneath(root_fd, place, os.O_PATH | os.O_CLOEXEC))
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def fill(root_fd: int, place: str, volume: str) -> None:
    """Copy the contents, owner, mode and times of the directory `place` of the root to the directory `volume`.

    Does nothing where `place` does not exist. Raises SystemFailure where it is no directory; OSError.
    """
    try:
        source = open_beneath(root_fd, place, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        if not is_directory(source):
            raise SystemFailure(f"cannot mount volume over existing file, file exists {place}")
        readable = os.open(".", _READABLE, dir_fd=source)
    finally:
        os.close(source)
    try:
        sink = os.open(volume, _READABLE)
        try:
            copy_tree(readable, sink, lambda: check_space(sink))
        finally:
            os.close(sink)
    finally:
        os.close(readable)
