"""Writes a file past the page cache (O_DIRECT of open(2)), where its file system can.

For large files that nobody reads soon: the kernel copies nothing, and nothing is left that a flush would wait for.
Keeps no state.
"""

import errno
import fcntl
import os
from mmap import PAGESIZE as PAGESIZE


def begin(fd: int) -> bool:
    """Have the writes of an open file go past the page cache from now on; False where the file system has no such
    thing.
    """
    try:
        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_DIRECT)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return False
    return True


def end(fd: int) -> None:
    """Have the writes of an open file go through the page cache again."""
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_DIRECT)


def write(fd: int, pages: memoryview) -> int:
    """Write whole pages, which begin at one in memory and at one of the file; returns how many bytes were written.

    They are fewer where the file system takes only larger pieces: those go through the page cache. Raises OSError.
    """
    written = 0
    while written < len(pages):
        try:
            written += os.write(fd, pages[written:])
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            break
    return written
