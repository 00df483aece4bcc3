"""What a test run must not leave behind, found by looking at the kernel's own tables before and after.

Run by the test process at the start and the end of a session. Processes are known by a token in their environment (the
daemon, spawner and monitors inherit it) or by a mount from the test's directory (the containers), never by name: other
engines may run on the machine.
"""

import contextlib
import errno
import glob
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tests.harness.namespaces import Namespaces
from tests.harness.pace import patient

TOKEN_VARIABLE = "ENGINE_TEST_SESSION"
GRACE_SECONDS = 30.0
# The device of a default network stays with its data root, as docker0 does.
DEFAULT_DEVICE = re.compile(r"engine\d+")
# What the text of a table says: the devices, and the host's ports that lead somewhere.
NAMED = re.compile(r'"((?:br-|veth|engine)[^"*]+)"')
PUBLISHED = re.compile(r"\b(?:tcp|udp|sctp) \. (?:\S+ \. )?(\d+) : ")
_TABLE = re.compile(r"table \w+ (engine-\w+) \{")
CGROUP_PATTERNS = ("/sys/fs/cgroup/engine/*/", "/sys/fs/cgroup/*/engine/*/")


def read(path: str) -> bytes:
    """A file of /proc or of a cgroup; empty when its process or the group is gone or not ours to look at."""
    try:
        with open(path, "rb") as source:
            return source.read()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENODEV):  # the mountinfo of a process that is ending; a removed cgroup
            return b""
        raise


def processes(token: str, root: Path, spared: set[int]) -> Iterator[tuple[int, str]]:
    """The processes of this session, other than those in `spared`, each with its command line."""
    mark = f"{TOKEN_VARIABLE}={token}".encode()
    for entry in glob.glob("/proc/[0-9]*"):
        pid = int(entry[6:])
        environment = read(f"{entry}/environ").split(b"\0")
        ours = mark in environment or str(root).encode() in read(f"{entry}/mountinfo")
        if not ours or pid in spared:
            continue
        command = read(f"{entry}/cmdline").replace(b"\0", b" ").decode(errors="replace").strip()
        if command or b"State:\tZ" not in read(f"{entry}/status"):
            yield pid, command or "(no command line)"


def mounts(root: Path) -> Iterator[str]:
    """Mounts below the test's directory in this process's mount namespace."""
    for line in read("/proc/self/mountinfo").decode().splitlines():
        if line.split()[4].startswith(str(root)):
            yield f"mount {line.split()[4]}"


def link(path: str) -> str:
    """Where a link of /proc leads; empty when it is gone."""
    try:
        return os.readlink(path)
    except FileNotFoundError:
        return ""


def all_cgroups() -> list[str]:
    """The cgroups below the engine's parents, of all engines on the machine."""
    return [path for pattern in CGROUP_PATTERNS for path in glob.glob(pattern)]


def cgroups_of(container: str) -> list[str]:
    """A container's cgroups, wherever they are and whoever made them."""
    found = glob.glob("/sys/fs/cgroup/**/", recursive=True)
    return [path for path in found if container in os.path.basename(path.rstrip("/"))]


def cgroups() -> set[str]:
    """Those that hold no process: what an ended container left."""
    return {
        path
        for path in all_cgroups()
        if not any(read(member) for member in glob.glob(f"{path}**/cgroup.procs", recursive=True))
    }


def tables(machine: Namespaces) -> dict[str, str]:
    """The text of each nf_tables table that an engine has made there, by its name."""
    command = machine.command(["nft", "list", "ruleset"])
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    parts = re.split(r"^(?=table )", shown.stdout, flags=re.MULTILINE)
    return {found[1]: part for part in parts if (found := _TABLE.match(part))}


def leftovers(machine: Namespaces) -> Iterator[str]:
    """What the tables of a machine say of networks and ports that cannot be there any more."""
    for name, text in tables(machine).items():
        for device in sorted(set(NAMED.findall(text))):
            if not DEFAULT_DEVICE.fullmatch(device):
                yield f"table {name} speaks of {device}"
        for port in sorted(set(PUBLISHED.findall(text))):
            yield f"table {name} speaks of port {port}"


def remains(machine: Namespaces, before: Iterable[str] = ("lo",)) -> list[str]:
    """What engines have left in a machine's network when nothing of theirs lives there. before: the machine's links"""
    more = sorted(name for name in machine.links() - set(before) if not DEFAULT_DEVICE.fullmatch(name))
    found = [f"link {name} in the daemon's network" for name in more]
    return found + (list(leftovers(machine)) if shutil.which("nft") else [])


def settled(look: Callable[[], list[str]]) -> list[str]:
    """What is still found after a moment of grace, in which what is dying may go."""
    end = time.monotonic() + patient(GRACE_SECONDS)
    while (found := look()) and time.monotonic() < end:
        time.sleep(0.05)  # other processes' ends, of which we know no descriptor to wait on
    return found


class Watch:
    """The tables as they were; `leaks` says what has been added to them."""

    def __init__(self, token: str, root: Path) -> None:
        self.token = token
        self.root = root
        self.cgroups = cgroups()
        self.netns = set(os.listdir("/run/netns")) if os.path.isdir("/run/netns") else set()
        self.inside: list[tuple[Namespaces, set[str], set[str]]] = []

    def add(self, namespaces: Namespaces) -> None:
        """Watch the links and mounts of these namespaces too."""
        self.inside.append((namespaces, namespaces.links(), namespaces.mounts()))

    def processes(self) -> Iterator[tuple[int, str]]:
        """The session's processes, but for this one and those that keep its namespaces."""
        return processes(self.token, self.root, {os.getpid(), *(each.keeper.pid for each, _, _ in self.inside)})

    def empty_cgroups(self) -> list[str]:
        """The cgroups that this session's containers have left."""
        return [path for path in sorted(cgroups() - self.cgroups) if self.knows(Path(path).name)]

    def found(self) -> list[str]:
        """What there is now that was not there at the start."""
        found = [f"process {pid}: {command}" for pid, command in self.processes()]
        found += mounts(self.root)
        found += [f"empty cgroup {path}" for path in self.empty_cgroups()]
        now = set(os.listdir("/run/netns")) if os.path.isdir("/run/netns") else set()
        found += [f"network namespace {name}" for name in sorted(now - self.netns)]
        for namespaces, links, points in self.inside:
            found += remains(namespaces, links)
            found += [f"mount {path} in the daemon's namespace" for path in sorted(namespaces.mounts() - points)]
        return found

    def knows(self, container: str) -> bool:
        """Whether one of this session's daemons has written this id: other engines may run on the machine."""
        files = (path for pattern in ("*/log", "*/data/*") for path in self.root.glob(pattern) if path.is_file())
        return any(container.encode() in path.read_bytes() for path in files)

    def leaks(self) -> list[str]:
        """What is still there after a moment of grace, in which dying processes may go."""
        return settled(self.found)

    def end(self) -> None:
        """Kill the processes that are left, and remove their cgroups: after a failure nothing of the session stays."""
        end = time.monotonic() + patient(GRACE_SECONDS)
        while (left := list(self.processes())) and time.monotonic() < end:
            for pid, _ in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)  # one of them may have forked meanwhile
        for path in self.empty_cgroups():
            os.rmdir(path)
