"""What an engine weighs: memory, descriptors and threads of its own processes, and what the kernel holds beside them.

Read from /proc by the test's process, of one daemon and its spawner; never of another engine's.
"""

import glob
import os
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.killing import children
from tests.harness.daemon import Daemon


@dataclass(frozen=True)
class Weight:
    """At one moment. memory: bytes (PSS) of daemon and spawner; descriptors, threads: of the daemon.

    slab: kilobytes of the kernel's own objects, all of the machine's; namespaces: of networks, with a process in them
    cgroups: directories below the engine's parents
    """

    memory: int
    descriptors: int
    threads: int
    slab: int
    namespaces: int
    cgroups: int


def weigh(daemon: Daemon) -> Weight:
    """Of a daemon that is idle."""
    return Weight(
        memory=sum(pss(pid) for pid in (daemon.pid, *children(daemon.pid))),
        descriptors=len(os.listdir(f"/proc/{daemon.pid}/fd")),
        threads=len(os.listdir(f"/proc/{daemon.pid}/task")),
        slab=slab(),
        namespaces=len(network_namespaces()),
        cgroups=len(glob.glob("/sys/fs/cgroup/*/engine/*/")),
    )


def pss(pid: int) -> int:
    """A process's memory in bytes, shared pages by their share (proc(5))."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def slab() -> int:
    """Kilobytes of the kernel's objects that it cannot give back at will (proc(5))."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("SUnreclaim:"))


def network_namespaces() -> set[str]:
    """Those that some process is in."""
    found = set()
    for path in glob.glob("/proc/[0-9]*/ns/net"):
        try:
            found.add(os.readlink(path))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            pass  # it has ended, or is not ours to look at
    return found
