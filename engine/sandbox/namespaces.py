"""The namespaces that a sandbox can have, as one table.

Pure data for init, which makes them, and for everyone who names them under /proc. A user namespace has its row for the
day that the engine supports it; nothing asks for it yet.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from engine.errors import Invalid
from engine.kernel import syscalls


@dataclass(frozen=True, slots=True)
class Namespace:
    """flag: the CLONE_NEW* bit (namespaces(7)); link: its name below /proc/PID/ns."""

    flag: int
    link: str


NAMESPACES: dict[str, Namespace] = {
    "user": Namespace(syscalls.CLONE_NEWUSER, "user"),
    "mount": Namespace(syscalls.CLONE_NEWNS, "mnt"),
    "pid": Namespace(syscalls.CLONE_NEWPID, "pid"),
    "uts": Namespace(syscalls.CLONE_NEWUTS, "uts"),
    "ipc": Namespace(syscalls.CLONE_NEWIPC, "ipc"),
    "net": Namespace(syscalls.CLONE_NEWNET, "net"),
    "cgroup": Namespace(syscalls.CLONE_NEWCGROUP, "cgroup"),
}
LATER = frozenset({"cgroup"})
"""Made once the cgroups have been joined: what is the root of the view is where the process is at that moment."""
BY_MONITOR = frozenset({"pid"})
"""Made by the parent before the fork: only children enter it."""


def flags(names: Iterable[str], *, without: frozenset[str] = frozenset()) -> int:
    """The CLONE_NEW* bits of these names, leaving some out; Invalid for a name that is not in the table."""
    bits = 0
    for name in names:
        if name not in NAMESPACES:
            raise Invalid(f"unknown namespace: {name!r}")
        if name not in without:
            bits |= NAMESPACES[name].flag
    return bits
