"""Syncs a log's remaining files before a rotation deletes an old one, so that a power loss cannot take both.

Run by the monitor, in its only thread, only at a rotation; `_muxer/log/lasting.c` does the same in C. Waiting for the
disk stops the container's output for that time. So there is no wait when the file to be deleted is itself so young that
it may be only in memory: a container that fills its whole log in so short a time loses no more than that.
"""

import os

YOUNG_NS = 30 * 10**9
"""How long the kernel may keep written data in memory only: vm.dirty_expire_centisecs."""


def is_old(directory_fd: int, name: str, now_ns: int) -> bool:
    """Whether a file of the log was written so long ago that it is on the disk. False if the file does not exist."""
    try:
        written_ns = os.stat(name, dir_fd=directory_fd, follow_symlinks=False).st_mtime_ns
    except FileNotFoundError:
        return False
    return not 0 <= now_ns - written_ns < YOUNG_NS


def sync(directory_fd: int, name: str) -> None:
    """Write a file of the log to the disk, if it exists. Raises OSError."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory_fd)
    except FileNotFoundError:
        return
    try:
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
