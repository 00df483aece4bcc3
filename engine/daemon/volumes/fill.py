"""Filling an empty volume with what the image has at the place where the volume is mounted.

Runs in the daemon, on the thread that creates a container. Both trees are strangers': every name is opened relative to
an open directory, and no symbolic link is followed but within the image's own root on the way to the place.
"""

import os

from engine.daemon.images.layers.storage import copy_tree
from engine.daemon.tar.space import check_space
from engine.errors import SystemFailure
from engine.kernel.beneath import is_directory, open_beneath

_READABLE = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def is_empty(path: str) -> bool:
    """Whether nothing is in the volume's directory."""
    with os.scandir(path) as found:
        return next(found, None) is None


def is_there(root_fd: int, place: str) -> bool:
    """Whether the root has anything at `place`."""
    try:
        os.close(open_beneath(root_fd, place, os.O_PATH | os.O_CLOEXEC))
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def fill(root_fd: int, place: str, volume: str) -> None:
    """Copy what is in the directory `place` of the root, and its owner, mode and times, to the directory `volume`.

    Nothing happens where there is no such place. Raises SystemFailure for a file in its stead, OSError.
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
