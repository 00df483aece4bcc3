"""List a container's processes as `docker top` does, without a `ps` in the image or on the host.

Runs in the API's threads. The processes are those of the container's cgroup and of the cgroups below it; on a host
without cgroups they are those of its PID namespace. Their data is read from the daemon's own /proc, so that the pids
are the host's. Nothing runs inside the container. The runtime is asked for those of a container with a kernel of its
own.
"""

import errno
import os
import time

from engine.daemon.containers.announce import announce
from engine.daemon.containers.record import Container
from engine.daemon.containers.security import cgroupparent
from engine.daemon.containers.top import psargs
from engine.daemon.containers.top.psfields import FIELDS, Moment, Process
from engine.daemon.parts import CgroupPart, ProcessListParts
from engine.errors import Conflict, NotBuilt, SystemFailure
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded for containers of other runtimes
    from engine.daemon.containers.security import apart, runtimecommands
else:
    apart = late("engine.daemon.containers.security.apart")
    runtimecommands = late("engine.daemon.containers.security.runtimecommands")

_MOST_CGROUPS = 10_000
_TOLD = ("stat", "status", "cmdline", "wchan")  # files of a process in /proc
_USUAL = "-ef"
_NO_PID = "Couldn't find PID field in ps output"


def top(engine: ProcessListParts, container: Container, arguments: str) -> tuple[list[str], list[list[str]]]:
    """(titles, processes) for the arguments of ps.

    Raises Conflict when the container does not run, SystemFailure for invalid arguments.
    """
    wanted = psargs.parse(arguments)
    status = container.snapshot()
    if not status.running:
        raise Conflict(f"container {container.id} is not running")
    if status.status == "restarting":
        raise Conflict(f"Container {container.id} is restarting, wait until the container is running")
    if runtime := apart.of(engine, container):
        return _of_runtime(engine, container, runtime, arguments)
    titles = [each.header for each in wanted.columns if each.header.strip()]
    if not wanted.headers or "PID" not in titles:
        raise SystemFailure(_NO_PID)
    here = engine.cgroups.holds_processes
    processes = _look(pids_of(engine, container) if here else _pids_of_namespace(status.pid))
    for name, largest_first in reversed(wanted.sort):
        processes.sort(key=FIELDS[name].value, reverse=largest_first)
    branches = [""] * len(processes)
    if wanted.forest:
        processes, branches = grown(processes, wanted.forest)
    rows = []
    for process, branch in zip(processes, branches, strict=True):
        cells = [each.cell(process) for each in wanted.columns]
        cells[-1] = " ".join(f"{branch}{cells[-1]}".split())  # white space joined, as docker parses it
        rows.append(cells)
    announce(engine, container, "top")
    return titles, rows if len(titles) == len(wanted.columns) else [_joined(row, len(titles)) for row in rows]


def _of_runtime(
    engine: ProcessListParts, container: Container, runtime: tuple[str, ...], arguments: str
) -> tuple[list[str], list[list[str]]]:
    """What the runtime of a container that has a kernel of its own says, whose pids are the container's."""
    if arguments not in ("", _USUAL):
        raise NotBuilt(f"only ps {_USUAL} is built for a container of a runtime with a kernel of its own")
    lines = runtimecommands.call(runtime, "ps").decode("utf-8", "replace").splitlines()
    titles, *rows = [line.split() for line in lines if line.strip()] or [[]]
    announce(engine, container, "top")
    return titles, [_joined(row, len(titles)) for row in rows]


def _joined(row: list[str], count: int) -> list[str]:
    """A row with more cells than titles, as docker parses it: the surplus goes into the last cell."""
    words = " ".join(row).split()
    return [*words[: count - 1], " ".join(words[count - 1 :])]


def pids_of(engine: CgroupPart, container: Container) -> list[int]:
    """The pids of the container's cgroup and of all cgroups below it, in order."""
    found: set[int] = set()
    waiting = list(engine.cgroups.directories(container.id, cgroupparent.of(container))[:1])
    for _ in range(_MOST_CGROUPS):
        if not waiting:
            break
        directory = waiting.pop()
        try:
            with open(f"{directory}/cgroup.procs", "rb", buffering=0) as file:
                found.update(int(word) for word in (file.readall() or b"").split())
        except FileNotFoundError:
            continue  # the cgroup was removed meanwhile
        except OSError as error:
            # EOPNOTSUPP: the processes of a threaded cgroup are listed above it.
            if error.errno not in (errno.EOPNOTSUPP, errno.ENODEV):
                raise
        waiting += _below(directory)
    return sorted(found)


def _pids_of_namespace(first: int) -> list[int]:
    """The pids in the PID namespace of a process, in order, without those in namespaces below it.

    For a host without cgroups, where each container has a PID namespace of its own.
    """
    try:
        wanted = os.stat(f"/proc/{first}/ns/pid")
    except (FileNotFoundError, ProcessLookupError):
        return []  # it has just ended
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdecimal() and os.path.samestat(os.stat(f"/proc/{name}/ns/pid"), wanted):
                found.append(int(name))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # it has ended, or has more rights than this daemon, as no process of a container can have
    return sorted(found)


def _below(directory: str) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []


def _look(pids: list[int]) -> list[Process]:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 1024
    (boot,) = (int(line.split()[1]) for line in _read("/proc/stat").splitlines() if line.startswith(b"btime "))
    moment = Moment(boot, time.clock_gettime(time.CLOCK_BOOTTIME), memory)
    processes = []
    for pid in pids:
        try:
            stat, status, cmdline, wchan = (_read(f"/proc/{pid}/{name}") for name in _TOLD)
        except (FileNotFoundError, ProcessLookupError):
            continue  # the process has ended meanwhile
        processes.append(Process(stat, status, cmdline, wchan, moment))
    return processes


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.readall() or b""


def grown(processes: list[Process], mark: str) -> tuple[list[Process], list[str]]:
    """The processes as a tree, each parent before its children, and the branch that stands before each command."""
    known = {process.pid for process in processes}
    children: dict[int, list[Process]] = {}
    for process in processes:
        children.setdefault(process.ppid if process.ppid in known else 0, []).append(process)
    ordered, branches = [], []
    waiting = [(process, "", "") for process in reversed(children.get(0, []))]
    while waiting:
        process, branch, below = waiting.pop()
        ordered.append(process)
        branches.append(branch)
        others = children.get(process.pid, [])
        for number, child in enumerate(reversed(others)):
            line = "   " if number == 0 else "|  "  # the last child has nothing beneath it
            waiting.append((child, f"{below}{mark}", f"{below}{line}"))
    return ordered, branches
