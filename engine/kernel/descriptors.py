"""Closes, or marks for execve, all descriptors of a process that it is not to hand on (close_range(2)).

Called by a process that was just forked, while it has one thread.
"""

import errno
import os
from collections.abc import Callable, Iterable

from engine.kernel import syscalls


def close_on_exec() -> None:
    """Mark every descriptor above 2 as close-on-exec."""
    try:
        syscalls.close_range(3, 0xFFFFFFFF, syscalls.CLOSE_RANGE_CLOEXEC)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EINVAL):  # ENOSYS before Linux 5.9, EINVAL before 5.11
            raise
        for name in os.listdir("/proc/self/fd"):
            if int(name) > 2:
                _if_open(os.set_inheritable, int(name), False)


def close_all_but(kept: Iterable[int]) -> None:
    """Close every descriptor above 2 that is not one of these."""
    first = 3
    try:
        for fd in sorted({each for each in kept if each > 2}):
            if fd > first:
                syscalls.close_range(first, fd - 1, 0)
            first = fd + 1
        syscalls.close_range(first, 0xFFFFFFFF, 0)
    except OSError as error:
        if error.errno != errno.ENOSYS:  # before Linux 5.9
            raise
        for fd in map(int, os.listdir("/proc/self/fd")):
            if fd > 2 and fd not in kept:
                _if_open(os.close, fd)


def _if_open(do: Callable[..., None], fd: int, *arguments: object) -> None:
    try:
        do(fd, *arguments)
    except OSError as error:
        if error.errno != errno.EBADF:  # the descriptor that listed the directory
            raise
