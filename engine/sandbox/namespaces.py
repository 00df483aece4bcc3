"""The table of namespace kinds with their CLONE_NEW* flags, and opening and entering the namespaces of other processes.

The table serves init, which makes the namespaces, and all code that names them under /proc. Entering runs in init and
its parent. A user namespace is entered last of all (see `remapped`).
"""

import os
from collections.abc import Iterable

from engine.dataclass import dataclass
from engine.errors import Invalid, SystemFailure
from engine.kernel import syscalls, userns


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
"""Made after the cgroups were entered, because a cgroup namespace has its root where the process is at that moment."""
BY_MONITOR = frozenset({"pid"})
"""Made by the parent before the fork, because only children enter it."""
OF_USER = frozenset({"net", "uts", "ipc"})
"""Made by a child that is in the container's user namespace, if it has one: its root is to be root there."""


def flags(names: Iterable[str], *, without: frozenset[str] = frozenset()) -> int:
    """The CLONE_NEW* bits of these names, leaving some out; Invalid for a name that is not in the table."""
    bits = 0
    for name in names:
        if name not in NAMESPACES:
            raise Invalid(f"unknown namespace: {name!r}")
        if name not in without:
            bits |= NAMESPACES[name].flag
    return bits


def open_joined(joined: Iterable[tuple[str, int, int]]) -> list[tuple[str, int]]:
    """(name, descriptor) of the namespaces of other processes, each named by its pid and start time.

    Without those in `BY_MONITOR`. To be called where /proc is the host's. Raises SystemFailure when such a process has
    ended.
    """
    return [(name, open_one(name, pid, start)) for name, pid, start in joined if name not in BY_MONITOR]


def open_one(name: str, pid: int, start: int) -> int:
    """A descriptor of this namespace of a process; of its user namespaces the outermost (`userns.outermost`).

    Raises SystemFailure when the process has ended.
    """
    opened = -1
    try:
        if name == "user":
            opened = userns.outermost(pid)
        else:
            opened = os.open(f"/proc/{pid}/ns/{NAMESPACES[name].link}", os.O_RDONLY | os.O_CLOEXEC)
        # The descriptor was opened first: if the pid still names the right process now, it did then.
        if syscalls.process_start(pid) == start:
            return opened
    except (FileNotFoundError, ProcessLookupError):
        pass
    if opened >= 0:
        os.close(opened)
    raise SystemFailure(f"cannot join the {name} namespace of a container that has ended")


def enter(opened: Iterable[tuple[str, int]]) -> None:
    """Enter the namespaces of `open_joined`, and close their descriptors. Raises OSError."""
    for name, descriptor in opened:
        syscalls.setns(descriptor, NAMESPACES[name].flag)
        os.close(descriptor)
