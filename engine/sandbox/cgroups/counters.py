"""Reads the usage counters of a container's cgroups: processor time, memory, processes, bytes of block devices.

Runs in the daemon. `Reader` keeps the files open, since a sampler reads them every second; their texts become
`Counters` in pure functions, one for each version. It never writes, and waits for nothing but the kernel.
"""

import errno
import os

from engine.dataclass import dataclass, field
from engine.sandbox.cgroups.hierarchy import PARENT, Cgroups

_LARGEST = 16 * 1024
_SHORT = 2048
"""Bytes of one read; a read of fewer than `_SHORT` bytes reached the end (proc files come by the page)."""
_GONE = frozenset({errno.ENODEV, errno.ESRCH})
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
UNLIMITED = 2**64 - 1

# Key, controller, and the file's name for version 1.
_FILES_V1: tuple[tuple[str, str, str], ...] = (
    ("usage", "cpuacct", "cpuacct.usage_percpu"),
    ("times", "cpuacct", "cpuacct.stat"),
    ("throttling", "cpu", "cpu.stat"),
    ("memory", "memory", "memory.usage_in_bytes"),
    ("memory_max", "memory", "memory.max_usage_in_bytes"),
    ("memory_limit", "memory", "memory.limit_in_bytes"),
    ("memory_failures", "memory", "memory.failcnt"),
    ("memory_stat", "memory", "memory.stat"),
    ("pids", "pids", "pids.current"),
    ("pids_limit", "pids", "pids.max"),
    ("io_bytes", "blkio", "blkio.throttle.io_service_bytes_recursive"),
    ("io_counts", "blkio", "blkio.throttle.io_serviced_recursive"),
)
_FILES_V2: tuple[tuple[str, str], ...] = (
    ("cpu", "cpu.stat"),
    ("memory", "memory.current"),
    ("memory_limit", "memory.max"),
    ("memory_stat", "memory.stat"),
    ("memory_events", "memory.events"),
    ("pids", "pids.current"),
    ("pids_limit", "pids.max"),
    ("io", "io.stat"),
)

# The entries of memory.stat that are shown, whatever else the kernel has in it.
_HIERARCHY_V1 = (
    *("active_anon", "active_file", "cache", "dirty", "inactive_anon", "inactive_file", "mapped_file", "pgfault"),
    *("pgmajfault", "pgpgin", "pgpgout", "rss", "rss_huge", "unevictable", "writeback"),
)
MEMORY_V1 = tuple(
    sorted(
        (
            *_HIERARCHY_V1,
            *(f"total_{name}" for name in _HIERARCHY_V1),
            *("hierarchical_memory_limit", "hierarchical_memsw_limit"),
        )
    )
)
MEMORY_V2 = tuple(
    sorted(
        (
            *("active_anon", "active_file", "anon", "anon_thp", "file", "file_dirty", "file_mapped", "file_writeback"),
            *("inactive_anon", "inactive_file", "kernel_stack", "pgactivate", "pgdeactivate", "pgfault", "pglazyfree"),
            *("pglazyfreed", "pgmajfault", "pgrefill", "pgscan", "pgsteal", "shmem", "slab", "slab_reclaimable"),
            *("slab_unreclaimable", "sock", "thp_collapse_alloc", "thp_fault_alloc", "unevictable"),
            *("workingset_activate", "workingset_nodereclaim", "workingset_refault"),
        )
    )
)

IoEntry = tuple[int, int, str, int]
"""One count of a block device: major, minor, the operation (`Read`, `Write`, ...), and the number."""


@dataclass(slots=True)
class Counters:
    """The counters at one moment; times in nanoseconds, sizes in bytes.

    cpus: by processor, empty where the kernel does not say; memory_limit, pids_limit: UNLIMITED without a limit, 0
        where the controller is missing; memory: what is shown of memory.stat; io_bytes, io_counts: None where nothing
        is counted
    """

    cpu: int = 0
    cpus: list[int] = field(default_factory=list)
    cpu_kernel: int = 0
    cpu_user: int = 0
    periods: int = 0
    throttled_periods: int = 0
    throttled: int = 0
    memory_used: int = 0
    memory_max: int = 0
    memory_limit: int = 0
    memory_failures: int = 0
    memory: dict[str, int] = field(default_factory=dict)
    pids: int = 0
    pids_limit: int = 0
    io_bytes: list[IoEntry] | None = None
    io_counts: list[IoEntry] | None = None


def parse_v1(texts: dict[str, bytes]) -> Counters:
    """The counters from the files of version 1 by their keys in `_FILES_V1`; a file that the host does not have is
    empty.
    """
    times, throttling, memory = (named(texts[key]) for key in ("times", "throttling", "memory_stat"))
    cpus = [int(word) for word in texts["usage"].split()]
    return Counters(
        cpu=sum(cpus),
        cpus=cpus,
        cpu_kernel=times.get("system", 0) * _TICK_NS,
        cpu_user=times.get("user", 0) * _TICK_NS,
        periods=throttling.get("nr_periods", 0),
        throttled_periods=throttling.get("nr_throttled", 0),
        throttled=throttling.get("throttled_time", 0),
        memory_used=_number(texts["memory"]),
        memory_max=_number(texts["memory_max"]),
        memory_limit=_number(texts["memory_limit"]),
        memory_failures=_number(texts["memory_failures"]),
        memory={name: memory.get(name, 0) for name in MEMORY_V1} if memory else {},
        pids=_number(texts["pids"]),
        # Version 1's "max" is reported as no limit at all.
        pids_limit=_number(texts["pids_limit"]) % UNLIMITED,
        io_bytes=_devices_v1(texts["io_bytes"]),
        io_counts=_devices_v1(texts["io_counts"]),
    )


