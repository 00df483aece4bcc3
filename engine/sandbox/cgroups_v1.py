"""Cgroups version 1: one hierarchy a controller, or a few controllers mounted together.

Runs in the daemon, through `cgroups.detect`. With hybrid hosts the controllers are here and version 2 only names
processes: it is left alone, since entering it costs a grace period and limits nothing.
"""

import os

from engine.sandbox.cgroups import PARENT, Cgroups, counter, cpu_quota, read, write
from engine.sandbox.spec import Limits

_WANTED = frozenset({"memory", "cpu", "cpuacct", "pids", "devices", "blkio", "freezer", "cpuset"})

DEVICES: tuple[str, ...] = (
    "c *:* m",
    "b *:* m",
    "c 1:3 rwm",
    "c 1:5 rwm",
    "c 1:7 rwm",
    "c 1:8 rwm",
    "c 1:9 rwm",
    "c 5:0 rwm",
    "c 5:1 rwm",
    "c 5:2 rwm",
    "c 136:* rwm",
)
"""What may be done with devices in a container that is not privileged: make any node, use docker's and terminals."""

_FEATURES = {
    "memory": "memory/memory.limit_in_bytes",
    "swap": "memory/memory.memsw.limit_in_bytes",
    "memory_reservation": "memory/memory.soft_limit_in_bytes",
    "cpu_shares": "cpu/cpu.shares",
    "cpu_cfs": "cpu/cpu.cfs_quota_us",
    "cpuset": "cpuset/cpuset.cpus",
}


def detect(root: str) -> "CgroupsV1":
    """The hierarchies mounted at `root`/<controller>[,<controller>]; links beside them are passed over."""
    hierarchies: dict[str, frozenset[str]] = {}
    with os.scandir(root) as entries:
        for entry in entries:
            wanted = _WANTED.intersection(entry.name.split(","))
            if wanted and entry.is_dir(follow_symlinks=False) and os.path.exists(f"{entry.path}/tasks"):
                hierarchies[entry.name] = frozenset(wanted)
    return CgroupsV1(root, hierarchies)


class CgroupsV1(Cgroups):
    """Version 1, or hybrid."""

    version = "1"

    def __init__(self, root: str, hierarchies: dict[str, frozenset[str]]) -> None:
        """hierarchies: directory name below `root` -> the controllers that are used there."""
        self._mounts = {controller: f"{root}/{name}" for name, group in hierarchies.items() for controller in group}
        self._hierarchies = tuple(f"{root}/{name}" for name in sorted(hierarchies))
        features = {feature for feature, file in _FEATURES.items() if self._has(file)}
        # The root of the hierarchy has no pids.max of its own.
        features.update({"pids"} & self._mounts.keys())
        super().__init__(root, frozenset(self._mounts), frozenset(features))
        self.hybrid = os.path.exists(f"{root}/unified/cgroup.controllers")

    def _has(self, file: str) -> bool:
        controller, _, name = file.partition("/")
        return controller in self._mounts and os.path.exists(f"{self._mounts[controller]}/{name}")

    def directories(self, id: str, parent: str = PARENT) -> tuple[str, ...]:
        """See Cgroups."""
        path = self.path_text(id, parent)
        return tuple(f"{mount}{path}" for mount in self._hierarchies)

    def entries(self, id: str, parent: str = PARENT) -> tuple[str, ...]:
        """See Cgroups."""
        return tuple(f"{directory}/tasks" for directory in self.directories(id, parent))

    def oom_killed(self, id: str, parent: str = PARENT) -> bool:
        """See Cgroups; the kernel counts since Linux 4.13."""
        if "memory" not in self._mounts:
            return False
        path = f"{self._mounts['memory']}{self.path_text(id, parent)}/memory.oom_control"
        return counter(path, "oom_kill") > 0

    def _create(self, id: str, limits: Limits, parent: str, all_devices: bool) -> None:
        path = self.path_text(id, parent)
        for mount in self._hierarchies:
            try:
                os.mkdir(f"{mount}{path}", 0o755)
            except FileNotFoundError:
                self._make_parent(mount, parent)
                os.mkdir(f"{mount}{path}", 0o755)
        for controller, name, value in _settings(limits):
            write(f"{self._mounts[controller]}{path}/{name}", value)
        if "devices" in self._mounts and not all_devices:
            _restrict_devices(f"{self._mounts['devices']}{path}")

    def _make_parent(self, mount: str, parent: str) -> None:
        """The parent and what is above it. Without CPUs and memory nodes of its own a cpuset takes nobody in."""
        made = mount
        for name in parent.strip("/").split("/"):
            above, made = made, f"{made}/{name}"
            os.makedirs(made, 0o755, exist_ok=True)
            if mount != self._mounts.get("cpuset"):
                continue
            for file in ("cpuset.cpus", "cpuset.mems"):
                if not read(f"{made}/{file}").strip():
                    write(f"{made}/{file}", read(f"{above}/{file}").strip())
            # From here on the kernel copies them itself.
            write(f"{made}/cgroup.clone_children", "1")


def _settings(limits: Limits) -> list[tuple[str, str, str]]:
    """(controller, file, value) for each limit that is set, in an order the kernel accepts."""
    quota, period = cpu_quota(limits)
    rows = (
        ("memory", "memory.limit_in_bytes", limits.memory),
        # Never below the limit just set, so after it.
        ("memory", "memory.memsw.limit_in_bytes", limits.memory_swap),
        ("memory", "memory.soft_limit_in_bytes", limits.memory_reservation),
        ("cpu", "cpu.shares", limits.cpu_shares),
        ("cpu", "cpu.cfs_period_us", period),
        ("cpu", "cpu.cfs_quota_us", quota),
        ("cpuset", "cpuset.cpus", limits.cpuset_cpus),
        ("cpuset", "cpuset.mems", limits.cpuset_mems),
        ("pids", "pids.max", "max" if limits.pids < 0 else limits.pids),
    )
    return [(controller, file, str(value)) for controller, file, value in rows if value]


def _restrict_devices(directory: str) -> None:
    write(f"{directory}/devices.deny", "a")
    fd = os.open(f"{directory}/devices.allow", os.O_WRONLY | os.O_CLOEXEC)
    try:
        for rule in DEVICES:
            os.write(fd, rule.encode())
    finally:
        os.close(fd)
