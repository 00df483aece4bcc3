"""Room on the data root's file system: when there is too little of it left to go on.

Runs in the daemon, on any thread that writes what a stranger sent.
"""

import os

from engine.errors import SystemFailure


class NoSpace(SystemFailure):
    """The data root's file system is full, or will not take more for a reason of its own: no use in trying again."""


def check_space(fd: int) -> None:
    """Raises NoSpace when the file system of `fd` is down to its last 2 %: a bomb must not take it all."""
    state = os.fstatvfs(fd)
    if state.f_bavail * 50 < state.f_blocks:
        raise NoSpace("no space left on device: less than 2 % of the data root's file system is free")
    # 0: a file system that makes inodes as it needs them.
    if state.f_favail * 50 < state.f_files:
        raise NoSpace("no space left on device: less than 2 % of the data root's inodes are free")


def check_room(fd: int, count: int) -> None:
    """Raises NoSpace when so many bytes more cannot be written to the file system of `fd`, whatever is done."""
    state = os.fstatvfs(fd)
    if count > state.f_bavail * state.f_frsize:
        raise NoSpace(f"no space left on device: {count} bytes do not fit on the data root's file system")
