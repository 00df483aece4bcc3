"""Check the limits of memory, processors, block I/O and processes in a HostConfig, and turn them into cgroup limits.

Runs in the daemon's request threads. It asks the host for two files of /sys when a CPU set is asked for, for the number
of processors, and for the device numbers of block I/O limits. Error texts are dockerd's. As in dockerd, what the
host's cgroups lack is first discarded, mostly with a warning.
"""

import os
import resource
import stat
from collections.abc import Callable, Iterable

from engine.annotating import Literal
from engine.daemon.containers.shapes import HostConfig, ThrottleDevice
from engine.daemon.runtime.handshake import BY_RUNC, NOT_CREATED
from engine.errors import Invalid, SystemFailure
from engine.kernel import reasons
from engine.literals import span
from engine.sandbox.cgroups.hierarchy import Cgroups
from engine.sandbox.spec import Limits, Rlimit

_Number = Literal[
    "Memory",
    "MemorySwap",
    "MemoryReservation",
    "CpuShares",
    "CpuPeriod",
    "CpuQuota",
    "CpuRealtimePeriod",
    "CpuRealtimeRuntime",
    "NanoCpus",
    "BlkioWeight",
]
_Set = Literal["CpusetCpus", "CpusetMems"]
_Rate = Literal["BlkioDeviceReadBps", "BlkioDeviceWriteBps", "BlkioDeviceReadIOps", "BlkioDeviceWriteIOps"]
_Ranged = Literal["CpuPeriod", "BlkioWeight", "OomScoreAdj", "MemorySwappiness"]
_LEAST_MEMORY = 6 << 20
_HIGHEST = (1 << 16) - 1  # of the numbers of a CPU set
_ONLINE: dict[_Set, tuple[str, str, str]] = {
    "CpusetCpus": ("/sys/devices/system/cpu/online", "CPUs", "cpuset cpus"),
    "CpusetMems": ("/sys/devices/system/node/online", "memory nodes", "cpuset mems"),
}
_MOST_SHARES = 1 << 18  # the kernel's own bound
_PERIOD_TEXT = "CPU cfs period can not be less than 1ms (i.e. 1000) or larger than 1s (i.e. 1000000)"
# The field of Limits, the key of the API, and the API's value for "no limit".
_NUMBERS: tuple[tuple[str, _Number, int], ...] = (
    ("memory", "Memory", 0),
    ("memory_swap", "MemorySwap", -1),
    ("memory_reservation", "MemoryReservation", 0),
    ("cpu_shares", "CpuShares", 0),
    ("cpu_period", "CpuPeriod", 0),
    ("cpu_quota", "CpuQuota", 0),
    ("cpu_rt_period", "CpuRealtimePeriod", 0),
    ("cpu_rt_runtime", "CpuRealtimeRuntime", 0),
    ("nano_cpus", "NanoCpus", 0),
    ("blkio_weight", "BlkioWeight", 0),
)
_SETS: tuple[tuple[str, _Set], ...] = (("cpuset_cpus", "CpusetCpus"), ("cpuset_mems", "CpusetMems"))
_RATES: tuple[tuple[str, _Rate], ...] = (
    ("blkio_read_bps", "BlkioDeviceReadBps"),
    ("blkio_write_bps", "BlkioDeviceWriteBps"),
    ("blkio_read_iops", "BlkioDeviceReadIOps"),
    ("blkio_write_iops", "BlkioDeviceWriteIOps"),
)
# (key, lowest, highest, text): 0 always means "not asked for".
_RANGES: tuple[tuple[_Ranged, int, int, str], ...] = (
    ("CpuPeriod", 1000, 1_000_000, _PERIOD_TEXT),
    ("BlkioWeight", 10, 1000, "Range of blkio weight is from 10 to 1000"),
    ("OomScoreAdj", -1000, 1000, "Invalid value {value}, range for oom score adj is [-1000, 1000]"),
    ("MemorySwappiness", 0, 100, "Invalid value: {value}, valid memory swappiness range is 0-100"),
)


