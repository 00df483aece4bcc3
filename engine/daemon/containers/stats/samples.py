"""Read a container's processor, memory, network and block I/O counters, and encode them as lines of `docker stats`.

`Gauge` reads files, in the sampler's thread or in a request's; all else is pure. The names and their order are those of
dockerd's answers. What dockerd leaves out when it is zero is left out here.
"""

import os

from engine.daemon.clock import NEVER, SECOND, rfc3339
from engine.daemon.containers.record import Container, State
from engine.daemon.containers.security import cgroupparent
from engine.daemon.jsontext import Object, compact
from engine.daemon.parts import CgroupPart
from engine.dataclass import dataclass
from engine.sandbox.cgroups.counters import Counters, Files, Gone, IoEntry, Reader

_TICKS = os.sysconf("SC_CLK_TCK")
_JIFFIES_COUNTED = 7  # of the first line of /proc/stat: user nice system idle iowait irq softirq
_NET_FIELDS = (
    *(("rx_bytes", 0), ("rx_packets", 1), ("rx_errors", 2), ("rx_dropped", 3)),
    *(("tx_bytes", 8), ("tx_packets", 9), ("tx_errors", 10), ("tx_dropped", 11)),
)
_IO_NAMES = (
    *("io_service_bytes_recursive", "io_serviced_recursive", "io_queue_recursive", "io_service_time_recursive"),
    *("io_wait_time_recursive", "io_merged_recursive", "io_time_recursive", "sectors_recursive"),
)


@dataclass(frozen=True, slots=True)
class Host:
    """The whole machine at one moment: processor time that has passed, in ns, processors, and bytes of memory."""

    cpu: int
    processors: int
    memory: int


@dataclass(frozen=True, slots=True)
class Sample:
    """A container at one moment. read: when; cpu: `cpu_stats` as JSON; rest: what follows, from `memory_stats` on."""

    read: str
    cpu: str
    rest: str


def parse_host(stat: bytes, memory: int) -> Host:
    """The `Host` of a /proc/stat, whose `cpuN` lines are the processors that are online."""
    lines = stat.split(b"\n")
    ticks = sum(int(word) for word in lines[0].split()[1 : 1 + _JIFFIES_COUNTED])
    processors = next((number for number, line in enumerate(lines[1:]) if not line.startswith(b"cpu")), 0)
    return Host(ticks * SECOND // _TICKS, processors, memory)


def read_host() -> Host:
    """The machine now."""
    with open("/proc/stat", "rb", buffering=0) as file:
        stat = file.readall() or b""
    return parse_host(stat, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def parse_networks(text: bytes) -> dict[str, dict[str, int]]:
    """The counters of each interface but the loopback, of a /proc/PID/net/dev."""
    networks = {}
    for line in text.decode("utf-8", "replace").splitlines()[2:]:
        name, _, counts = line.rpartition(":")
        values = counts.split()
        if name.strip() != "lo":
            networks[name.strip()] = {key: int(values[place]) for key, place in _NET_FIELDS}
    return networks


def sample(counters: Counters, host: Host, networks: Object, moment_ns: int) -> Sample:
    """The sample of one reading of all counters."""
    rest: Object = {"memory_stats": _memory(counters, host)}
    if networks:
        rest["networks"] = networks
    rest["pids_stats"] = _some({"current": counters.pids, "limit": counters.pids_limit})
    rest["blkio_stats"] = _io(counters)
    return Sample(rfc3339(moment_ns), compact(_cpu(counters, host)), _tail(rest))


def _cpu(counters: Counters, host: Host | None) -> Object:
    usage: Object = {"total_usage": counters.cpu}
    if counters.cpus:
        usage["percpu_usage"] = counters.cpus
    usage["usage_in_kernelmode"], usage["usage_in_usermode"] = counters.cpu_kernel, counters.cpu_user
    shown: Object = {"cpu_usage": usage}
    if host is not None:
        shown["system_cpu_usage"], shown["online_cpus"] = host.cpu, host.processors
    shown["throttling_data"] = {
        "periods": counters.periods,
        "throttled_periods": counters.throttled_periods,
        "throttled_time": counters.throttled,
    }
    return shown


def _memory(counters: Counters, host: Host) -> Object:
    return _some(
        {
            "usage": counters.memory_used,
            "max_usage": counters.memory_max,
            "stats": counters.memory,
            "failcnt": counters.memory_failures,
            "limit": min(counters.memory_limit, host.memory),  # without a limit it is the machine's memory
        }
    )


def _io(counters: Counters) -> Object:
    """The blkio_stats. Version 1 has two of eight lists, the others empty; version 2 has one, the others null."""
    counted = counters.io_counts is not None
    shown: Object = Object.fromkeys(_IO_NAMES, [] if counted else None)
    if counters.io_bytes is not None:
        shown["io_service_bytes_recursive"] = [_entry(each) for each in counters.io_bytes]
    if counters.io_counts is not None:
        shown["io_serviced_recursive"] = [_entry(each) for each in counters.io_counts]
    return shown


def _entry(entry: IoEntry) -> Object:
    return dict(zip(("major", "minor", "op", "value"), entry, strict=True))


def _some(values: Object) -> Object:
    return {key: value for key, value in values.items() if value}


def _tail(rest: Object) -> str:
    return compact({**rest, "num_procs": 0, "storage_stats": {}})[1:-1]


NOTHING = Sample(
    NEVER,
    compact(_cpu(Counters(), None)),
    _tail({"memory_stats": {}, "pids_stats": {}, "blkio_stats": dict.fromkeys(_IO_NAMES)}),
)
"""Of a container that does not run, and of the time before the first sample."""


def line(container: Container, now: Sample, before: Sample) -> bytes:
    """One line of `stats`, with its line end."""
    text = (
        f'{{"id":"{container.id}","name":{compact(f"/{container.name}")},"os_type":"linux","read":"{now.read}"'
        f',"cpu_stats":{now.cpu},{now.rest},"preread":"{before.read}","precpu_stats":{before.cpu}}}\n'
    )
    return text.encode("utf-8", "replace")


class Gauge:
    """Reads the counters of one run of one container; `keep` holds its files open. The caller closes it."""

    def __init__(self, engine: CgroupPart, container: Container, state: State, *, keep: bool) -> None:
        """state: of the run, which is alive."""
        self.pid_start = state.pid_start
        self._counters = Reader(engine.cgroups, container.id, cgroupparent.of(container), keep=keep)
        host_network = container.host_config["NetworkMode"] == "host"
        self._network = None if host_network else Files({"dev": f"/proc/{state.pid}/net/dev"}, keep=keep)

    def read(self, host: Host, moment_ns: int) -> Sample:
        """A sample; `NOTHING` of a run that has just ended."""
        try:
            networks = parse_networks(self._network.read()["dev"]) if self._network else {}
            return sample(self._counters.read(), host, networks, moment_ns)
        except Gone:
            return NOTHING

    def close(self) -> None:
        """Close the descriptors."""
        self._counters.close()
        if self._network is not None:
            self._network.close()
