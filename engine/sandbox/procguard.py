"""Refuses mounts that a client asked for inside a container's /proc.

Runs in init, before each mount that was asked for, on the place that the kernel has found after all symbolic links of
the image. A mount in /proc could hide what masks it, or replace what the engine itself reads there (CVE-2019-16884,
CVE-2019-19921). The exceptions are runc's.
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


def check_outside_proc(root_fd: int, place: int, name: str, target: str, source: int = -1) -> None:
    """Raise SystemFailure when the place is in the container's /proc; the host's /proc may be bound on all of it.

    name, target: what is mounted, and where it was asked to be; source: the descriptor of a bind's source, -1 for
        another file system
    """
    root = os.readlink(f"/proc/self/fd/{root_fd}")
    inside = os.readlink(f"/proc/self/fd/{place}").removeprefix("" if root == "/" else root)
    if inside == _PROC:
        if source >= 0 and _is_proc(source):
            return
        reason = "it is not of type proc"
    elif inside.startswith(_PROC + "/") and inside[len(_PROC) + 1 :] not in ALLOWED:
        reason = "it is inside /proc"
    else:
        return
    raise SystemFailure(
        f'error mounting "{name}" to rootfs at "{target}": "{inside}" cannot be mounted because {reason}'
    )


def _is_proc(source: int) -> bool:
    found = os.fstat(source)
    return found.st_ino == _ROOT_INODE and found.st_dev == os.stat(_PROC).st_dev
