"""Measures the memory of a set of processes: proportional set size, distinct pages, the peak while a block runs, and
what a cgroup of their own is charged for.

Run in the benchmarks' process as root; it only reads, but for that cgroup. The measures, in bytes:
- proportional set size (PSS): a page that n processes map counts 1/n to each, so a sum over processes counts a page
  once (proc_pid_smaps(5)). Other processes on the machine, say another program of the same interpreter, make it
  smaller.
- distinct pages: what the processes have resident when no other process shares it, the most that PSS can become.
- charged: what the processes have allocated and the kernel still keeps, also where none of them has it resident: a file
  of memory counts as long as one process maps it.
- available: what the kernel would give to a new program (MemAvailable), which whatever else runs there changes too.
"""

import contextlib
import mmap
import os
import threading
from array import array
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

# One 64-bit word a page (admin-guide/mm/pagemap.rst): bit 63 present, bits 0-54 the frame number.
_WORD = 8
_PRESENT = 1 << 63
_FRAME = (1 << 55) - 1


def parse_pss(smaps_rollup: str) -> int:
    """The PSS in bytes from the text of a /proc/PID/smaps_rollup; 0 for a process without memory (a zombie)."""
    for line in smaps_rollup.splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def pss(pids: Iterable[int]) -> int:
    """The PSS of the processes together, in bytes; a process that has ended meanwhile counts nothing."""
    total = 0
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            total += parse_pss(Path(f"/proc/{pid}/smaps_rollup").read_text())
    return total


class Most:
    """Measures the peak PSS that processes have together while the `with` block runs; `value` in bytes after it.

    A thread reads it again and again, which costs the block some time: do not time a block that is measured so.
    pids: returns the processes, called anew each time
    """

    INTERVAL = 0.01

    def __init__(self, pids: Callable[[], Iterable[int]]) -> None:
        self.value = 0
        self._pids = pids
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> "Most":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        last = False
        while not last:
            last = self._ended.wait(self.INTERVAL)
            self.value = max(self.value, pss(self._pids()))


class Cgroup:
    """A memory cgroup of the processes and of what they start, while the `with` block runs. Only what they allocate
    from then on is charged to it.
    """

    # By the version's hierarchy, what counts in memory.stat.
    _KINDS = (
        (Path("/sys/fs/cgroup/memory"), ("total_rss", "total_shmem")),
        (Path("/sys/fs/cgroup"), ("anon", "shmem")),
    )

    def __init__(self, pids: Callable[[], Iterable[int]]) -> None:
        self._pids = pids
        self._root, self._kinds = next(each for each in self._KINDS if (each[0] / "cgroup.procs").exists())
        self._path = self._root / f"bench-{os.getpid()}"

    def __enter__(self) -> "Cgroup":
        control = self._root / "cgroup.subtree_control"
        if control.exists():
            control.write_text("+memory")
        self._path.mkdir()
        for pid in self._pids():
            (self._path / "cgroup.procs").write_text(str(pid))
        return self

    def __exit__(self, *_: object) -> None:
        for pid in (self._path / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                (self._root / "cgroup.procs").write_text(pid)
        self._path.rmdir()

    def charged(self) -> int:
        """Anonymous memory and files of memory, in bytes."""
        rows = (line.split() for line in (self._path / "memory.stat").read_text().splitlines())
        return sum(int(value) for name, value in rows if name in self._kinds)


def available() -> int:
    """MemAvailable of proc_meminfo(5), in bytes."""
    rows = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return int(rows["MemAvailable"].split()[0]) * 1024


def parse_maps(maps: str) -> Iterator[tuple[int, int]]:
    """The address ranges in the text of a /proc/PID/maps, without the kernel's own page (vsyscall)."""
    for line in maps.splitlines():
        if not line.endswith("[vsyscall]"):
            first, _, last = line.split()[0].partition("-")
            yield int(first, 16), int(last, 16)


def distinct(pids: Iterable[int]) -> int:
    """The bytes of all page frames that at least one of the processes maps; a process that has ended counts nothing."""
    frames: set[int] = set()
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            frames.update(_frames(pid))
    return len(frames) * mmap.PAGESIZE


def _frames(pid: int) -> Iterator[int]:
    ranges = list(parse_maps(Path(f"/proc/{pid}/maps").read_text()))
    table = os.open(f"/proc/{pid}/pagemap", os.O_RDONLY)
    try:
        for first, last in ranges:
            for word in _resident(table, first // mmap.PAGESIZE, last // mmap.PAGESIZE):
                yield word & _FRAME
    finally:
        os.close(table)


def _resident(table: int, first: int, last: int) -> Iterator[int]:
    """The words of the present pages in a range, read in pieces because a Go program reserves gigabytes."""
    step = 1 << 16
    empty = bytes(step * _WORD)
    for page in range(first, last, step):
        size = min(step, last - page) * _WORD
        data = os.pread(table, size, page * _WORD)
        if data != empty[: len(data)]:
            yield from (word for word in array("Q", data) if word & _PRESENT)
