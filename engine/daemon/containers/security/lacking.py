"""Confine a container where the host's cgroups cannot: where they guard no devices, and where there are none.

Runs in the API's threads, at each start and exec. A cgroup guards devices by number, whatever node leads to them, and
it keeps all processes of a container together. Where it cannot, a container gets no right to make a device node, and
no node of its image, its volumes and its binds can be opened. What would need more than that is refused in words: it
would give the container all devices of the host, or processes that nobody could end. A privileged container has all
devices on any host.
"""

import os

from engine.daemon.containers.security import walls
from engine.daemon.containers.shapes import HostConfig
from engine.dataclass import replace
from engine.errors import SystemFailure
from engine.kernel import userns
from engine.sandbox import capabilities
from engine.sandbox.cgroups.hierarchy import Cgroups
from engine.sandbox.spec import Mount, Sandbox

MAKES_NODES = "CAP_MKNOD"
# With the second a process can mount devtmpfs, which has a node of every device.
_REACH_DEVICES = (MAKES_NODES, "CAP_SYS_ADMIN")
_WITH_NODES = frozenset({"/dev", "/dev/pts"})  # made by the engine, with the nodes of `Sandbox.devices` alone
_WHOLE = frozenset("rwm")
_UNGUARDED = "this host has no cgroups that guard devices"
_WITHOUT = "no cgroups are mounted on this host"
_NOT_OURS = "no cgroups of this host are this user's"
_OWN = "/proc/self/ns/cgroup"


def _guarded(cgroups: Cgroups) -> bool:
    """Whether a container is kept from devices that it was not given. In a user namespace the kernel itself does so:
    nobody there can make a device node, or open one of a file system that was mounted there.
    """
    return cgroups.guards_devices or not userns.is_hosts()


def check(cgroups: Cgroups, host_config: HostConfig) -> None:
    """Raise SystemFailure for a container that could not be confined here."""
    if not cgroups.holds_processes and host_config["PidMode"]:
        raise SystemFailure(
            f"{_WITHOUT if userns.is_hosts() else _NOT_OURS}: without them, the processes of a container that has no"
            " PID namespace of its own"
            " could not all be ended"
        )
    if _guarded(cgroups) or host_config["Privileged"]:
        return
    asked = capabilities.effective(host_config["CapAdd"], ["ALL", *(host_config["CapDrop"] or ())])
    for name in _REACH_DEVICES:
        if name in asked:
            raise SystemFailure(f"{_UNGUARDED}: with {name} the container could use every device of the host")
    for device in host_config["Devices"] or ():
        inside = device.get("PathInContainer") or device.get("PathOnHost") or ""
        if _WHOLE - set(device.get("CgroupPermissions") or ""):
            raise SystemFailure(f"{_UNGUARDED}: {inside} cannot be given to a container with less than rwm")
        if not walls.absolute(inside).startswith("/dev/"):
            raise SystemFailure(f"{_UNGUARDED}: {inside} cannot be given to a container outside of its /dev")


def check_exec(cgroups: Cgroups, host_config: HostConfig) -> None:
    """Raise SystemFailure for a privileged exec in a container that is not privileged."""
    if not _guarded(cgroups) and not host_config["Privileged"]:
        raise SystemFailure(f"{_UNGUARDED}: a privileged exec could use every device of the host")


def discard(cgroups: Cgroups, host_config: HostConfig) -> list[str]:
    """Take out, in place, the device rules that nobody could keep; return a warning for them in docker's style."""
    if not host_config["DeviceCgroupRules"] or cgroups.guards_devices:
        return []
    host_config["DeviceCgroupRules"] = []
    return ["Your kernel does not support device rules or the cgroup is not mounted. Device rules discarded."]


def rights(cgroups: Cgroups, host_config: HostConfig, names: tuple[str, ...]) -> tuple[str, ...]:
    """The capabilities of a container that was to have these."""
    if MAKES_NODES not in names or host_config["Privileged"] or _guarded(cgroups):
        return names
    return tuple(name for name in names if name != MAKES_NODES)


def confined(cgroups: Cgroups, host_config: HostConfig, sandbox: Sandbox) -> Sandbox:
    """The sandbox as it has to be here; on a usual host it is the same."""
    if not cgroups.holds_processes:
        # There is nothing to show. A kernel without cgroups has no namespace for them either.
        own = (name for name in sandbox.namespaces if name != "cgroup" or os.path.exists(_OWN))
        shown = (mount for mount in sandbox.mounts if mount.kind != "cgroup")
        sandbox = replace(sandbox, namespaces=tuple(own), mounts=tuple(shown))
    if _guarded(cgroups) or host_config["Privileged"]:
        return sandbox
    root, mounts = replace(sandbox.root, nodev=True), tuple(_without_nodes(mount) for mount in sandbox.mounts)
    return replace(sandbox, root=root, mounts=mounts)


def _without_nodes(mount: Mount) -> Mount:
    if "nodev" in mount.flags or (mount.target in _WITH_NODES and not mount.asked):
        return mount
    return replace(mount, flags=(*mount.flags, "nodev"))
