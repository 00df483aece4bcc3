"""Cgroups version 2: one hierarchy, in which controllers are switched on from the root down.

Runs in the daemon, through `cgroups.detect`. A program attached to a container's cgroup decides which devices the
container may use (see `device_program`), because version 2 has no files for them.
"""

import errno
import os

from engine.late import TYPE_CHECKING, late
from engine.sandbox import device_program
from engine.sandbox.cgroups.hierarchy import PARENT, Cgroups, counter, cpu_quota, read, wait_until, write
from engine.sandbox.spec import Limits

if TYPE_CHECKING:  # hosts with cgroup v1 never need it
    from engine.kernel import bpf
else:
    bpf = late("engine.kernel.bpf")

_WANTED = ("memory", "cpu", "pids", "cpuset", "io")
_FEATURES = {
    "memory": "memory",
    "swap": "memory",
    "memory_reservation": "memory",
    "pids": "pids",
    "cpu_shares": "cpu",
    "cpu_cfs": "cpu",
    "cpuset": "cpuset",
    "blkio_weight": "io",
    "blkio_weight_device": "io",
    "blkio_throttle": "io",
}
_LATEST_FROZEN = 10.0


def detect(root: str) -> "CgroupsV2":
    """The unified hierarchy mounted at `root`, with the controllers it offers."""
    return CgroupsV2(root, frozenset(read(f"{root}/cgroup.controllers").split()))


class CgroupsV2(Cgroups):
    """Version 2 alone."""

    version = "2"

    def __init__(self, root: str, controllers: frozenset[str]) -> None:
        """controllers: those that the root offers."""
        features = {feature for feature, controller in _FEATURES.items() if controller in controllers}
        if not os.path.exists("/proc/swaps"):
            features.discard("swap")  # a kernel without swap has no memory.swap.max
        super().__init__(root, controllers, frozenset(features))

    def directories(self, id: str, parent: str = PARENT) -> tuple[str, ...]:
        """The container's one directory."""
        return (f"{self.root}{self.path_text(id, parent)}",)

    def entries(self, id: str, parent: str = PARENT) -> tuple[str, ...]:
        """The cgroup's file `cgroup.procs`."""
        return tuple(f"{directory}/cgroup.procs" for directory in self.directories(id, parent))

    def oom_killed(self, id: str, parent: str = PARENT) -> bool:
        """Whether the memory controller has killed a process here."""
        return counter(f"{self.directories(id, parent)[0]}/memory.events", "oom_kill") > 0

    def _create(self, id: str, limits: Limits, parent: str, devices: tuple[str, ...] | None, pid: int) -> None:
        (directory,) = self.directories(id, parent)
        try:
            os.mkdir(directory, 0o755)
        except FileNotFoundError:
            self._make_parent(parent)
            os.mkdir(directory, 0o755)
        else:
            if not self._has_controllers(directory):
                self._make_parent(parent)
        self._confine(directory, limits, devices)

    def _has_controllers(self, directory: str) -> bool:
        """Whether the parent passes on what limits need.

        It does not where another program has made it, or a daemon that was killed meanwhile.
        """
        return not self.controllers.intersection(_WANTED).difference(read(f"{directory}/cgroup.controllers").split())

    def _confine(self, directory: str, limits: Limits, devices: tuple[str, ...] | None) -> None:
        """Write the limits and guard the devices; raises OSError."""
        self._write(directory, limits)
        if devices is not None:
            bpf.attach_device_program(directory, device_program.assemble(devices))

    def _update(self, id: str, limits: Limits, parent: str) -> None:
        self._write(self.directories(id, parent)[0], limits)

    def _write(self, directory: str, limits: Limits) -> None:
        for name, value in settings(limits):
            write(f"{directory}/{name}", value)
        if limits.blkio_weight or limits.blkio_weight_device:
            for name, value in _weights(limits, bfq=os.path.exists(f"{directory}/io.bfq.weight")):
                write(f"{directory}/{name}", value)

    def _freeze(self, id: str, parent: str) -> None:
        (directory,) = self.directories(id, parent)
        write(f"{directory}/cgroup.freeze", "1")
        if not wait_until(lambda: counter(f"{directory}/cgroup.events", "frozen") == 1, _LATEST_FROZEN):
            write(f"{directory}/cgroup.freeze", "0")
            raise TimeoutError(errno.ETIMEDOUT, "unable to freeze: processes do not stop", directory)

    def _thaw(self, id: str, parent: str) -> None:
        write(f"{self.directories(id, parent)[0]}/cgroup.freeze", "0")

    def _make_parent(self, parent: str) -> None:
        made = self.root
        for name in ("", *parent.strip("/").split("/")):
            made = f"{made}/{name}" if name else made
            os.makedirs(made, 0o755, exist_ok=True)
            for controller in _WANTED:
                if controller in self.controllers:
                    _switch_on(made, controller)


