"""The resolver without a daemon: a spawner that makes it, what a daemon says to it, and networks instead of containers.

A `Site` is one machine with its spawner, links and `Names`; `restart` is what the next daemon would have. A `Box`
stands for a container: a process in a network of its own.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from engine.daemon.network.names import Names
from engine.daemon.network.record import Endpoint, Network
from engine.daemon.runtime.monitors import Monitors
from engine.kernel import syscalls
from engine.wire import endpoint, exitfile
from engine.wire.channel import Channel
from tests.harness.daemon import PROJECT
from tests.harness.descriptors import open_links
from tests.harness.namespaces import Namespaces
from tests.harness.parts import settings

NET = Network(id="a" * 64, name="net", driver="bridge", created_ns=0)
OTHER = Network(id="b" * 64, name="other", driver="bridge", created_ns=0)
INTERNAL = Network(id="c" * 64, name="inner", driver="bridge", created_ns=0, internal=True)
BRIDGE = Network(id="d" * 64, name="bridge", driver="bridge", created_ns=0)
PATIENCE = 30.0


def host_config(**asked: list[str]) -> dict:
    """What of a container's HostConfig is the resolver's business."""
    return {"Dns": [], "DnsSearch": [], "DnsOptions": [], **asked}


class Box(Namespaces):
    """A container's network, with loopback alone, and its process 1."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.id = name * 8
        self.name = name
        self.pid = self.keeper.pid
        self.start = syscalls.process_start(self.pid)

    def place(self, network: Network = NET, *aliases: str, last: int = 2) -> tuple[Network, Endpoint]:
        """An endpoint of it in a network."""
        number = "abcd".index(network.id[0])
        made = Endpoint(
            id=f"{self.id}-{network.name}",
            network=network.id,
            container=self.id,
            ipv4=f"10.{number}.0.{last}",
            gateway4=f"10.{number}.0.1",
            ipv6=f"fd00:{number}::{last}",
            names=(self.name, self.id[:12], *aliases),
        )
        return network, made

    def end(self) -> None:
        """Process 1 ends; what still holds the network does so in vain."""
        self.keeper.kill()
        self.keeper.wait()


class _Spawner:
    """A true spawner on a machine; as `engine.daemon.runtime.spawner.Spawner`."""

    def __init__(self, machine: Namespaces, muxer: str, stage: Path) -> None:
        self.channel, theirs = Channel.pair()
        stage.mkdir(exist_ok=True)
        arguments = [sys.executable, "-m", "engine", "spawner", str(theirs.fileno()), muxer, str(stage)]
        environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
        with theirs:
            self.process = subprocess.Popen(
                machine.command(arguments),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=environment,
            )

    def send(self, message: object, descriptors: list[int], *, ordinary: bool) -> None:
        """Ask it for something."""
        self.channel.send(message, descriptors, ordinary=ordinary)

    def close(self) -> None:
        """End it."""
        self.channel.close()
        self.process.wait(PATIENCE)


class Site:
    """A machine whose names are answered. names: what a daemon calls; resolv_conf: the host's file"""

    def __init__(self, machine: Namespaces, directory: Path, muxer: str = "auto", **told: tuple[str, ...]) -> None:
        self.machine = machine
        self.exec_root = directory
        self.resolv_conf = directory / "resolv.conf"
        self.resolv_conf.write_text("nameserver 127.0.0.1\n")
        command = ["mount", "--bind", str(self.resolv_conf), "/etc/resolv.conf"]
        subprocess.run(machine.command(command), check=True)
        self._spawner = _Spawner(machine, muxer, directory / "stage")
        self._settings = settings(**told)
        self.names: Names
        self.restart()

    @property
    def spawner(self) -> int:
        """The process that makes resolvers."""
        return self._spawner.process.pid

    def restart(self) -> None:
        """Another daemon takes over, which knows nothing yet; the earlier one is as good as killed."""
        links = Monitors(self._spawner, lambda *_: None)
        threading.Thread(target=links.watch, daemon=True).start()
        if hasattr(self, "names"):
            self.leave_link()
        self.names = Names(str(self.exec_root), self._settings, self._spawner, links)

    def leave_link(self) -> None:
        """What the end of a daemon's process does to its link."""
        resolving = self.names._resolving
        if resolving is not None and resolving._link is not None:
            with resolving._lock:
                resolving._links.off_end(resolving._link.fileno())
                resolving._link.close()
                resolving._link = None

    def patience(self, seconds: float) -> None:
        """How long the daemon waits for the present resolver, from now on."""
        self.names._resolving._link.socket.settimeout(seconds)

    def leave_all(self) -> None:
        """Every container leaves."""
        resolving = self.names._resolving
        told = list(resolving._told.values()) if resolving is not None else []
        self.names.leave(one for each in told for _, one in each.pairs)

    def serves(self) -> set[str]:
        """Whom the resolver serves, as the next daemon is told; nobody where there is none."""
        try:
            with Channel(endpoint.connect(str(self.exec_root), PATIENCE, endpoint.RESOLVER)) as link:
                return {container for container, _ in link.receive()[0].serves}
        except OSError:
            return set()

    def crash(self) -> str:
        """What the resolver has left about its own failure."""
        file = self.exec_root / exitfile.RESOLVER_CRASH
        return file.read_text() if file.exists() else ""

    def join(self, box: Box, *pairs: tuple[Network, Endpoint], links: dict | None = None, **asked: list[str]) -> None:
        """A container has these places."""
        netns = os.open(f"/proc/{box.pid}/ns/net", os.O_RDONLY)
        try:
            self.names.join(pairs or (box.place(),), netns, box.pid, box.start, host_config(**asked), links or {})
        finally:
            os.close(netns)

    def pids(self) -> list[int]:
        """The processes that are resolvers: children of the spawner's that have the socket's directory open."""
        path = self.exec_root / "resolver.sock"
        with open(f"/proc/{self.machine.keeper.pid}/net/unix") as lines:
            inodes = {f"socket:[{line.split()[6]}]" for line in lines if line.rstrip().endswith("/resolver.sock")}
        return [
            pid for pid in _processes() if path.exists() and inodes.intersection(open_links(pid)) and pid != os.getpid()
        ]

    def kill(self) -> None:
        """Kill the resolver."""
        for pid in self.pids():
            os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        """The daemon and the spawner end, and so does a resolver that serves nobody, without a word of trouble."""
        self.leave_link()
        self._spawner.close()
        subprocess.run(self.machine.command(["umount", "/etc/resolv.conf"]), check=True)
        assert settled(lambda: not self.pids()), "it serves nobody and is still there"
        assert self.crash() == ""


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def settled(happens: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    """Whether it comes about in time."""
    end = time.monotonic() + seconds
    while not happens():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True
