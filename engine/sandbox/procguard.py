"""Keeping what somebody asked to be mounted out of a container's /proc.

Runs in init, before each mount that was asked for, on the place that the kernel has found: whatever symbolic links
an image put on the way, a mount in /proc could hide what masks it, or stand in for what the engine itself reads there
(CVE-2019-16884, CVE-2019-19921). The exceptions are runc's.
"""

import os

from engine.errors import SystemFailure

ALLOWED = frozenset(
    {
        *("cpuinfo", "diskstats", "meminfo", "stat", "swaps", "uptime", "loadavg", "slabinfo"),
        *("net/dev", "sys/kernel/ns_last_pid", "sys/crypto/fips_enabled"),
    }
)
"""Paths below /proc that may be mounted on: what lxcfs(1) shows in place of the host's figures."""

_PROC = "/proc"
_ROOT_INODE = 1  # of every procfs


def check_outside_proc(root_fd: int, place: int, target: str, source: int = -1) -> None:
    """Raise SystemFailure when the place is in the container's /proc; the host's /proc may be bound on all of it.

    source: the descriptor of a bind's source, -1 for another file system
    """
    root = os.readlink(f"/proc/self/fd/{root_fd}")
    inside = os.readlink(f"/proc/self/fd/{place}").removeprefix("" if root == "/" else root)
    if inside == _PROC:
        if source < 0 or not _is_proc(source):
            raise SystemFailure(f'error mounting to rootfs at "{target}": "{inside}" cannot be mounted because it is not of type proc')
    elif inside.startswith(_PROC + "/") and inside[len(_PROC) + 1 :] not in ALLOWED:
        raise SystemFailure(f'error mounting to rootfs at "{target}": "{inside}" cannot be mounted because it is inside /proc')


def _is_proc(source: int) -> bool:
    found = os.fstat(source)
    return found.st_ino == _ROOT_INODE and found.st_dev == os.stat(_PROC).st_dev
