"""Hides paths of /proc and /sys from a container, and makes other paths read-only.

Runs in init after the mounts and devices are in place. A path that does not exist needs no hiding. It never mounts
anything but /dev/null (checked to be that device), one empty read-only tmpfs, and paths on themselves.
"""

import errno
import os
import stat
from collections.abc import Iterable

from engine.errors import SystemFailure
from engine.kernel import syscalls
from engine.kernel.beneath import is_directory, open_beneath
from engine.sandbox.mounts import FLAGS, attach

_PROCESSORS = "/sys/devices/system/cpu"


def throttles(directory: str = _PROCESSORS) -> tuple[str, ...]:
    """How often each processor of this host was slowed down by its heat: `DIRECTORY/cpuN/thermal_throttle`, by N.

    What a neighbour computes can be read from it. Empty where the processors tell nothing, as in most virtual machines.
    """
    try:
        numbers = sorted(int(name[3:]) for name in os.listdir(directory) if name[:3] == "cpu" and name[3:].isdecimal())
    except OSError:  # there is no /sys here; then there is none in the container either
        return ()
    return tuple(path for number in numbers if os.path.isdir(path := f"{directory}/cpu{number}/thermal_throttle"))


MASKED_PATHS: tuple[str, ...] = (
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    *throttles(),
)
"""The paths that docker hides from a container that is not privileged; those of processors only where they exist."""

READONLY_PATHS: tuple[str, ...] = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
"""The paths that docker makes read-only in a container that is not privileged."""

_PLACE = os.O_PATH | os.O_CLOEXEC
_NULL = os.makedev(1, 3)
_EMPTY = FLAGS["ro"] | FLAGS["nosuid"] | FLAGS["nodev"] | FLAGS["noexec"]


def _open(root_fd: int, path: str) -> int:
    """The path's descriptor, -1 where there is no such path."""
    try:
        return open_beneath(root_fd, path, _PLACE)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return -1
        raise


def hide(root_fd: int, paths: Iterable[str]) -> None:
    """Mount an empty read-only directory on each directory and /dev/null on each other file. Raises OSError."""
    null = empty = -1
    try:
        for path in paths:
            place = _open(root_fd, path)
            if place < 0:
                continue
            try:
                if not is_directory(place):
                    null = null if null >= 0 else _null(root_fd)
                    attach(null, place)
                elif empty < 0:
                    os.fchdir(place)
                    syscalls.mount("tmpfs", ".", "tmpfs", _EMPTY, "size=0k,nr_inodes=2")
                    # One file system is enough: the others are binds of it.
                    empty = open_beneath(root_fd, path, _PLACE)
                else:
                    attach(empty, place)
            finally:
                os.close(place)
    finally:
        for fd in (null, empty):
            if fd >= 0:
                os.close(fd)


def _null(root_fd: int) -> int:
    """The container's /dev/null, or the host's where it has none; never another file of that name."""
    for directory, path in ((root_fd, "dev/null"), (-100, "/dev/null")):
        try:
            fd = open_beneath(root_fd, path, _PLACE) if directory == root_fd else os.open(path, _PLACE)
        except FileNotFoundError:
            continue
        found = os.fstat(fd)
        if stat.S_ISCHR(found.st_mode) and found.st_rdev == _NULL:
            return fd
        os.close(fd)
    raise SystemFailure("neither the container nor the host has a /dev/null to mask paths with")


def make_readonly(root_fd: int, paths: Iterable[str]) -> None:
    """Bind each path that exists on itself, read-only. Raises OSError."""
    for path in paths:
        place = _open(root_fd, path)
        if place < 0:
            continue
        try:
            attach(place, place, attributes=("ro",), recursive=True)
        finally:
            os.close(place)
