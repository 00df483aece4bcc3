"""Mounts a container's own cgroups at its /sys/fs/cgroup (the mount kind `cgroup`), read-only with the flag `ro`.

Runs in init, in the container's cgroup namespace and before pivot_root, after it has entered its cgroups. Version 2 is
mounted anew, so that the namespace makes the container's cgroup its root. Each hierarchy of version 1 is mounted anew
too, below a small tmpfs; in the host's cgroup namespace the container's own directory of it is bound there instead, as
docker does. It never shows a directory above the container's own.
"""

import os

from engine.kernel import syscalls
from engine.kernel.beneath import open_beneath
from engine.sandbox import mounts
from engine.sandbox.spec import Mount

_HOST = "/sys/fs/cgroup"
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
        show_one = _mount if own_namespace else _bind
        os.fchdir(top)
        for directory in [os.path.dirname(entry) for entry in entries] or own_directories():
            show_one(top, directory, mount.flags)
        # The binds have their flags; what is left is the tmpfs.
        if "ro" in mount.flags:
            mounts.make_root_readonly(top)
    finally:
        os.close(top)


def _mount(top: int, directory: str, flags: tuple[str, ...]) -> None:
    """Mount the hierarchy in the working directory `top`: a few calls for each one, where a bind takes a dozen."""
    hierarchy = _make_place(directory)
    syscalls.mount("cgroup", hierarchy, "cgroup", sum(mounts.FLAGS[name] for name in flags), hierarchy)


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
    """This process's cgroups of version 1 as host paths, for the hierarchies mounted in the usual place."""
    with open("/proc/self/cgroup", "rb", buffering=0) as file:
        lines = (file.readall() or b"").decode().splitlines()
    rows = [line.split(":", 2) for line in lines]
    found = [f"{_HOST}/{name}{path}" for _, name, path in rows if name and not name.startswith("name=")]
    return [path.rstrip("/") for path in found if os.path.isdir(path)]