def limits_of(host_config: HostConfig, number: Callable[[str], str]) -> Limits:
    """The limits of a HostConfig. number: makes `major:minor` of a block device's path; raises what that raises."""
    weights = [each or {} for each in host_config["BlkioWeightDevice"] or ()]
    return Limits(
        memory=host_config["Memory"],
        memory_swap=host_config["MemorySwap"],
        memory_reservation=host_config["MemoryReservation"],
        cpu_shares=host_config["CpuShares"],
        cpu_period=host_config["CpuPeriod"],
        cpu_quota=host_config["CpuQuota"],
        nano_cpus=host_config["NanoCpus"],
        cpuset_cpus=host_config["CpusetCpus"],
        cpuset_mems=host_config["CpusetMems"],
        pids=max(host_config["PidsLimit"] or 0, 0),
        cpu_rt_period=host_config["CpuRealtimePeriod"],
        cpu_rt_runtime=host_config["CpuRealtimeRuntime"],
        memory_swappiness=host_config["MemorySwappiness"],
        oom_kill_disable=host_config["OomKillDisable"],
        blkio_weight=host_config["BlkioWeight"],
        blkio_weight_device=tuple((number(each.get("Path") or ""), each.get("Weight") or 0) for each in weights),
        blkio_read_bps=_rates(host_config["BlkioDeviceReadBps"], number),
        blkio_write_bps=_rates(host_config["BlkioDeviceWriteBps"], number),
        blkio_read_iops=_rates(host_config["BlkioDeviceReadIOps"], number),
        blkio_write_iops=_rates(host_config["BlkioDeviceWriteIOps"], number),
    )


def _rates(asked: list[ThrottleDevice | None] | None, number: Callable[[str], str]) -> tuple[tuple[str, int], ...]:
    given = [each or {} for each in asked or ()]
    return tuple((number(each.get("Path") or ""), each.get("Rate") or 0) for each in given)


def rlimits_of(host_config: HostConfig, default: tuple[str, ...]) -> tuple[Rlimit, ...]:
    """The resource limits of a container's processes: its own, then the daemon's (`name=soft:hard`) for the rest."""
    own = tuple(Rlimit(each["Name"].lower(), each["Soft"], each["Hard"]) for each in host_config["Ulimits"] or ())
    names = {limit.name for limit in own}
    texts = (text.replace("=", ":").split(":") for text in default)
    return (*own, *(Rlimit(name, int(soft), int(hard)) for name, soft, hard in texts if name not in names))


def check_files(rlimits: Iterable[Rlimit]) -> None:
    """Raise SystemFailure, in runc's words, for more open files than the kernel lets any process have."""
    for limit in rlimits:
        if limit.name != "nofile" or (limit.soft < 0 <= limit.hard) or limit.soft > limit.hard >= 0:
            continue  # the kernel has other words for a soft limit above the hard one
        with open("/proc/sys/fs/nr_open", encoding="ascii") as file:
            most = int(file.read())
        if not 0 <= limit.hard <= most:
            failed = "unable to start container process: error during container init: error setting rlimits for ready"
            text = f"{failed} process: error setting rlimit type {resource.RLIMIT_NOFILE}: operation not permitted"
            raise SystemFailure(f"{NOT_CREATED}{BY_RUNC}{text}")


