"""Cgroups version 1, also on hybrid hosts: one hierarchy for each controller, or for a few controllers mounted
together.

Runs in the daemon, through `cgroups.detect`. A container is in all hierarchies, also in those that limit nothing: those
with a name alone (`name=systemd`), those whose controllers the engine does not set, and on hybrid hosts version 2. A
systemd in a container would else take the host's cgroups for its own, and leave its limits for them.
"""

import contextlib
import errno
import os
from collections.abc import Iterable

from engine.errors import Invalid
from engine.sandbox.cgroups.hierarchy import PARENT, Cgroups, counter, cpu_quota, read, wait_until, write
from engine.sandbox.spec import Limits

_WANTED = frozenset({"memory", "cpu", "cpuacct", "pids", "devices", "blkio", "freezer", "cpuset"})

_FEATURES = {
    "memory": "memory/memory.limit_in_bytes",
    "swap": "memory/memory.memsw.limit_in_bytes",
    "memory_reservation": "memory/memory.soft_limit_in_bytes",
    "cpu_shares": "cpu/cpu.shares",
    "cpu_cfs": "cpu/cpu.cfs_quota_us",
    "cpuset": "cpuset/cpuset.cpus",
    "memory_swappiness": "memory/memory.swappiness",
    "oom_kill_disable": "memory/memory.oom_control",
    "cpu_rt": "cpu/cpu.rt_runtime_us",
    "blkio_throttle": "blkio/blkio.throttle.read_bps_device",
}
# The root itself has no weight: these files show that every other cgroup has one, by older and newer names of the
# kernel.
_WEIGHTS = {"blkio/blkio.leaf_weight": "blkio.", "blkio/blkio.bfq.io_serviced": "blkio.bfq."}
_THREADS, _PROCESSES = "tasks", "cgroup.procs"
_UNLIMITED_RT = "950000"
_LATEST_FROZEN = 10.0


def detect(root: str) -> "CgroupsV1":
    """The hierarchies mounted at `root`/<controller>[,<controller>]; links beside them are passed over."""
    wanted = {name: _WANTED.intersection(name.split(",")) for name, file in _mounted(root) if file == _THREADS}
    return CgroupsV1(root, {name: frozenset(controllers) for name, controllers in wanted.items() if controllers})


def _mounted(root: str) -> list[tuple[str, str]]:
    """The directories of all hierarchies below the root, by name, and the file by which each takes a process."""
    with os.scandir(root) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    files = {
        name: [file for file in (_THREADS, _PROCESSES) if os.path.exists(f"{root}/{name}/{file}")] for name in names
    }
    return [(name, found[0]) for name, found in files.items() if found]


