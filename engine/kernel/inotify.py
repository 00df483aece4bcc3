"""inotify(7) as thin functions that raise OSError: told of changes of files by a descriptor.

Used by the daemon's threads. The Python library has none of it, so libc is asked by ctypes.
"""

import ctypes
import functools
import os
import struct

MODIFIED = 0x2
CREATED = 0x100
"""A file has come into the watched directory."""

_EVENT = struct.Struct("iIII")
_ROOM = 64 * 1024


def create() -> int:
    """A new descriptor, non-blocking, that is readable when something was told."""
    return _checked(_libc().inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK), "")


def watch(fd: int, path: str, mask: int = MODIFIED) -> int:
    """Watch a file or a directory; the number that its events carry."""
    return _checked(_libc().inotify_add_watch(fd, os.fsencode(path), ctypes.c_uint32(mask)), path)


def unwatch(fd: int, number: int) -> None:
    """Watch it no more."""
    _checked(_libc().inotify_rm_watch(fd, number), "")


def read(fd: int) -> list[tuple[int, int]]:
    """(number, mask) of each event that waits."""
    try:
        data = os.read(fd, _ROOM)
    except BlockingIOError:
        return []
    events, offset = [], 0
    while offset < len(data):
        number, mask, _cookie, length = _EVENT.unpack_from(data, offset)
        events.append((number, mask))
        offset += _EVENT.size + length
    return events


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int, path: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return result
