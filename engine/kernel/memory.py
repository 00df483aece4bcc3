"""Makes glibc's malloc give freed memory back to the kernel (malloc_trim), and keep one heap for all threads (mallopt);
and reads how much memory there is.

Runs in the long-lived processes. The first two functions do nothing where the C library has no such call: musl keeps
little freed memory anyway.
"""

import contextlib
import ctypes
import os
from collections.abc import Iterator

_LIBRARY = ctypes.CDLL(None)
_M_ARENA_MAX = -8  # malloc.h of glibc
_PAGE = os.sysconf("SC_PAGE_SIZE")


def one_arena() -> None:
    """Have all threads allocate from one heap (mallopt(3)); call it before there are other threads.

    glibc gives threads heaps of their own, and `trim` does not give back the end of those, which is megabytes each. One
    heap causes no waits: nearly all threads that allocate hold the interpreter's lock.
    """
    option = getattr(_LIBRARY, "mallopt", None)
    if option is not None:
        option(_M_ARENA_MAX, 1)


def trim() -> None:
    """Give free memory back to the kernel (malloc_trim(3)). It takes about a millisecond, in which allocating threads
    wait.
    """
    release = getattr(_LIBRARY, "malloc_trim", None)
    if release is not None:
        release(0)


def kills() -> int:
    """How many processes the kernel has killed since the boot for want of memory, the host's or a cgroup's."""
    with open("/proc/vmstat") as file:
        return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)


def room() -> tuple[int, int]:
    """The bytes that this process and its like may have, and how many of them others use, without what can be freed.

    The least limit of the memory cgroups that it is in; the host's memory where there is none, or none can be seen.
    """
    with open("/proc/self/statm") as file:
        _, resident, shared, *_ = map(int, file.read().split())
    own = (resident - shared) * _PAGE
    with open("/proc/meminfo") as file:
        host = {name: int(rest.split()[0]) << 10 for name, _, rest in (line.partition(":") for line in file)}
    found = [(host["MemTotal"], host["MemTotal"] - host["MemAvailable"])]
    for directory, limit, kinds in _cgroups():
        with contextlib.suppress(OSError, ValueError):  # without the controller, or outside of what is mounted here
            most = int(_read(f"{directory}/{limit}"))
            stat = dict(line.split() for line in _read(f"{directory}/memory.stat").splitlines())
            found.append((most, sum(int(stat[kind]) for kind in kinds)))
    most, used = min(found)
    return most, max(used - own, 0)


def _cgroups() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Each memory cgroup that this process is in, up to the topmost: directory, name of the limit, what is counted."""
    for line in _read("/proc/self/cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            root, names = "/sys/fs/cgroup/memory", ("memory.limit_in_bytes", ("total_rss", "total_shmem"))
        elif number == "0":
            root, names = "/sys/fs/cgroup", ("memory.max", ("anon", "shmem"))
        else:
            continue
        while path != "/":
            yield root + path, *names
            path = os.path.dirname(path)


def _read(path: str) -> str:
    with open(path) as file:
        return file.read()
