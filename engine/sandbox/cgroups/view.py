"""Mounts a container's own cgroups at its /sys/fs/cgroup (the mount kind `cgroup`), read-only with the flag `ro`.

Runs in init, in the container's cgroup namespace and before pivot_root, after it has entered its cgroups. Version 2 is
mounted anew, so that the namespace makes the container's cgroup its root. Each hierarchy of version 1 is mounted anew
too, below a small tmpfs; in the host's cgroup namespace the container's own directory of it is bound there instead, as
docker does. It never shows a directory above the container's own.
"""

import os
from functools import lru_cache

from engine.kernel import syscalls
from engine.kernel.beneath import open_beneath
from engine.sandbox import mounts
from engine.sandbox.spec import Mount

_HOST = "/sys/fs/cgroup"
_UNIFIED = "unified"
# Those of version 1, after which the directory of a hierarchy is named that has any.
_CONTROLLERS = frozenset(
    (
        *("blkio", "cpu", "cpuacct", "cpuset", "devices", "freezer", "hugetlb", "memory", "misc", "net_cls"),
        *("net_prio", "perf_event", "pids", "rdma"),
    )
)
_PLACE = os.O_PATH | os.O_CLOEXEC


def show(root_fd: int, mount: Mount, entries: tuple[str, ...], own_namespace: bool) -> None:
    """Make the mount of kind `cgroup`. entries: `Sandbox.cgroups`; empty: look up the cgroups of this process.

    Raises SystemFailure (see `mounts.add`), OSError.
    """
    if os.path.exists(f"{_HOST}/cgroup.controllers"):
        mounts.add(root_fd, Mount("cgroup2", "cgroup", mount.target, mount.flags))
        return
    flags = tuple(name for name in mount.flags if name != "ro")
    mounts.add(root_fd, Mount("tmpfs", "tmpfs", mount.target, flags, "mode=755,size=64k"))
    top = open_beneath(root_fd, mount.target, _PLACE)
    try:
        os.fchdir(top)
        for directory in [os.path.dirname(entry) for entry in entries] or own_directories():
            if own_namespace:
                _mount(directory, mount.flags)
            else:
                _bind(top, directory, mount.flags)
        # The binds have their flags; what is left is the tmpfs.
        if "ro" in mount.flags:
            mounts.make_root_readonly(top)
    finally:
        os.close(top)


def _mount(directory: str, flags: tuple[str, ...]) -> None:
    """Mount the hierarchy in the working directory: a few calls for each one, where a bind takes a dozen."""
    hierarchy = _make_place(directory)
    _, kind, options = described(directory)
    syscalls.mount("cgroup", hierarchy, kind, sum(mounts.FLAGS[name] for name in flags), options)


def described(directory: str) -> tuple[str, str, str]:
    """Of the hierarchy in which this directory is: its name on the host, its kind of file system, and its options."""
    name = directory.removeprefix(f"{_HOST}/").partition("/")[0]
    if _CONTROLLERS.issuperset(name.split(",")):
        return name, "cgroup", name
    place = f"{_HOST}/{name}"
    return name, *_mounted_as(place, os.stat(place).st_dev)


@lru_cache
def _mounted_as(place: str, _device: int) -> tuple[str, str]:
    """The kind and the options of what is mounted here, by proc_pid_mountinfo(5)."""
    with open("/proc/self/mountinfo", "rb", buffering=0) as file:
        rows = [line.split() for line in os.fsdecode(file.readall() or b"").splitlines()]
    kind, _, options = next(row[-3:] for row in reversed(rows) if row[4] == place)
    named = next((option for option in options.split(",") if option.startswith("name=")), "")
    return kind, "" if kind == "cgroup2" else named or os.path.basename(place)


def _make_place(directory: str) -> str:
    """Make a hierarchy's directory, named after its controllers, and a link for each of several; returns its name."""
    hierarchy = directory.removeprefix(f"{_HOST}/").partition("/")[0]
    os.mkdir(hierarchy, 0o755)
    for name in hierarchy.split(",") if "," in hierarchy else ():
        os.symlink(hierarchy, name)
    return hierarchy


def _bind(top: int, directory: str, flags: tuple[str, ...]) -> None:
    hierarchy = _make_place(directory)
    source = os.open(directory, _PLACE | os.O_DIRECTORY)
    place = os.open(hierarchy, _PLACE | os.O_NOFOLLOW, dir_fd=top)
    try:
        mounts.attach(source, place, attributes=flags)
    finally:
        os.close(place)
        os.close(source)


def own_directories() -> list[str]:
    """This process's cgroups as host paths, for the hierarchies mounted in the usual place beside version 1."""
    with open("/proc/self/cgroup", "rb", buffering=0) as file:
        lines = (file.readall() or b"").decode().splitlines()
    rows = [line.split(":", 2) for line in lines]
    found = [f"{_HOST}/{name.removeprefix('name=') or _UNIFIED}{path}" for _, name, path in rows]
    return [path.rstrip("/") for path in found if os.path.isdir(path)]
