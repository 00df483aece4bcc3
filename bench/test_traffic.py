"""Benchmarks of traffic between two containers of one network, against a bridge made by hand, and of name lookups.

The bridge made by hand and this engine are measured in turn, so that both have the same conditions of the machine.
"""

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from bench import client, image
from bench.inside import Place, outer_pid
from bench.peers import Daemon
from bench.results import Record

HAND = "veth + bridge"
PORT = 7000
ROUNDS = 7
SECONDS = 0.5
# Makes one network namespace with the bridge, and two more with one end of a veth pair each.
_LAUNCH = """
set -e
ip link add hand type bridge
ip link set hand up
for end in 2 3; do
    unshare --net sleep 3600 &
    pid=$!
    until [ "$(readlink /proc/$pid/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
    ip link add hand$end type veth peer name eth0 netns $pid
    ip link set hand$end master hand up
    nsenter --target=$pid --net ip addr add 10.99.0.$end/24 dev eth0
    nsenter --target=$pid --net ip link set eth0 up
    echo $pid
done
wait
"""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two network namespaces, and the address of the second."""

    client: Place
    server: Place
    address: str

    @contextlib.contextmanager
    def ready(self) -> Iterator["Pair"]:
        """Run a server in the second one for the length of a `with` block."""
        with self.server.serving(self.address, PORT):
            yield self

    def figure(self, what: str) -> float:
        """Measure `stream` or `echo` between the two."""
        return self.client.figure(what, self.address, str(PORT), str(SECONDS))


@contextlib.contextmanager
def by_hand() -> Iterator[Pair]:
    """Two network namespaces on a bridge, made with ip(8)."""
    made = subprocess.Popen(
        ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", _LAUNCH],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert made.stdout is not None
        with made.stdout as said:
            numbers = [int(said.readline()) for _ in range(2)]
            (first,) = _children(made.pid)
            inner = {_inner(pid): pid for pid in _children(first)}
            yield Pair(Place(inner[numbers[0]]), Place(inner[numbers[1]]), "10.99.0.3")
    finally:
        made.kill()
        made.wait()


def _children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]


def _inner(pid: int) -> int:
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[-1]) for line in file if line.startswith("NSpid:"))


@contextlib.contextmanager
def containers(daemon: Daemon) -> Iterator[Pair]:
    """Two containers in a network of the engine's, the second with the name `other`."""
    with daemon.connect() as connection:
        connection.call("POST", "/networks/create", {"Name": "traffic", "CheckDuplicate": True}, 201)
        made: list[str] = []
        places: list[Place] = []
        address = ""
        try:
            for name in ("one", "other"):
                body = {"Image": image.NAME, "Cmd": ["sleep", "600"], "HostConfig": {"NetworkMode": "traffic"}}
                made.append(connection.call("POST", f"/containers/create?name={name}", body, 201).json()["Id"])
                client.start(connection, made[-1])
                shown = connection.call("GET", f"/containers/{made[-1]}/json").json()
                places.append(Place(outer_pid(daemon.isolated, shown["State"]["Pid"])))
                address = shown["NetworkSettings"]["Networks"]["traffic"]["IPAddress"]
            one, other = places
            yield Pair(one, other, address)
        finally:
            for container in made:
                client.remove(connection, container, force=True)
            connection.call("DELETE", "/networks/traffic", expected=204)


@pytest.mark.case("traffic", "round_trips")
def test_traffic_between_containers(daemon: Daemon, record: Record) -> None:
    with contextlib.ExitStack() as stack:
        pairs = {daemon.peer.name: stack.enter_context(stack.enter_context(containers(daemon)).ready())}
        if daemon.peer.name == "engine":
            pairs[HAND] = stack.enter_context(stack.enter_context(by_hand()).ready())
        for case, what, unit in (("traffic", "stream", 1e9), ("round_trips", "echo", 1)):
            figures: dict[str, list[float]] = {name: [] for name in pairs}
            for _ in range(ROUNDS):
                for name, pair in pairs.items():
                    figures[name].append(pair.figure(what) / unit)
            for name, samples in figures.items():
                record(case, name, samples)


def _server(path: str) -> str:
    with open(path) as file:
        return next(line.split()[1] for line in file if line.startswith("nameserver"))


@pytest.mark.case("lookups")
def test_names_of_containers(daemon: Daemon, record: Record) -> None:
    with containers(daemon) as pair:
        server = _server(f"/proc/{pair.client.pid}/root/etc/resolv.conf")
        if server == _server("/etc/resolv.conf"):
            pytest.skip("it has no names of its own on this host")
        samples = [pair.client.figure("lookup", server, "1", "other") for _ in range(ROUNDS)]
    record("lookups", daemon.peer.name, samples)
