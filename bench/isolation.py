"""Runs a program, and all that it starts, in network, mount and PID namespaces of its own, and ends all of it without a
trace.

Used in the benchmarks' own process, by means of util-linux's unshare(1). The machine's network, mounts and /run stay as
they are. A daemon that leaves children behind loses them with process 1 of its namespace. A process in that PID
namespace belongs to the engine, one in a namespace below it to a container. This module must never signal a process
that it did not start.
"""

import contextlib
import errno
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
ENGINES = "engine"  # the cgroup in which this engine keeps those of its containers

# crun 1.8 and podman 4.3 refuse a host that has cgroup v1 and a v2 hierarchy beside it, so the latter is unmounted for
# all engines. Process 1 is a shell because a daemon does not reap orphans; dash does while it waits. The shell prints
# "ready" when the namespaces are made: from then on a start may be timed.
_LAUNCH = """
set -e
ip link set lo up
if [ -f /sys/fs/cgroup/unified/cgroup.procs ] && [ -d /sys/fs/cgroup/memory ]; then umount /sys/fs/cgroup/unified; fi
for directory in $BENCH_HIDDEN; do
    if [ -d "$directory" ]; then mount -t tmpfs -o mode=755 tmpfs "$directory"; fi
done
set +e
echo ready
exec >&2
"$@" &
wait $!
"""

_UNSHARE = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


class Isolated:
    """A program in namespaces of its own; a context manager that ends it with everything that it started.

    argv:        the program and its arguments
    environment: added to this process's own
    hidden:      directories that the program is to see empty (a tmpfs over each that exists)
    log:         the file that takes its standard output and error
    descriptors: descriptors that the program inherits, under the same numbers
    directory:   its working directory
    `pid` is process 1 of the namespaces, in this process's numbers; None if the program has ended already.
    Raises OSError with the tools' messages when the namespaces cannot be made.
    """

    def __init__(
        self,
        argv: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
        hidden: Sequence[str] = ("/run",),
        descriptors: Sequence[int] = (),
        directory: Path | None = None,
    ) -> None:
        self.log = log
        self._cgroups = _cgroup_directories()
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                # If the benchmark is killed, the program dies too: the death signal survives execve.
                ["setpriv", "--pdeathsig", "KILL", "--", *_UNSHARE, "sh", "-c", _LAUNCH, "sh", *argv],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=output,
                env={**os.environ, **(environment or {}), "BENCH_HIDDEN": " ".join(hidden)},
                pass_fds=tuple(descriptors),
                cwd=directory,
            )
        assert self._process.stdout is not None
        with self._process.stdout as started:
            line = started.readline()
        if line != b"ready\n":
            self._process.wait()
            raise OSError(f"no namespaces for {argv[0]}: {self.tail()}")
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        # None: the program has ended meanwhile, and its namespace with it.
        self.pid = int(children[0]) if children else None

    def __enter__(self) -> "Isolated":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def ended(self) -> bool:
        """True when the program has ended by itself."""
        return self._process.poll() is not None

    def wait(self) -> None:
        """Wait until the program has ended by itself."""
        self._process.wait()

    def tail(self, lines: int = 5) -> str:
        """The last lines of the program's output, for error messages."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def members(self) -> list[int]:
        """The processes of the namespace itself, without the shell that is process 1 and without the containers'
        processes.
        """
        if self.pid is None or self.ended:
            return []
        namespace = os.readlink(f"/proc/{self.pid}/ns/pid")
        return [pid for pid, its in _pid_namespaces() if its == namespace and pid != self.pid]

    def prepared(self) -> list[int]:
        """The children of members that have a PID namespace of their own and still execute the member's program: an
        engine's own processes, which wait to become containers.
        """
        members = {pid: _program(pid) for pid in self.members()}
        return [
            child
            for pid, program in members.items()
            for child in _children(pid)
            if child not in members and program is not None and _program(child) == program
        ]

    def close(self) -> None:
        """Kill process 1 and wait until the kernel has ended and reaped every other process of the namespace."""
        if self.pid is not None and self._process.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
        self._process.wait()
        for directory in sorted(_cgroup_directories() - self._cgroups, reverse=True):
            _remove_cgroup(directory)


def _pid_namespaces() -> Iterator[tuple[int, str]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            # A process may end between the listing and the look. A process that may not be looked at is none of ours.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
                yield int(entry.name), os.readlink(entry / "ns/pid")


def _children(pid: int) -> list[int]:
    """A process's children, those of all its threads; none when it has ended."""
    found: list[int] = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found.extend(map(int, (task / "children").read_text().split()))
    return found


def _program(pid: int) -> tuple[int, int] | None:
    """Device and inode of the program that a process executes; None when it has ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        found = os.stat(f"/proc/{pid}/exe")
        return found.st_dev, found.st_ino
    return None


def _cgroup_directories() -> set[Path]:
    """The topmost cgroups of every hierarchy, without this engine's: it removes its own, and other instances may be
    running.
    """
    hierarchies = [CGROUPS] if (CGROUPS / "cgroup.procs").exists() else list(CGROUPS.glob("*/"))
    return {child for hierarchy in hierarchies for child in hierarchy.glob("*/") if child.name != ENGINES}


def _remove_cgroup(directory: Path) -> None:
    """Remove a cgroup and those below it; one that another process uses stays (EBUSY), or is gone already (ENOENT)."""
    for path, _, _ in os.walk(directory, topdown=False):
        with contextlib.suppress(FileNotFoundError):
            try:
                os.rmdir(path)
            except OSError as error:
                if error.errno != errno.EBUSY:
                    raise
