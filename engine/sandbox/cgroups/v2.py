"""Cgroups version 2: one hierarchy, in which controllers are switched on from the root down.

Runs in the daemon, through `cgroups.detect`. A program attached to a container's cgroup decides which devices the
container may use (see `device_program`), because version 2 has no files for them.
"""

import errno
import logging
import os

from engine.late import TYPE_CHECKING, late
from engine.sandbox import device_program
from engine.sandbox.cgroups.hierarchy import PARENT, ROOT, Cgroups, counter, cpu_quota, fitted, read, wait_until, write
from engine.sandbox.device_rules import DEFAULT
from engine.sandbox.spec import Limits

if TYPE_CHECKING:  # hosts with cgroup v1 never need it
    from engine.kernel import bpf
else:
    bpf = late("engine.kernel.bpf")

log = logging.getLogger(__name__)

_WANTED = ("memory", "cpu", "pids", "cpuset", "io")
# The controller that a kind of limit needs, and the files of which a cgroup has one where the kernel can do it.
_FEATURES: dict[str, tuple[str, tuple[str, ...]]] = {
    "memory": ("memory", ("memory.max",)),
    "swap": ("memory", ("memory.swap.max",)),
    "memory_reservation": ("memory", ("memory.low",)),
    "pids": ("pids", ("pids.max",)),
    "cpu_shares": ("cpu", ("cpu.weight",)),
    "cpu_cfs": ("cpu", ("cpu.max",)),
    "cpuset": ("cpuset", ("cpuset.cpus",)),
    "blkio_weight": ("io", ("io.weight", "io.bfq.weight")),
    "blkio_weight_device": ("io", ("io.weight", "io.bfq.weight")),
    "blkio_throttle": ("io", ("io.max",)),
}
_NOTHING = Limits()
# A kernel without this kind of program (EINVAL) or without bpf(2), or an engine that itself has no right to it.
_NO_PROGRAMS = frozenset({errno.EINVAL, errno.ENOSYS, errno.EPERM})
_BFQ = "/sys/module/bfq"
_LATEST_FROZEN = 10.0


def detect(root: str) -> "CgroupsV2":
    """The unified hierarchy mounted at `root`, with the controllers it offers."""
    return CgroupsV2(root, frozenset(read(f"{root}/cgroup.controllers").split()))


class CgroupsV2(Cgroups):
    """Version 2 alone."""

    version = "2"

    def __init__(self, root: str, controllers: frozenset[str]) -> None:
        """controllers: those that the root offers."""
        features = {feature for feature, (controller, _) in _FEATURES.items() if controller in controllers}
        if not os.path.exists("/proc/swaps"):
            features.discard("swap")  # a kernel without swap has no memory.swap.max
        super().__init__(root, controllers, frozenset(features))
        self._doubted = {_FEATURES[feature][0] for feature in features}
        self._guards: bool | None = None

    @property
    def features(self) -> frozenset[str]:
        """The kinds of limit that work here.

        The root has hardly any file of a limit. So the files are looked for in a cgroup that has the controller: in the
        one of this process, and in those below the root. While no cgroup has it, the kernel is taken to be whole, as
        docker takes it.
        """
        for place in self._places() if self._doubted else ():
            try:
                seen = self._doubted.intersection(read(f"{place}/cgroup.controllers").split())
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ENODEV):
                    raise
                continue  # it was removed meanwhile
            lacking = {
                feature
                for feature, (controller, files) in _FEATURES.items()
                if controller in seen and not any(os.path.exists(f"{place}/{file}") for file in files)
            }
            self._features -= lacking
            self._doubted -= seen
        return self._features if self._weighs_devices() else self._features - {"blkio_weight_device"}

    def _weighs_devices(self) -> bool:
        """Whether a device may have a weight: by BFQ, or by the cost model, which is on for the devices of the root's
        io.cost.qos alone.
        """
        try:
            return "enable=1" in read(f"{self.root}/io.cost.qos") or os.path.exists(_BFQ)
        except FileNotFoundError:
            return True  # nobody knows

    def _places(self) -> list[str]:
        """Cgroups other than the root, in which the files of limits can be looked for."""
        places = [entry.path for entry in os.scandir(self.root) if entry.is_dir(follow_symlinks=False)]
        try:
            lines = read("/proc/self/cgroup").splitlines()
        except FileNotFoundError:
            return places
        own = next((line.removeprefix("0::") for line in lines if line.startswith("0::/")), "/")
        return [self.root + own, *places] if own != "/" and self.root == ROOT else places

    @property
    def guards_devices(self) -> bool:
        """Whether the kernel takes a device program from this process; tried once."""
        if self._guards is None:
            try:
                os.close(bpf.load_device_program(device_program.assemble(DEFAULT)))
                self._guards = True
            except OSError as error:
                if error.errno not in _NO_PROGRAMS:
                    raise
                self._guards = False
        return self._guards

    def directories(self, id: str, parent: str = PARENT) -> tuple[str, ...]:
        """The container's one directory."""
        return (f"{self.root}{self.path_text(id, parent)}",)

    def entries(self, id: str, parent: str = PARENT, *, running: bool = False) -> tuple[str, ...]:
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
        self._confine(id, directory, limits, devices)

    def _has_controllers(self, directory: str) -> bool:
        """Whether the parent passes on what limits need.

        It does not where another program has made it, or a daemon that was killed meanwhile.
        """
        return not self.controllers.intersection(_WANTED).difference(read(f"{directory}/cgroup.controllers").split())

    def _confine(self, id: str, directory: str, limits: Limits, devices: tuple[str, ...] | None) -> None:
        """Write the limits and guard the devices; raises OSError."""
        self._write(directory, self._kept(id, directory, limits))
        if devices is not None and self.guards_devices:
            bpf.attach_device_program(directory, device_program.assemble(devices))

    def _kept(self, id: str, directory: str, limits: Limits) -> Limits:
        """The limits for which the new cgroup has files; what it cannot keep is logged.

        `features` may have known of no cgroup with the controller. And a controller that could not be switched on above
        (see `_switch_on`) has no files here.
        """
        if limits == _NOTHING:
            return limits
        here = {
            feature
            for feature in self.features
            if any(os.path.exists(f"{directory}/{file}") for file in _FEATURES[feature][1])
        }
        fitting, warnings = fitted(limits, frozenset(here))
        for warning in warnings:
            log.warning("container %s: %s", id, warning)
        return fitting

    def _update(self, id: str, limits: Limits, parent: str) -> None:
        self._write(self.directories(id, parent)[0], limits)

    def _write(self, directory: str, limits: Limits) -> None:
        for name, value in settings(limits):
            write(f"{directory}/{name}", value)
        if limits.blkio_weight or limits.blkio_weight_device:
            for name, value in _weights(limits, bfq=os.path.exists(f"{directory}/io.bfq.weight")):
                try:
                    write(f"{directory}/{name}", value)
                except OSError as error:
                    if error.errno != errno.EOPNOTSUPP:
                        raise
                    # The device is not among those that the kernel weighs: one more limit that cannot be kept.
                    log.warning("container %s: %s cannot be kept: %s", os.path.basename(directory), value, error)

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
        # EBUSY: processes are in this very cgroup, as when the engine itself runs in a container. A container's limits
        #     that need the controller are then discarded, with docker's warning in the log.
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
    # A device with the weight 0 has none of its own.
    return rows + [
        (file, f"{device} {scaled(value, bfq=bfq) if value else 'default'}")
        for device, value in limits.blkio_weight_device
    ]


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