def parse_v2(texts: dict[str, bytes]) -> Counters:
    """The counters from the files of version 2 by their keys in `_FILES_V2`; a file that the host does not have is
    empty.
    """
    cpu, memory = named(texts["cpu"]), named(texts["memory_stat"])
    return Counters(
        cpu=cpu.get("usage_usec", 0) * 1000,
        cpu_kernel=cpu.get("system_usec", 0) * 1000,
        cpu_user=cpu.get("user_usec", 0) * 1000,
        periods=cpu.get("nr_periods", 0),
        throttled_periods=cpu.get("nr_throttled", 0),
        throttled=cpu.get("throttled_usec", 0) * 1000,
        memory_used=_number(texts["memory"]),
        memory_limit=_number(texts["memory_limit"]),
        memory_failures=named(texts["memory_events"]).get("oom", 0),
        memory=_memory_v2(memory),
        pids=_number(texts["pids"]),
        pids_limit=_number(texts["pids_limit"]),
        io_bytes=_devices_v2(texts["io"]),
    )


def named(text: bytes) -> dict[str, int]:
    """Lines `name value` as a dictionary; a value that is no number is passed over."""
    words = text.decode("ascii", "replace").split()
    return {name: int(value) for name, value in zip(words[::2], words[1::2], strict=False) if value.isdigit()}


def _number(text: bytes) -> int:
    word = text.strip()
    return UNLIMITED if word == b"max" else int(word) if word.isdigit() else 0


def _memory_v2(memory: dict[str, int]) -> dict[str, int]:
    if not memory:
        return {}
    # Since Linux 5.9 these are counted apart for memory with and without a file.
    for name in ("workingset_refault", "workingset_activate"):
        memory.setdefault(name, memory.get(f"{name}_anon", 0) + memory.get(f"{name}_file", 0))
    return {name: memory.get(name, 0) for name in MEMORY_V2}


def _devices_v1(text: bytes) -> list[IoEntry]:
    """Lines `8:0 Read 4096`; the last, `Total 4096`, is of no device."""
    entries = []
    for line in text.decode().splitlines():
        device, *rest = line.split()
        if len(rest) == 2 and ":" in device:
            major, _, minor = device.partition(":")
            entries.append((int(major), int(minor), rest[0], int(rest[1])))
    return entries


def _devices_v2(text: bytes) -> list[IoEntry] | None:
    """Lines `8:0 rbytes=4096 wbytes=0 rios=1 ...`; a device of which nothing is counted has no values at all."""
    entries: list[IoEntry] = []
    for line in text.decode().splitlines():
        device, *rest = line.split()
        major, _, minor = device.partition(":")
        counts = dict(word.split("=", 1) for word in rest if "=" in word)
        if counts:
            for operation, name in (("read", "rbytes"), ("write", "wbytes")):
                entries.append((int(major), int(minor), operation, int(counts.get(name, 0))))
    return entries or None


class Gone(Exception):
    """The cgroup, or the process, whose file was open does not exist any more."""


class Reader:
    """The counters of one container's run: its files, opened once (`keep`) or at each reading.

    Used by one thread at a time, and closed by the caller that made it. An open file does not keep its cgroup from
    being removed.
    """

    def __init__(self, cgroups: Cgroups, id: str, parent: str = PARENT, *, keep: bool) -> None:
        self._files = Files(_paths(cgroups, id, parent), keep=keep)
        self._parse = parse_v2 if cgroups.version == "2" else parse_v1

    def read(self) -> Counters:
        """The counters now. Raises Gone."""
        return self._parse(self._files.read())

    def close(self) -> None:
        """Close the files."""
        self._files.close()


def _paths(cgroups: Cgroups, id: str, parent: str) -> dict[str, str]:
    directories = cgroups.directories(id, parent)
    if cgroups.version == "2":
        return {key: f"{directories[0]}/{name}" for key, name in _FILES_V2}
    homes = {}
    for directory in directories:
        hierarchy = directory.removeprefix(f"{cgroups.root}/").partition("/")[0]
        homes.update(dict.fromkeys(hierarchy.split(","), directory))
    return {key: f"{homes[controller]}/{name}" if controller in homes else "" for key, controller, name in _FILES_V1}


class Files:
    """Small files of the kernel, each read whole, many times."""

    def __init__(self, paths: dict[str, str], *, keep: bool) -> None:
        """paths: by the keys under which `read` returns the texts; an empty path is an empty file."""
        self._paths = paths
        self._keep = keep
        self._open: dict[str, int] = {}

    def read(self) -> dict[str, bytes]:
        """The texts of all files; a missing file is empty.

        Raises Gone when all are missing, or an open one has gone.
        """
        texts = {}
        for key, path in self._paths.items():
            fd = self._open.get(key, -1)
            try:
                if fd >= 0:
                    texts[key] = _whole(fd)
                    continue
                texts[key] = b""
                if path:
                    fd = self._opened(key, path)
                    texts[key] = _whole(fd)
            except FileNotFoundError:
                self._paths[key] = ""  # not on this host
            except OSError as error:
                if error.errno not in _GONE:
                    raise
                raise Gone(f"{path}: {error.strerror}") from error
            finally:
                if fd >= 0 and not self._keep:
                    os.close(fd)
        if not any(self._paths.values()):
            raise Gone("none of its files exists")
        return texts

    def _opened(self, key: str, path: str) -> int:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        if self._keep:
            self._open[key] = fd
        return fd

    def close(self) -> None:
        """Close the files."""
        while self._open:
            os.close(self._open.popitem()[1])


def _whole(fd: int) -> bytes:
    data = more = os.pread(fd, _LARGEST, 0)
    while len(more) >= _SHORT and (more := os.pread(fd, _LARGEST, len(data))):
        data += more
    return data
