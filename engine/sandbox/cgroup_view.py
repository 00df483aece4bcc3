"""What a container sees at /sys/fs/cgroup: its own cgroups, read-only.

Runs in init, in the container's cgroup namespace and before pivot_root, after it has entered its cgroups. Version 2 is
mounted anew, so that the namespace makes the container's cgroup its root; of version 1 each hierarchy's own directory
is bound below a small tmpfs, as docker does. It never shows a directory above the container's own.
"""

import os

from engine.kernel.beneath import open_beneath
from engine.sandbox import mounts
from engine.sandbox.spec import Mount

_HOST = "/sys/fs/cgroup"
_PLACE = os.O_PATH | os.O_CLOEXEC


def show(root_fd: int, mount: Mount, entries: tuple[str, ...]) -> None:
    """Make the mount of kind `cgroup`. entries: `Sandbox.cgroups`; empty: look up where this process is.

    Raises SystemFailure (see `mounts.add`), OSError.
    """
    if os.path.exists(f"{_HOST}/cgroup.controllers"):
        mounts.add(root_fd, Mount("cgroup2", "cgroup", mount.target, mount.flags))
        return
    flags = tuple(name for name in mount.flags if name != "ro")
    mounts.add(root_fd, Mount("tmpfs", "tmpfs", mount.target, flags, "mode=755,size=64k"))
    top = open_beneath(root_fd, mount.target, _PLACE)
    try:
        for directory in [os.path.dirname(entry) for entry in entries] or own_directories():
            _bind(top, directory, mount.flags)
        # The binds have their flags; what is left is the tmpfs.
        if "ro" in mount.flags:
            mounts.make_root_readonly(top)
    finally:
        os.close(top)


def _bind(top: int, directory: str, flags: tuple[str, ...]) -> None:
    hierarchy = directory.removeprefix(f"{_HOST}/").partition("/")[0]
    source = os.open(directory, _PLACE | os.O_DIRECTORY)
    os.mkdir(hierarchy, 0o755, dir_fd=top)
    place = os.open(hierarchy, _PLACE | os.O_NOFOLLOW, dir_fd=top)
    try:
        mounts.attach(source, place, attributes=flags)
        for name in hierarchy.split(",") if "," in hierarchy else ():
            os.symlink(hierarchy, name, dir_fd=top)
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
