"""A daemon whose processes are killed at random while others ask it, and the record of who was killed when.

`Killer` runs in the test's main thread and is the only one that kills and starts; the clients' threads read its record,
to know what they may blame on a kill. A kill is written down before it is done, so that nobody meets one that is not.
"""

import os
import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path

from tests.harness.daemon import Daemon
from tests.harness.descriptors import open_links

RESOLVER, PROXY = "resolver.sock", "proxy.sock"
# What is killed, and how often beside the others.
KINDS = {"daemon": 10, "spawner": 3, "monitor": 5, "exec": 2, "resolver": 2, "proxy": 2, "daemon and spawner": 2}


class Record:
    """Who was killed; shared by the killer and the clients.

    daemons: deaths and returns of the daemon, so it is odd from just before a kill until the next daemon answers
    spawners, resolvers, proxys, execs: how many were killed so far
    bereft: ids of containers whose monitor was killed; spared: ids of those whose monitor must not be
    """

    def __init__(self) -> None:
        self.daemons = self.spawners = self.resolvers = self.proxys = self.execs = 0
        self.bereft: set[str] = set()
        self.spared: set[str] = set()
        self.lock = threading.Lock()

    @property
    def moment(self) -> tuple[int, ...]:
        """Changes with each kill but a monitor's."""
        return self.daemons, self.spawners, self.resolvers, self.proxys, self.execs

    def daemon_lived(self, since: int) -> bool:
        """Whether one daemon was there from then, when `daemons` was that, until now."""
        return self.daemons == since and not since % 2


class Killer:
    """Kills processes of one daemon, and starts the daemon again whenever it was killed."""

    def __init__(self, daemon: Daemon, source: random.Random) -> None:
        self.daemon = daemon
        self.record = Record()
        self.kills: Counter[str] = Counter()
        self._source = source

    def strike(self) -> None:
        """One kill of a random kind; one that finds nobody to kill is none."""
        (kind,) = self._source.choices(list(KINDS), list(KINDS.values()))
        if kind == "daemon":
            self._daemon()
        elif kind == "daemon and spawner":
            self._kill("spawner", self.spawner())
            self._daemon()
        elif kind == "monitor":
            self._monitor()
        elif kind == "exec":
            self._kill("exec", self._one_of(self._execs()))
        elif kind == "spawner":
            self._kill(kind, self.spawner())
        else:
            self._kill(kind, self._one_of(self.listeners(PROXY if kind == "proxy" else RESOLVER)))

    def _daemon(self) -> None:
        self.record.daemons += 1
        self.daemon.kill9()
        self.kills["daemon"] += 1
        time.sleep(self._source.choice((0, 0, 0.1, 0.4)))
        self.daemon.start()
        self.record.daemons += 1

    def _monitor(self) -> None:
        container, monitor = self._one_of(list(self.monitors().items())) or ("", None)
        with self.record.lock:
            if monitor is None or container in self.record.spared:
                return
            self.record.bereft.add(container)
        self._kill("monitor", monitor)

    def _one_of(self, those: list) -> object:
        return self._source.choice(sorted(those)) if those else None

    def _kill(self, kind: str, pid: int | None) -> None:
        if pid is None:
            return
        if kind != "monitor":
            setattr(self.record, f"{kind}s", getattr(self.record, f"{kind}s") + 1)
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return  # it has just ended by itself
        self.kills[kind] += 1

    def spawner(self) -> int | None:
        """The daemon's only child."""
        return next(iter(children(self.daemon.pid)), None)

    def monitors(self) -> dict[int, int]:
        """Containers that run, each with the process that keeps it: process 1's parent."""
        found = {}
        for container in self.daemon.request("GET", "/containers/json", checked=False).json():
            state = self.daemon.request("GET", f"/containers/{container['Id']}/json", checked=False)
            pid = state.json()["State"]["Pid"] if state.status == 200 else 0
            parent = parent_of(pid) if pid else 0
            if parent > 1:
                found[container["Id"]] = parent
        return found

    def _execs(self) -> list[int]:
        """The monitors of execs: they keep a process of a container's and are not the monitor of its process 1."""
        keepers = self.monitors()
        inside = {container: _pid_namespace(next(iter(children(pid)), 0)) for container, pid in keepers.items()}
        spaces = set(inside.values()) - {""}
        found = []
        for pid in processes():
            if pid not in keepers.values() and _pid_namespace(pid) in spaces:
                parent = parent_of(pid)
                if parent > 1 and parent not in keepers.values() and _pid_namespace(parent) not in spaces:
                    found.append(parent)
        return found

    def listeners(self, name: str) -> list[int]:
        """The processes that have this socket of the exec root open and are not the daemon."""
        path = f"{self.daemon.exec_root}/{name}"
        with open(f"/proc/{self.daemon.namespaces.keeper.pid}/net/unix") as lines:
            inodes = {f"socket:[{line.split()[6]}]" for line in lines if line.rstrip().endswith(name)}
        if not inodes or not os.path.exists(path):
            return []
        return [pid for pid in processes() if pid != self.daemon.pid and inodes.intersection(open_links(pid))]


def processes() -> list[int]:
    """All of the machine's."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def children(pid: int) -> list[int]:
    """The children of a process's threads."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, task.read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            pass  # the thread has ended
    return found


def parent_of(pid: int) -> int:
    """A process's parent; 0 when it is no more."""
    try:
        with open(f"/proc/{pid}/stat") as source:
            return int(source.read().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _pid_namespace(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return ""  # it has ended, or is not ours to look at
