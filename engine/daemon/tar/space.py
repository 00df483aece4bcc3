"""Checks that the data root's file system has enough free space and inodes left for untrusted data.

Runs in the daemon, on any thread that writes what a stranger sent.
"""

import os

from engine.errors import SystemFailure


class NoSpace(SystemFailure):
    """The data root's file system is full or refuses to take more for another reason; trying again does not help."""


def check_space(fd: int) -> None:
    """Raise NoSpace when less than 2 % of the file system of `fd` is free: a bomb must not take all of it."""
    state = os.fstatvfs(fd)
    if state.f_bavail * 50 < state.f_blocks:
        raise NoSpace("no space left on device: less than 2 % of the data root's file system is free")
    # Both are 0 on a file system that makes inodes as it needs them.
    if state.f_favail * 50 < state.f_files:
        raise NoSpace("no space left on device: less than 2 % of the data root's inodes are free")


def check_room(fd: int, count: int) -> None:
    """Raise NoSpace when `count` more bytes cannot fit on the file system of `fd`."""
    state = os.fstatvfs(fd)
    if count > state.f_bavail * state.f_frsize:
        raise NoSpace(f"no space left on device: {count} bytes do not fit on the data root's file system")