def _switch_on(directory: str, controller: str) -> None:
    try:
        write(f"{directory}/cgroup.subtree_control", f"+{controller}")
    except OSError as error:
        # EBUSY: processes are in this very cgroup, as when the engine itself runs in a container. A limit that needs
        #     the controller then fails by name when it is written.
        if error.errno != errno.EBUSY:
            raise


def settings(limits: Limits) -> list[tuple[str, str]]:
    """(file, value) for each limit that is set."""
    rows = []
    quota, period = cpu_quota(limits)
    if limits.memory:
        rows.append(("memory.max", _number(limits.memory)))
    if limits.memory_swap:
        # Version 2 counts swap alone, the API memory and swap together.
        swap = -1 if limits.memory_swap < 0 else limits.memory_swap - max(limits.memory, 0)
        rows.append(("memory.swap.max", _number(swap)))
    if limits.memory_reservation:
        rows.append(("memory.low", _number(limits.memory_reservation)))
    if limits.cpu_shares:
        rows.append(("cpu.weight", str(_weight(limits.cpu_shares))))
    if quota or period:
        rows.append(("cpu.max", f"{quota if quota > 0 else 'max'} {period or 100_000}"))
    if limits.cpuset_cpus:
        rows.append(("cpuset.cpus", limits.cpuset_cpus))
    if limits.cpuset_mems:
        rows.append(("cpuset.mems", limits.cpuset_mems))
    if limits.pids:
        rows.append(("pids.max", _number(limits.pids)))
    for key, values in (
        ("rbps", limits.blkio_read_bps),
        ("wbps", limits.blkio_write_bps),
        ("riops", limits.blkio_read_iops),
        ("wiops", limits.blkio_write_iops),
    ):
        rows += [("io.max", f"{device} {key}={value or 'max'}") for device, value in values]
    return rows


def _weights(limits: Limits, *, bfq: bool) -> list[tuple[str, str]]:
    """(file, value) of the weights, for the scheduler BFQ where the kernel has it, else for the cost model."""
    file = "io.bfq.weight" if bfq else "io.weight"
    rows = [(file, str(scaled(limits.blkio_weight, bfq=bfq)))] if limits.blkio_weight else []
    return rows + [(file, f"{device} {scaled(value, bfq=bfq)}") for device, value in limits.blkio_weight_device]


def scaled(weight: int, *, bfq: bool) -> int:
    """The weight as the kernel takes it: the API's 10 to 1000 for BFQ, 1 to 10000 for io.weight.

    The second is scaled linearly (OCI runtimes' conversion).
    """
    return weight if bfq else 1 + (weight - 10) * 9999 // 990


def _number(value: int) -> str:
    return "max" if value < 0 else str(value)


def _weight(shares: int) -> int:
    """Version 1's 2 to 262144, scaled linearly to version 2's 1 to 10000 (OCI runtimes' conversion)."""
    return 1 + (min(max(shares, 2), 262144) - 2) * 9999 // 262142
