"""Makes what every ordinary container has ahead of time, in a spare init: namespaces, loopback, /proc, /sys and /dev.

Runs in an init that was forked ahead of time (see `init.prepare`). A stage is a small tmpfs in the init's own mount
namespace with docker's default mounts, devices and masks in it. When the container's root is mounted, the three trees
are moved into it with all that is mounted in them. A stage never holds anything that depends on one container.
"""

import os

from engine.dataclass import dataclass
from engine.kernel import syscalls
from engine.kernel.beneath import open_beneath
from engine.sandbox import devices, masks, mounts
from engine.sandbox.spec import Sandbox

NAMESPACES = frozenset({"mount", "pid", "uts", "ipc", "net"})
"""The namespaces that a staged init has made; the cgroup namespace is made after the cgroups were entered."""

MOUNTS = mounts.DEFAULT_MOUNTS[:-1]
"""Docker's default mounts without the view of the cgroups."""

TREES = tuple(mount for mount in MOUNTS if mount.target.count("/") == 1)
_MASKED_TREES = frozenset({"proc", "sys"})
_PLACE = os.O_PATH | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Stage:
    """fd: the staging directory; host: the mount namespace that this process has left, see `sources.of_host`."""

    fd: int
    host: int


def suits(sandbox: Sandbox) -> bool:
    """Whether an init that was prepared can become this sandbox at all: its namespaces cannot be undone."""
    if not NAMESPACES.issubset(sandbox.namespaces) or "user" in sandbox.namespaces:
        return False
    # A network namespace has one sysfs, which stays read-only once it was mounted so; a privileged container needs it
    # writable.
    return not any(mount.kind == "sysfs" and "ro" not in mount.flags for mount in sandbox.mounts)


def furnishes(sandbox: Sandbox) -> bool:
    """Whether the mounts, devices and masks that are staged are the ones this sandbox begins with."""
    return (
        sandbox.mounts[: len(MOUNTS)] == MOUNTS
        and sandbox.devices == mounts.DEFAULT_DEVICES
        and sandbox.masked_paths == masks.MASKED_PATHS
        and sandbox.readonly_paths == masks.READONLY_PATHS
        # In a tree with masks, the masks must come after the mounts that were asked for.
        and not any(mount.asked and mount.target.split("/")[1] in _MASKED_TREES for mount in sandbox.mounts)
    )


def build(place: str, host: int) -> Stage:
    """Make the stage on the host directory `place`, in a mount namespace whose mounts are private by now.

    host: a descriptor of the mount namespace that this one was copied from. Raises SystemFailure, OSError.
    """
    syscalls.mount("stage", place, "tmpfs", 0, "mode=700,size=64k")
    fd = os.open(place, _PLACE | os.O_DIRECTORY)
    for mount in MOUNTS:
        mounts.add(fd, mount)
    devices.add(fd, mounts.DEFAULT_DEVICES)
    devices.add_links(fd)
    masks.make_readonly(fd, masks.READONLY_PATHS)
    masks.hide(fd, masks.MASKED_PATHS)
    return Stage(fd, host)


def furnish(stage: Stage, root_fd: int) -> None:
    """Move the staged trees into the container's root. Raises SystemFailure."""
    for mount in TREES:
        tree = open_beneath(stage.fd, mount.target, _PLACE | os.O_DIRECTORY, no_symlinks=True)
        try:
            mounts.move(root_fd, mount, tree)
        finally:
            os.close(tree)
