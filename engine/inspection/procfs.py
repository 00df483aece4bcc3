"""One process as /proc shows it: what it is called, how old and how large it is, what it has open, what it waits for.

Reads only, waits for nobody, and asks no process: what is stuck can be looked at like all else (proc(5)). Processes
come and go meanwhile, so whatever is gone is None or empty.
"""

import os
import re
from collections import Counter

from engine.dataclass import dataclass

_OURS = re.compile(r"engine [a-z]+")
_LOG = re.compile(r"/containers/[0-9a-f]{64}/.*log")
# What a link of /proc/PID/fd begins with, and what is said of it; the first that fits.
_KINDS = (
    ("socket:", "sockets"),
    ("pipe:", "pipes"),
    ("pidfd:", "pidfds"),
    ("anon_inode:[pidfd]", "pidfds"),
    ("anon_inode:", "events"),
    ("/memfd:", "memory files"),
    ("/dev/pts", "terminals"),
    ("/dev/ptmx", "terminals"),
    ("/ptmx", "terminals"),
    ("/dev/", "devices"),
    *((f"{name}:[", "namespaces") for name in ("mnt", "net", "pid", "uts", "ipc", "user", "cgroup")),
)
_TICKS = os.sysconf("SC_CLK_TCK")
_MOST = 1 << 20


@dataclass(frozen=True, slots=True)
class Brief:
    """What is looked at of every process of the host.

    line: its command line in one piece; start: when it started, in clock ticks since boot
    """

    pid: int
    parent: int
    name: str
    line: str
    state: str
    start: int

    @property
    def kind(self) -> str:
        """What part of an engine it is (`monitor`, ...), as `engine.kernel.title` has named it; empty: none."""
        return self.name.removeprefix("engine ") if _OURS.fullmatch(self.name) else ""

    @property
    def of(self) -> str:
        """What stands behind its kind on its command line: the first digits of a container's id."""
        head = f"{self.name} "
        return self.line.removeprefix(head) if self.kind and self.line.startswith(head) else ""


@dataclass(frozen=True, slots=True)
class Holding:
    """What one process holds. pss: bytes, its share of what it shares; waits: where in the kernel its threads are."""

    pss: int
    threads: int
    descriptors: Counter[str]
    waits: Counter[str]


def all_briefs() -> dict[int, Brief]:
    """Every process of the host, by its pid."""
    found = (brief(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {each.pid: each for each in found if each is not None}


def brief(pid: int) -> Brief | None:
    """One process; None when it is gone."""
    stat = _read(f"/proc/{pid}/stat")
    head, _, rest = stat.rpartition(")")
    if not head:
        return None
    fields = rest.split()
    line = _read(f"/proc/{pid}/cmdline").replace("\0", " ").strip()
    return Brief(pid, int(fields[1]), head.partition("(")[2], line, fields[0], int(fields[19]))


def age(start: int) -> float:
    """Seconds since a process has started, from its clock ticks."""
    return max(0.0, float(_read("/proc/uptime").split()[0]) - start / _TICKS)


def links(pid: int) -> list[str]:
    """Where the descriptors of a process lead."""
    found = []
    for name in _list(f"/proc/{pid}/fd"):
        try:
            found.append(os.readlink(f"/proc/{pid}/fd/{name}"))
        except OSError:  # it was closed meanwhile, or the process has ended
            continue
    return found


def holding(pid: int) -> Holding:
    """What a process holds."""
    rollup = re.search(r"^Pss:\s+(\d+) kB", _read(f"/proc/{pid}/smaps_rollup"), re.MULTILINE)
    tasks = _list(f"/proc/{pid}/task")
    return Holding(
        int(rollup[1]) * 1024 if rollup else 0,
        len(tasks),
        Counter(kind(link) for link in links(pid)),
        Counter(_waits(f"/proc/{pid}/task/{task}") for task in tasks),
    )


def kind(link: str) -> str:
    """What sort of thing a descriptor leads to, by its link."""
    if _LOG.search(link):
        return "logs"
    return next((said for head, said in _KINDS if link.startswith(head)), "files")


def _waits(task: str) -> str:
    """The kernel's function in which a thread sleeps; else its state (R runs, D waits for a disk, T is stopped)."""
    place = _read(f"{task}/wchan")
    if place not in ("", "0"):
        return place
    return f"state {_read(f'{task}/stat').rpartition(')')[2].strip()[:1] or 'unknown'}"


def _read(path: str) -> str:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read(_MOST).decode("utf-8", "replace")
    except OSError:  # ENOENT, ESRCH: it is gone; EACCES: another user's, for one who is not root
        return ""


def _list(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:  # as above
        return []
