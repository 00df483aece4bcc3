"""The order mark of a log's file: how far its lines are in the order of their times.

Written by the monitor, read by the daemon's threads; `_muxer/log/order.c` writes the same marks. A line has the clock's
own time, and a clock may be set back. So what is looked for by time is found by a search only where a mark says that no
time steps back.

A mark is a number of 64 bits: the latest time of all lines before the file (where times have stepped back in the file,
before the last such step), and the bit STEPPED where they have. A segment has its mark in the header of its index;
earlier releases, whose times never stepped back, wrote zero there. A file of JSON lines has it as an extended
attribute. A file without one, of another program or on a file system without such attributes, is read whole.
"""

import errno
import os
import struct

STEPPED = 1 << 63
LATEST = STEPPED - 1
MARK = struct.Struct("<Q")
_ATTRIBUTE = "user.engine.order"
_NO_MARK = frozenset({errno.ENODATA, errno.ENOTSUP, errno.ENOSPC, errno.EDQUOT, errno.EPERM, errno.EACCES})
"""The errno values for which a file goes without a mark: the file system has no attributes, or no room for one."""


def read(fd: int) -> int | None:
    """The mark of a file of JSON lines; None where it has none."""
    try:
        return MARK.unpack(os.getxattr(fd, _ATTRIBUTE))[0]  # type: ignore[no-any-return]
    except struct.error:
        return None
    except OSError as error:
        if error.errno in _NO_MARK:
            return None
        raise


def write(fd: int, mark: int, *, anew: bool) -> None:
    """Mark a file of JSON lines. anew: also one without a mark, because it has no lines yet. Raises OSError."""
    try:
        os.setxattr(fd, _ATTRIBUTE, MARK.pack(mark), 0 if anew else os.XATTR_REPLACE)
    except OSError as error:
        if error.errno not in _NO_MARK:
            raise
        if error.errno not in (errno.ENODATA, errno.ENOTSUP):
            _remove(fd)  # it is no longer true


def _remove(fd: int) -> None:
    try:
        os.removexattr(fd, _ATTRIBUTE)
    except OSError as error:
        if error.errno not in _NO_MARK:
            raise


def in_order(fd: int) -> bool:
    """Whether it is known of a file of JSON lines that no time in it steps back."""
    mark = read(fd)
    return mark is not None and not mark & STEPPED
