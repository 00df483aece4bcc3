"""Disk blocks that the database allocates ahead with fallocate, so that removals can still be recorded on a full disk.

`store.database` owns the reserve and calls it under its lock. The blocks lie behind the ends of the database file and
of its log (fallocate(2), FALLOC_FL_KEEP_SIZE), where SQLite neither sees nor loses them. Nothing else on the disk can
take them, and nothing has to be given up before they can be used. A change that only adds something must leave the
reserve whole. The blocks that a file system keeps for root are no such reserve: the root of a container takes those
too.

There is no reserve on file systems without fallocate(2), nor on those that overwrite nothing in place (btrfs, ZFS).
There a removal on a full disk still deletes the files before the record, and so makes room for the record.
"""

import ctypes
import errno
import logging
import os

from engine.errors import SystemFailure

log = logging.getLogger(__name__)

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
"""The errnos of a full disk and of a quota that is used up."""

LOG_BYTES = 6 << 20
"""The log's reserve. SQLite begins the log anew after 1000 pages (4 MB), and the present change must fit after them."""

_SPARE = 1 << 20  # bytes reserved behind the file's own pages; a removal needs some for pages that it moves
_LEAST = _SPARE // 2  # of these, bytes that a change that only adds must leave
_KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE
_BLOCK = 512  # bytes of a unit of st_blocks on every file system

_libc = ctypes.CDLL(None, use_errno=True)
# glibc's fallocate64 takes 64-bit offsets on 32-bit machines too; musl has only fallocate, whose offsets are 64-bit.
_fallocate = getattr(_libc, "fallocate64", None) or _libc.fallocate
_fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


class Reserve:
    """The reserve of one database. descriptor: an open descriptor of its file, which this object keeps

    It stays open because closing any descriptor of the file would release SQLite's locks on it (fcntl_locking(2)).
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._held = 0

    def begin(self, log_path: str, size: int) -> None:
        """Allocate the reserve of both files, or log that there is no room for it.

        log_path: the write-ahead log; size: bytes of the database's own pages. Raises OSError, but not for a full disk.
        """
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
            log.warning(
                "the disk is full: no reserve for the database; removals may fail until there is room: %s", error
            )

    def fileno(self) -> int:
        """The descriptor of the database file."""
        return self._descriptor

    def sync(self) -> None:
        """Make the database file durable as it is. Raises OSError."""
        os.fsync(self._descriptor)

    def check(self, size: int) -> None:
        """Renew the reserve before something is added. size: bytes of the database's own pages

        Raises SystemFailure where there is no room.
        """
        if size + _LEAST <= self._held:
            return
        try:
            self._held = _hold(self._descriptor, size + _SPARE)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            raise SystemFailure(f"no space left on device: the database cannot grow: {error.strerror}") from error

    def close(self) -> None:
        """Close the descriptor; the caller has closed SQLite's connection before."""
        os.close(self._descriptor)


def _hold(descriptor: int, size: int) -> int:
    """Allocate this many bytes of a file on the disk; returns how many are allocated now. Raises OSError."""
    # XFS asks for room for all of these bytes again, even where they are allocated already.
    if os.fstat(descriptor).st_blocks * _BLOCK >= size:
        return size
    if _fallocate(descriptor, _KEEP_SIZE, 0, size) == 0:
        return size
    code = ctypes.get_errno()
    if code in (errno.EOPNOTSUPP, errno.ENOSYS):  # unknown whether there is room: refuse nothing
        return 1 << 62
    raise OSError(code, os.strerror(code))
