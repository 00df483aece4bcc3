"""Tells the file system that the directories in a directory have nothing to do with each other (chattr(1), `T`).

ext2, ext3 and ext4 put the files of a directory near those of its neighbours. Told so, they put each new directory into
a part of the disk of its own, chosen by its name and by where there is room. Two threads that unpack then share no
bitmap. Nor does ext4 without a journal, as virtual machines have it, look at each inode that was removed nearby in the
last minutes before it takes a new one: with thousands of them that is nearly all the time of making files.
"""

import errno
import fcntl
import os
import struct

_FLAGS = struct.Struct("i")
# ioctl_iflags(2), which has an int although its number says long; the numbers of x86 and ARM.
_GET_FLAGS = 0x80086601 if struct.calcsize("l") == 8 else 0x80046601
_SET_FLAGS = 0x40086602 if struct.calcsize("l") == 8 else 0x40046602
_TOP_OF_HIERARCHIES = 0x20000
# Another file system; one that knows no such flag; a user's daemon below a directory that is another user's.
_UNABLE = frozenset({errno.ENOTTY, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.EACCES})


def spread(path: str) -> bool:
    """Have the directories that are made in this one from now on put far from each other; whether the file system does.

    Raises OSError.
    """
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        (flags,) = _FLAGS.unpack(fcntl.ioctl(directory, _GET_FLAGS, bytes(_FLAGS.size)))
        if not flags & _TOP_OF_HIERARCHIES:
            fcntl.ioctl(directory, _SET_FLAGS, _FLAGS.pack(flags | _TOP_OF_HIERARCHIES))
    except OSError as error:
        if error.errno not in _UNABLE:
            raise
        return False
    finally:
        os.close(directory)
    return True
