"""What a loss of power leaves of a log's older files: a rotation never deletes what is on the disk before what is not.

Run by the monitor, in its only thread, at a rotation alone; the twin of what `_muxer/log/writer.c` says of it. To wait
for the disk stops the container's output for so long. So nobody waits for a file to be deleted that is itself so young
that it may be nowhere but in memory: a container that fills its whole log in so short a time loses no more than that by
it.
"""

import os

YOUNG_NS = 30 * 10**9
"""As long as the kernel may keep what was written to itself: vm.dirty_expire_centisecs."""


def is_old(directory_fd: int, name: str, now_ns: int) -> bool:
    """Whether a file of the log was written so long ago that it is on the disk. False for one that is not there."""
    try:
        written_ns = os.stat(name, dir_fd=directory_fd, follow_symlinks=False).st_mtime_ns
    except FileNotFoundError:
        return False
    return not 0 <= now_ns - written_ns < YOUNG_NS


def sync(directory_fd: int, name: str) -> None:
    """Put a file of the log on the disk, if it is there. Raises OSError."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory_fd)
    except FileNotFoundError:
        return
    try:
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
