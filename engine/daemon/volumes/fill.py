"""Copying an image's directory at a volume's mount point into the volume, and checking whether a volume is empty.

Runs in the daemon, on the thread that creates a container. Strangers control both directory trees. So every name is
opened relative to an open directory descriptor. A symbolic link is followed only on the way to the mount point, and
within the image's root, or in the part of a volume that a client asks for, and within the volume.
"""

import contextlib
import os

from engine.daemon.images.layers.storage import copy_tree
from engine.daemon.tar.space import check_space
from engine.errors import Invalid, SystemFailure
from engine.kernel.beneath import is_directory, open_beneath
from engine.sandbox.spec import Mount
from engine.sandbox.subpaths import open_part

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


def fill(root_fd: int, place: str, volume: str, subpath: str = "") -> None:
    """Copy the contents, owner, mode and times of the directory `place` of the root to the directory `volume`.

    subpath: the part of the volume that is filled; empty for all of it
    Does nothing where there is no `place` or no such part, or where that has contents. Raises SystemFailure where
    `place` is no directory, Invalid where the part leads out of the volume; OSError.
    """
    with contextlib.ExitStack() as opened:
        source = _source(root_fd, place)
        if source is None:
            return
        opened.callback(os.close, source)
        sink = _opened(volume, subpath)
        if sink is None:
            return
        opened.callback(os.close, sink)
        if not os.listdir(sink):
            copy_tree(source, sink, lambda: check_space(sink))


def _source(root_fd: int, place: str) -> int | None:
    try:
        source = open_beneath(root_fd, place, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        if not is_directory(source):
            raise SystemFailure(f"cannot mount volume over existing file, file exists {place}")
        return os.open(".", _READABLE, dir_fd=source)
    finally:
        os.close(source)


def _opened(volume: str, subpath: str) -> int | None:
    """The directory of the volume, or that part of it; None where the part is no directory."""
    top = os.open(volume, _READABLE)
    if not subpath:
        return top
    try:
        part = open_part(top, Mount("bind", volume, "", subpath=subpath))
    except SystemFailure as error:
        if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
            return None
        raise
    except Invalid as error:
        raise Invalid(f"failed to populate volume: {error}") from error
    finally:
        os.close(top)
    try:
        return os.open(".", _READABLE, dir_fd=part) if is_directory(part) else None
    finally:
        os.close(part)