def device_number(path: str) -> str:
    """`major:minor` of a block device of the host. Raises SystemFailure in docker's words."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise SystemFailure(f"stat {path}: {reasons.of(error)}") from error
    except ValueError as error:  # a NUL
        raise SystemFailure(f"stat {path}: invalid argument") from error
    if not stat.S_ISBLK(found.st_mode):
        raise SystemFailure(f"{path} is not a block device")
    return f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}"


def discard(host_config: HostConfig, cgroups: Cgroups) -> list[str]:
    """Take out, in place, what the host's cgroups cannot do; return docker's warnings for it.

    host_config: one that no container owns yet. Raises Invalid where docker does.
    """
    if host_config["NanoCpus"] and "cpu_cfs" not in cgroups.features:
        what = "your kernel does not support CPU CFS scheduler or the cgroup is not mounted"
        raise Invalid(f"NanoCPUs can not be set, as {what}")
    if (host_config["CpuRealtimePeriod"] or host_config["CpuRealtimeRuntime"]) and "cpu_rt" not in cgroups.features:
        raise Invalid("kernel does not support CPU real-time scheduler")
    asked = limits_of(host_config, str)
    fitting, warnings = cgroups.fitting(asked)
    if host_config["CpuPercent"] > 0:
        warnings.append("linux does not support CPU percent. Percent discarded.")
        host_config["CpuPercent"] = 0
    if fitting == asked:
        return warnings
    for field, key, nothing in _NUMBERS:
        if getattr(fitting, field) != getattr(asked, field):
            host_config[key] = nothing
    for field, numbers in _SETS:
        if getattr(fitting, field) != getattr(asked, field):
            host_config[numbers] = ""
    for field, rates in _RATES:
        if getattr(fitting, field) != getattr(asked, field):
            host_config[rates] = []
    if fitting.blkio_weight_device != asked.blkio_weight_device:
        host_config["BlkioWeightDevice"] = []
    if fitting.memory_swappiness != asked.memory_swappiness:
        host_config["MemorySwappiness"] = None
    if fitting.oom_kill_disable != asked.oom_kill_disable:
        host_config["OomKillDisable"] = False
    if fitting.pids != asked.pids:
        host_config["PidsLimit"] = None
    return warnings


def check(host_config: HostConfig, cgroups: Cgroups | None, *, update: bool = False) -> list[str]:
    """Raise Invalid for impossible limits; return the warnings of create. `host_config` is complete.

    cgroups: those that are to keep the limits, see `discard`; what was discarded is not checked
    update: host_config holds the values to change, and 0 for those that stay
    """
    if host_config["MemorySwappiness"] == -1:  # as much as none asked for
        host_config["MemorySwappiness"] = None
    warnings = discard(host_config, cgroups) if cgroups else []
    check_together(host_config, update=update)
    for key, lowest, highest, text in _RANGES:
        value = host_config[key]
        if value and not lowest <= value <= highest:
            raise Invalid(text.format(value=value))
    for numbers in _ONLINE:
        _check_set(numbers, host_config[numbers])
    if host_config["IOMaximumBandwidth"] or host_config["IOMaximumIOps"]:
        raise Invalid("Invalid QoS settings: linux does not support Maximum IO Bandwidth or Maximum IO IOps")
    if host_config["OomKillDisable"] and not host_config["Memory"]:
        warnings.append(
            "OOM killer is disabled for the container, but no memory limit is set, this can result in the system"
            " running out of resources."
        )
    return warnings


def check_together(host_config: HostConfig, *, update: bool = False) -> None:
    """Raise Invalid for limits that do not fit each other: each update looks at its own values alone.

    update: as in `check`
    """
    _check_memory(host_config, update)
    _check_processors(host_config)


def _check_memory(host_config: HostConfig, update: bool) -> None:
    memory, swap, reservation = host_config["Memory"], host_config["MemorySwap"], host_config["MemoryReservation"]
    if memory != 0 and memory < _LEAST_MEMORY:
        raise Invalid("Minimum memory limit allowed is 6MB")
    if 0 < swap < memory:
        raise Invalid("Minimum memoryswap limit should be larger than memory limit, see usage")
    if memory == 0 and swap > 0 and not update:
        raise Invalid("You should always set the Memory limit when using Memoryswap limit, see usage")
    if 0 < reservation < _LEAST_MEMORY:
        raise Invalid("Minimum memory reservation allowed is 6MB")
    if 0 < memory < reservation:
        raise Invalid("Minimum memory limit can not be less than memory reservation limit, see usage")


def _check_processors(host_config: HostConfig) -> None:
    shares = host_config["CpuShares"]
    if shares < 0:
        raise Invalid(f"invalid CPU shares ({shares}): value must be a positive integer")
    if shares > _MOST_SHARES:
        raise Invalid(f"invalid CPU shares ({shares}): the kernel takes at most {_MOST_SHARES}")
    nano, period, quota = host_config["NanoCpus"], host_config["CpuPeriod"], host_config["CpuQuota"]
    if nano > 0 and period > 0:
        raise Invalid("Conflicting options: Nano CPUs and CPU Period cannot both be set")
    if nano > 0 and quota > 0:
        raise Invalid("Conflicting options: Nano CPUs and CPU Quota cannot both be set")
    if nano:
        count = len(os.sched_getaffinity(0))
        if not 0 < nano <= count * 1_000_000_000:
            raise Invalid(f"range of CPUs is from 0.01 to {count}.00, as there are only {count} CPUs available")
    if 0 < host_config["CpuRealtimePeriod"] < host_config["CpuRealtimeRuntime"]:
        raise Invalid("cpu real-time runtime cannot be higher than cpu real-time period")
    if 0 < quota < 1000:
        raise Invalid("CPU cfs quota can not be less than 1ms (i.e. 1000)")


def _check_set(key: _Set, asked: str) -> None:
    if not asked:
        return
    path, what, name = _ONLINE[key]
    try:
        wanted = parse_set(asked)
    except ValueError as error:
        raise Invalid(f"Invalid value {asked} for {name}: invalid format: {asked}") from error
    try:
        with open(path, encoding="ascii") as file:
            online = file.read().strip()
    except FileNotFoundError:
        # A kernel without NUMA has no list of nodes, and one node.
        online = "0"
    if not wanted <= parse_set(online):
        raise Invalid(f"Requested {what} are not available - requested {asked}, available: {online}")


def parse_set(text: str) -> set[int]:
    """The numbers of a list such as `0-2,7` (cpuset(7), "List format"). Raises ValueError for any other text."""
    numbers: set[int] = set()
    for part in text.split(","):
        ends = span(part, _HIGHEST)
        if ends is None:
            raise ValueError(part)
        numbers.update(range(ends[0], ends[1] + 1))
    return numbers
