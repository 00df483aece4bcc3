"""Says how much of the host this process's user namespace is: all of it, many of its ids, or one (user_namespaces(7)).

Read from the kernel's own files, so that it is right for a daemon of a user's own as well as for one that root starts
inside a container of another engine. In such a namespace root may make no device node, may not raise a hard limit, and
may mount only what the kernel lets users mount. A process moves into its namespace before it asks.
"""

import fcntl
import functools
import os

_ALL = 0xFFFFFFFF
_NS_GET_PARENT = 0xB702  # linux/nsfs.h; its descriptor is close-on-exec
_MAPS = ("/proc/self/uid_map", "/proc/self/gid_map")


@functools.cache
def is_hosts() -> bool:
    """Whether root here is root of the host."""
    return ids() == _ALL


@functools.cache
def ids() -> int:
    """How many users, or groups where these are fewer, this process can name; 1 where only its own is mapped."""
    return min(map(_mapped, _MAPS))


def is_of(pid: int) -> bool:
    """Whether a process is in this process's user namespace.

    Raises FileNotFoundError or ProcessLookupError when it is gone.
    """
    try:
        own = os.stat("/proc/self/ns/user")
    except FileNotFoundError:  # a kernel without user namespaces
        return True
    return os.path.samestat(own, os.stat(f"/proc/{pid}/ns/user"))


def outermost(pid: int) -> int:
    """A descriptor of the user namespace of a process, or of the outermost around it that this process is not in.

    A process can always go into a namespace of its own making, and never out of one. Raises FileNotFoundError or
    ProcessLookupError when it is gone, PermissionError where it is in no namespace below this process's.
    """
    own = os.stat("/proc/self/ns/user")
    found = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    try:
        while not os.path.samestat(own, os.fstat(parent := fcntl.ioctl(found, _NS_GET_PARENT))):
            os.close(found)
            found = parent
    except OSError:
        os.close(found)
        raise
    os.close(parent)
    return found


@functools.cache
def hosts_number() -> int:
    """The number that this process's user has on the host, or in the namespace around its own."""
    own = os.geteuid()
    return _outside(_MAPS[0], own, own)


def hosts_group(gid: int) -> int:
    """The number that a group has there; -1 where it has none here, and is shown as the overflow id."""
    return _outside(_MAPS[1], gid, -1)


def _outside(path: str, number: int, otherwise: int) -> int:
    for inside, outside, count in _map(path):
        if inside <= number < inside + count:
            return outside + number - inside
    return otherwise


def _mapped(path: str) -> int:
    return sum(count for _, _, count in _map(path))


def _map(path: str) -> list[tuple[int, int, int]]:
    try:
        with open(path) as file:
            found = [line.split() for line in file]
    except FileNotFoundError:  # a kernel without user namespaces
        return [(0, 0, _ALL)]
    return [(int(inside), int(outside), int(count)) for inside, outside, count in found]


def may_set_groups() -> bool:
    """Whether setgroups(2) is allowed: not where a user has mapped only the own group."""
    try:
        with open("/proc/self/setgroups") as file:
            return file.read().strip() != "deny"
    except FileNotFoundError:
        return True