class CgroupsV1(Cgroups):
    """Version 1, or hybrid."""

    version = "1"

    def __init__(self, root: str, hierarchies: dict[str, frozenset[str]]) -> None:
        """hierarchies: directory name below `root` -> the controllers that are used there."""
        self._mounts = {controller: f"{root}/{name}" for name, group in hierarchies.items() for controller in group}
        self._hierarchies = tuple(f"{root}/{name}" for name in sorted(hierarchies))
        self._others: tuple[tuple[str, str], ...] = ()
        features = {feature for feature, file in _FEATURES.items() if self._has(file)}
        self._real_time: tuple[tuple[str, str], ...] = ()
        # The root of the hierarchy has no pids.max of its own.
        features.update({"pids"} & self._mounts.keys())
        self._weight = next((prefix for file, prefix in _WEIGHTS.items() if self._has(file)), "")
        if self._weight:
            features.update({"blkio_weight", "blkio_weight_device"})
        super().__init__(root, frozenset(self._mounts), frozenset(features))
        self._known: frozenset[tuple[str, str]] = frozenset()
        self._find_others()
        self._known, self.grown = frozenset(self._others), False
        self.hybrid = os.path.exists(f"{root}/unified/cgroup.controllers")

    @property
    def places(self) -> tuple[str, ...]:
        """Where the hierarchies are mounted that have controllers of the engine's."""
        return self._hierarchies

    def _find_others(self) -> None:
        """Find the other hierarchies that can be written, with the file by which each takes a process.

        Where one was unmounted, programs may have written into the directory that it has left.
        """
        places = ((f"{self.root}/{name}", file) for name, file in _mounted(self.root))
        others = [
            (place, file)
            for place, file in places
            if place not in self._hierarchies and os.path.ismount(place) and os.access(place, os.W_OK)
        ]
        self.grown = self.grown or not self._known.issuperset(others)
        self._others = tuple(others)
        # Version 2 is the only one that takes time to enter.
        self.hasten = self._wait_ahead if any(file == _PROCESSES for _, file in others) else None

    @property
    def guards_devices(self) -> bool:
        """Whether the devices controller is mounted."""
        return "devices" in self._mounts

    def _has(self, file: str) -> bool:
        controller, _, name = file.partition("/")
        return controller in self._mounts and os.path.exists(f"{self._mounts[controller]}/{name}")

    def _wait_ahead(self) -> None:
        """Put this process where it is: for a grace period after that the next one enters without waiting."""
        with contextlib.suppress(OSError):  # it helps, or it does not
            own = next(line[3:] for line in read("/proc/self/cgroup").splitlines() if line.startswith("0::"))
            place = next(place for place, file in self._others if file == _PROCESSES)
            write(f"{place}{own.rstrip('/')}/{_PROCESSES}", "0")

    def directories(self, id: str, parent: str = PARENT) -> tuple[str, ...]:
        """The container's directory in each of the hierarchies, first in those with controllers of the engine's."""
        path = self.path_text(id, parent)
        return tuple(f"{mount}{path}" for mount in (*self._hierarchies, *(mount for mount, _ in self._others)))

    def entries(self, id: str, parent: str = PARENT, *, running: bool = False) -> tuple[str, ...]:
        """The file `tasks` of each of them, which takes a thread, and of version 2 `cgroup.procs`.

        One that was mounted while the container ran, or before an engine that did not know it, does not have it.
        """
        self._find_others()
        path = self.path_text(id, parent)
        others = (f"{mount}{path}/{file}" for mount, file in self._others)
        return (
            *(f"{mount}{path}/{_THREADS}" for mount in self._hierarchies),
            *(entry for entry in others if not running or os.path.exists(entry)),
        )

    def oom_killed(self, id: str, parent: str = PARENT) -> bool:
        """Whether the memory controller has killed a process here; the kernel counts this since Linux 4.13."""
        if "memory" not in self._mounts:
            return False
        path = f"{self._mounts['memory']}{self.path_text(id, parent)}/memory.oom_control"
        return counter(path, "oom_kill") > 0

    def _create(self, id: str, limits: Limits, parent: str, devices: tuple[str, ...] | None, pid: int) -> None:
        path = self.path_text(id, parent)
        for mount in (*self._hierarchies, *(mount for mount, _ in self._others)):
            try:
                os.mkdir(f"{mount}{path}", 0o755)
            except FileNotFoundError:
                self._make_parent(mount, parent)
                os.mkdir(f"{mount}{path}", 0o755)
            if mount != self._mounts.get("cpuset"):
                continue
            if parent != PARENT or not read(f"{mount}{path}/cpuset.mems").strip():
                # A parent of another program may have no CPUs, or not pass them on. A daemon that was killed while it
                # made the engine's own parent has left one that has none yet.
                self._make_parent(mount, parent)
                _inherit_cpuset(f"{mount}{path}", f"{mount}{parent.rstrip('/')}")
        if self._real_time:
            self._share_real_time(parent)
        elif limits.cpu_rt_runtime and parent == PARENT:
            self._let_run_in_real_time(parent)
        for controller, name, value in self._settings(limits):
            write(f"{self._mounts[controller]}{path}/{name}", value)
        if self.guards_devices and devices is not None:
            _restrict_devices(f"{self._mounts['devices']}{path}", devices)

    def _make_parent(self, mount: str, parent: str) -> None:
        """Make the parent and the cgroups above it.

        A cpuset without CPUs and memory nodes of its own takes no process.
        """
        made = mount
        for name in parent.strip("/").split("/"):
            if not name:
                continue
            above, made = made, f"{made}/{name}"
            os.makedirs(made, 0o755, exist_ok=True)
            if mount != self._mounts.get("cpuset"):
                continue
            _inherit_cpuset(made, above)
            # From here on the kernel copies them itself.
            write(f"{made}/cgroup.clone_children", "1")

    def grant_real_time(self, period: int, runtime: int) -> None:
        """Give it to each parent when a container is made there. Raises Invalid where the kernel has no budgets."""
        if (period or runtime) and "cpu_rt" not in self.features:
            raise Invalid("--cpu-rt-period, --cpu-rt-runtime: this kernel shares no budget out (RT_GROUP_SCHED)")
        asked = (("cpu.rt_period_us", period), ("cpu.rt_runtime_us", runtime))
        self._real_time = tuple((name, str(value)) for name, value in asked if value)

    def _share_real_time(self, parent: str) -> None:
        """From the top down, because a cgroup cannot have more than the one above it."""
        place = self._mounts["cpu"]
        for name in filter(None, parent.split("/")):
            place = f"{place}/{name}"
            for file, value in self._real_time:
                if read(f"{place}/{file}").strip() != value:
                    write(f"{place}/{file}", value)

    def _let_run_in_real_time(self, parent: str) -> None:
        """Give the engine's own parent the kernel's default real-time budget, because it cannot pass on what it does
        not have.
        """
        path = f"{self._mounts['cpu']}{parent}/cpu.rt_runtime_us"
        if read(path).strip() == "0":
            write(path, _UNLIMITED_RT)

    def _update(self, id: str, limits: Limits, parent: str) -> None:
        path = self.path_text(id, parent)
        rows = self._settings(limits)
        memory = f"{self._mounts.get('memory')}{path}/memory.limit_in_bytes"
        if limits.memory_swap > 0 and "memory" in self._mounts and int(read(memory)) >= limits.memory_swap:
            pass  # shrinking: memory alone comes before memory and swap, and is never above it
        else:
            rows.sort(key=lambda row: row[1] != "memory.memsw.limit_in_bytes")
        refused = []
        for controller, name, value in rows:
            file = f"{self._mounts[controller]}{path}/{name}"
            try:
                write(file, value)
            except OSError as error:
                # A period that does not fit the old quota may fit the new one.
                if error.errno != errno.EINVAL or not name.startswith("cpu."):
                    raise
                refused.append((file, value))
        for file, value in refused:
            write(file, value)

    def _freeze(self, id: str, parent: str) -> None:
        state = self._freezer(id, parent)

        def frozen() -> bool:
            write(state, "FROZEN")  # repeated, because processes forked meanwhile have missed the first write
            return read(state).strip() == "FROZEN"

        if not wait_until(frozen, _LATEST_FROZEN):
            write(state, "THAWED")
            raise TimeoutError(errno.ETIMEDOUT, "unable to freeze: processes do not stop", state)

    def _thaw(self, id: str, parent: str) -> None:
        write(self._freezer(id, parent), "THAWED")

    def _freezer(self, id: str, parent: str) -> str:
        if "freezer" not in self._mounts:
            raise OSError(errno.EOPNOTSUPP, "this host has no freezer controller")
        return f"{self._mounts['freezer']}{self.path_text(id, parent)}/freezer.state"

    def _settings(self, limits: Limits) -> list[tuple[str, str, str]]:
        """(controller, file, value) for each limit that is set, in an order the kernel accepts."""
        quota, period = cpu_quota(limits)
        swappiness = "" if limits.memory_swappiness is None else str(limits.memory_swappiness)
        # A device with the weight 0 has none of its own.
        weights = [(device, weight or "default") for device, weight in limits.blkio_weight_device]
        rows = (
            ("memory", "memory.limit_in_bytes", limits.memory),
            # Never below the limit just set, so after it.
            ("memory", "memory.memsw.limit_in_bytes", limits.memory_swap),
            ("memory", "memory.soft_limit_in_bytes", limits.memory_reservation),
            ("memory", "memory.swappiness", swappiness),
            ("memory", "memory.oom_control", "1" if limits.oom_kill_disable else ""),
            ("cpu", "cpu.shares", limits.cpu_shares),
            ("cpu", "cpu.rt_period_us", limits.cpu_rt_period),
            ("cpu", "cpu.rt_runtime_us", limits.cpu_rt_runtime),
            ("cpu", "cpu.cfs_period_us", period),
            ("cpu", "cpu.cfs_quota_us", quota),
            ("cpuset", "cpuset.cpus", limits.cpuset_cpus),
            ("cpuset", "cpuset.mems", limits.cpuset_mems),
            ("pids", "pids.max", "max" if limits.pids < 0 else limits.pids),
            ("blkio", f"{self._weight}weight", limits.blkio_weight),
            *_per_device(f"{self._weight}weight_device", weights),
            *_per_device("blkio.throttle.read_bps_device", limits.blkio_read_bps),
            *_per_device("blkio.throttle.write_bps_device", limits.blkio_write_bps),
            *_per_device("blkio.throttle.read_iops_device", limits.blkio_read_iops),
            *_per_device("blkio.throttle.write_iops_device", limits.blkio_write_iops),
        )
        return [(controller, file, str(value)) for controller, file, value in rows if value]


def _per_device(file: str, values: Iterable[tuple[str, int | str]]) -> list[tuple[str, str, str]]:
    return [("blkio", file, f"{device} {value}") for device, value in values]


def _inherit_cpuset(directory: str, above: str) -> None:
    for file in ("cpuset.cpus", "cpuset.mems"):
        if not read(f"{directory}/{file}").strip():
            write(f"{directory}/{file}", read(f"{above}/{file}").strip())


def _restrict_devices(directory: str, devices: tuple[str, ...]) -> None:
    write(f"{directory}/devices.deny", "a")
    fd = os.open(f"{directory}/devices.allow", os.O_WRONLY | os.O_CLOEXEC)
    try:
        for rule in devices:
            os.write(fd, rule.encode())
    finally:
        os.close(fd)
