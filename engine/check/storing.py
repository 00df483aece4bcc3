"""Probes the directories that a daemon writes to, and the memory, files and processes that it may have.

Each probe runs in a child of its own (see `trial`). In a directory it makes one empty file and removes it. A directory
that does not exist yet is tried in the nearest one above, because the daemon would make it there.
"""

import os
import resource
import tempfile

from engine.check.isolation import existing, words
from engine.check.row import MISSING, OK, Check, Found
from engine.daemon.info import filesystem_of
from engine.settings.every import Settings

_LASTS_NOT = frozenset({"tmpfs", "ramfs", "rootfs"})
_LEAST_ROOM = 100 << 20
_LEAST_MEMORY = 48 << 20
_LEAST_FILES = 4096
_LEAST_PROCESSES = 4096
_UNIX = "unix://"
_LONGEST_SOCKET = 107  # unix(7)


def _write(directory: str) -> str:
    """Make a file and remove it; returns where. Raises OSError."""
    place = existing(directory)
    descriptor, path = tempfile.mkstemp(prefix=".engine-check-", dir=place)
    os.close(descriptor)
    os.unlink(path)
    return place


def _megabytes(count: int) -> str:
    return f"{count >> 20:,} MB"


def _data_root(settings: Settings) -> Found:
    place = _write(settings.data_root)
    disk = os.statvfs(place)
    free, kind = disk.f_bavail * disk.f_frsize, filesystem_of(place)
    text = f"{settings.data_root} on {kind}, {_megabytes(free)} free"
    if kind in _LASTS_NOT:
        text += "; nothing there outlives a reboot"
    return Found(OK if free >= _LEAST_ROOM else MISSING, text)


def _exec_root(settings: Settings) -> Found:
    return Found(OK, f"{settings.exec_root} on {filesystem_of(_write(settings.exec_root))}")


def _socket(settings: Settings) -> Found:
    paths = [address.removeprefix(_UNIX) for address in settings.hosts if address.startswith(_UNIX)]
    for path in paths:
        if len(os.fsencode(path)) > _LONGEST_SOCKET:
            return Found(MISSING, f"{path} is longer than a socket's path can be ({_LONGEST_SOCKET} bytes)")
        _write(os.path.dirname(path))
    return Found(OK, ", ".join(settings.hosts))


def _temporary(_: Settings) -> Found:
    return Found(OK, _write(tempfile.gettempdir()))


def _memory(_: Settings) -> Found:
    rows = dict(line.split(":", 1) for line in words("/proc/meminfo").splitlines() if ":" in line)
    total, free = (int(rows.get(name, "0 kB").split()[0]) << 10 for name in ("MemTotal", "MemAvailable"))
    text = f"{_megabytes(total)}, {_megabytes(free)} of it available"
    return Found(OK if free >= _LEAST_MEMORY else MISSING, text)


def _files(_: Settings) -> Found:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    shown = "unlimited" if most == resource.RLIM_INFINITY else f"{most:,}"
    few = most != resource.RLIM_INFINITY and most < _LEAST_FILES
    return Found(MISSING if few else OK, f"{shown} in one process (RLIMIT_NOFILE, hard)")


def _processes(_: Settings) -> Found:
    limits = {name: int(words(f"/proc/sys/kernel/{name}") or 0) for name in ("pid_max", "threads-max")}
    text = ", ".join(f"{name} {value:,}" for name, value in limits.items())
    return Found(OK if min(limits.values()) >= _LEAST_PROCESSES else MISSING, text)


CHECKS = (
    Check(
        "data root",
        _data_root,
        "The daemon refuses to start, or no image fits.",
        "Choose a directory on a disk with room: --data-root DIR",
        essential=True,
    ),
    Check(
        "exec root",
        _exec_root,
        "The daemon refuses to start.",
        "Choose a directory that can be written: --exec-root DIR --pidfile FILE",
        essential=True,
    ),
    Check(
        "socket's directory",
        _socket,
        "The daemon refuses to start.",
        "Choose another place: --host unix://PATH",
        essential=True,
    ),
    Check(
        "temporary directory",
        _temporary,
        "`engine demo` looks for another directory, and refuses without one. The daemon needs none.",
        "mount -t tmpfs tmpfs /tmp; or TMPDIR=DIR",
    ),
    Check(
        "memory",
        _memory,
        "The kernel may kill the daemon, which takes some 26 MB, or a container's processes.",
        "End other programs, or add swap: mkswap FILE && swapon FILE",
    ),
    Check(
        "open files",
        _files,
        "The daemon serves fewer clients and containers at once.",
        "ulimit -Hn 1048576 (in a unit: LimitNOFILE=1048576)",
    ),
    Check(
        "processes",
        _processes,
        "Fewer processes run in containers.",
        "sysctl -w kernel.pid_max=4194304 kernel.threads-max=100000",
    ),
)
