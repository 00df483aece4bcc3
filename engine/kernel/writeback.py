"""Has the kernel write files to the disk: begin with some bytes of one, or end with all of a file system.

Keeps no state. Whoever writes many or large files begins early, so that the end takes less time.
"""

import ctypes
import os

_libc = ctypes.CDLL(None, use_errno=True)
_syncfs = _libc.syncfs
_sync_file_range = _libc.sync_file_range
_sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
_SYNC_FILE_RANGE_WRITE = 2


def begin(fd: int, start: int, count: int) -> None:
    """Have the kernel begin to write these bytes of a file (sync_file_range(2)).

    It seldom waits, for room in the disk's queue. Whether it can begin is of no matter: this makes nothing durable.
    """
    _sync_file_range(fd, start, count, _SYNC_FILE_RANGE_WRITE)


def file_system(fd: int) -> None:
    """Wait until all that was written to the file system of an open file is on the disk (syncfs(2)). Raises OSError."""
    if _syncfs(fd) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
