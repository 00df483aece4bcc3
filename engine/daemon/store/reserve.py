"""Blocks of the disk that the database holds before it needs them, so that a full disk never stops what frees it.

Owned by `store.database`, which calls it under its lock. The blocks lie behind the ends of its two files (fallocate(2),
FALLOC_FL_KEEP_SIZE), where SQLite neither sees nor loses them. Nobody else on the disk can take them, and nothing has
to be given up first. Whatever only adds must leave the reserve whole. That a file system keeps blocks of its own for
root is no such reserve: the root of a container takes those too.

Not on file systems without fallocate(2), nor on those that write over nothing in place (btrfs, ZFS): there a removal on
a full disk still deletes the files before the record, and has room then.
"""

import ctypes
import errno
import logging
import os

from engine.errors import SystemFailure

log = logging.getLogger(__name__)

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
"""What a full disk, and a quota that is used up, say."""

LOG_BYTES = 6 << 20
"""Of the log: SQLite begins it anew when it has 1000 pages (4 MB), and then the change in hand still has to fit."""

_SPARE = 1 << 20  # bytes behind the file's own pages, for those that a removal moves about
_LEAST = _SPARE // 2  # what only adds may use up the rest
_KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE
_BLOCK = 512  # of st_blocks, always

_libc = ctypes.CDLL(None, use_errno=True)
# glibc has one for files of any size beside the old one of 32-bit machines; musl has just this.
_fallocate = getattr(_libc, "fallocate64", None) or _libc.fallocate
_fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


class Reserve:
    """The reserve of one database. descriptor: of its file, which this keeps open

    Closing any descriptor of the file would give away SQLite's locks on it (fcntl_locking(2)).
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._held = 0

    def begin(self, log_path: str, size: int) -> None:
        """Take both files' blocks, or say that there is no room for them. size: bytes of the database's own pages."""
        try:
            descriptor = os.open(log_path, os.O_RDWR | os.O_CLOEXEC)
            try:
                _hold(descriptor, LOG_BYTES)
            finally:
                os.close(descriptor)
            self._held = _hold(self._descriptor, size + _SPARE)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            log.warning("no room for a reserve: on this disk, while it is full, little can be removed: %s", error)

    def check(self, size: int) -> None:
        """Before something is added. Raises SystemFailure where there is no room. size: as for `begin`"""
        if size + _LEAST <= self._held:
            return
        try:
            self._held = _hold(self._descriptor, size + _SPARE)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            raise SystemFailure(f"no space left on device: the database cannot grow: {error.strerror}") from error

    def close(self) -> None:
        """Give the descriptor back, after SQLite's own."""
        os.close(self._descriptor)


def _hold(descriptor: int, size: int) -> int:
    """Have this many bytes of a file on the disk; how many it holds now. Raises OSError."""
    # XFS wants room for all of it once more, even where it is there.
    if os.fstat(descriptor).st_blocks * _BLOCK >= size:
        return size
    if _fallocate(descriptor, _KEEP_SIZE, 0, size) == 0:
        return size
    code = ctypes.get_errno()
    if code in (errno.EOPNOTSUPP, errno.ENOSYS):  # then nobody can say whether there will be room
        return 1 << 62
    raise OSError(code, os.strerror(code))
