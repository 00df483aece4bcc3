"""Watches files and directories for changes by inotify(7), as thin functions that raise OSError.

Used by the daemon's threads. The standard library has no inotify, so ctypes calls libc.
"""

import ctypes
import functools
import os
import struct

MODIFIED = 0x2
CREATED = 0x100
"""A file was created in the watched directory."""

_EVENT = struct.Struct("iIII")
_ROOM = 64 * 1024


def create() -> int:
    """A new non-blocking inotify descriptor, which is readable when an event waits."""
    return _checked(_libc().inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK), "")


def watch(fd: int, path: str, mask: int = MODIFIED) -> int:
    """Watch a file or a directory; returns the watch number that its events carry."""
    return _checked(_libc().inotify_add_watch(fd, os.fsencode(path), ctypes.c_uint32(mask)), path)


def unwatch(fd: int, number: int) -> None:
    """Remove the watch of this number."""
    _checked(_libc().inotify_rm_watch(fd, number), "")


def read(fd: int) -> list[tuple[int, int]]:
    """Take all waiting events, as (watch number, mask) each; empty when none waits."""
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
