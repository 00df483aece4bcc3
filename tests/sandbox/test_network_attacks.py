"""Attempts to reach by way of the network what was not granted: from inside containers, and from a neighbour's machine.

What an attacker sends is raw frames, and behind them something harmless to the same place: when that has come in, so
would have the frames. Each test is named after the published flaw it repeats, where there is one.
"""

import itertools
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.inspection import tree
from tests.harness import dns, packets
from tests.harness.daemon import Daemon
from tests.harness.dns import Asker, Upstream
from tests.harness.holdings import device_of, links, settled
from tests.harness.hosts import Host, Inside, ask, reaches, run, serving
from tests.harness.listening import until
from tests.harness.packets import Wire

pytestmark = pytest.mark.root

SECRET = 7001
OPEN = 7002
PREFIX = "2001:db8:bad::"
ATTACKER = "fe80::bad"


class Box:
    """A container that runs: where it is in the kernel, and in its first network."""

    def __init__(self, daemon: Daemon, network: str, **host_config: object) -> None:
        self.id = daemon.create("sleep", "600", HostConfig={"NetworkMode": network, **host_config})
        daemon.begin(self.id)
        shown = daemon.inspect(self.id)
        self.pid: int = shown["State"]["Pid"]
        self.inside = Inside(self.pid)
        end = shown["NetworkSettings"]["Networks"][network]
        self.address, self.mac, self.gateway = end["IPAddress"], end["MacAddress"], end["Gateway"]

    def ip(self, *words: str) -> str:
        """What ip(8) says in its network, with all rights there."""
        command = ["nsenter", f"--target={self.pid}", "--net", "ip", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def box(apart: Daemon) -> Iterator[Callable[..., Box]]:
    """Containers that are removed after the test, and their networks: `box("left")`."""
    made: list[Box] = []
    networks = {"bridge"}

    def make(network: str, settings: dict | None = None, **host_config: object) -> Box:
        if network not in networks:
            answer = apart.request("POST", "/networks/create", {"Name": network, **(settings or {})})
            assert answer.status == 201, answer
            networks.add(network)
        made.append(Box(apart, network, **host_config))
        return made[-1]

    yield make
    for each in made:
        apart.remove(each.id)
    for name in networks - {"bridge"}:
        answer = apart.request("DELETE", f"/networks/{name}")
        assert answer.status == 204, answer
    assert not settled(apart)


def bridge(daemon: Daemon, network: str) -> dict:
    """A network's device, as ip(8) shows it."""
    device = device_of(daemon.request("GET", f"/networks/{network}").json())
    return next(link for link in links(daemon.namespaces) if link["ifname"] == device)


def test_cve_2020_8558_the_hosts_loopback_is_not_reached_from_a_container(apart: Daemon, box) -> None:
    """A service that listens on 127.0.0.1 alone takes its callers for the host's own; route_localnet lets frames in."""
    # A port on the loopback address makes the engine open that way at all.
    published = {"80/udp": [{"HostIp": "127.0.0.1", "HostPort": "7080"}]}
    one = box("bridge", PortBindings=published)
    station = bridge(apart, "bridge")["address"]
    with (
        serving(apart.namespaces, SECRET, "udp", "127.0.0.1") as secret,
        serving(apart.namespaces, OPEN, "udp") as heard,
        Wire(one.inside) as wire,
    ):
        for source in (one.address, "127.0.0.1", "127.0.0.2", one.gateway):
            for target in ("127.0.0.1", "127.0.0.53"):
                wire.send(station, packets.udp((source, 9), (target, SECRET), b"?"))
        wire.send(station, packets.udp((one.address, 9), (one.gateway, OPEN), b"?"))
        until(lambda: heard.seen, 5)
        assert not secret.seen
        assert ask(apart.namespaces, "127.0.0.1", SECRET, "udp") == "127.0.0.1"


def test_cve_2020_8558_nor_from_a_neighbour(apart: Daemon, box, make_host: Callable[[Daemon], Host]) -> None:
    """Neither a service of the host's own nor a port that was published on the loopback address alone."""
    one = box("bridge", PortBindings={"80/udp": [{"HostIp": "127.0.0.1", "HostPort": "7080"}]})
    host = make_host(apart)
    with (
        serving(apart.namespaces, SECRET, "udp", "127.0.0.1") as secret,
        serving(apart.namespaces, OPEN, "udp") as heard,
        serving(one.inside, 80, "udp") as within,
        Wire(apart.namespaces, host.link) as cable,
        Wire(host) as wire,
    ):
        for source in (host.address, "127.0.0.1", one.address, one.gateway):
            for port in (SECRET, 7080):
                wire.send(cable.mac, packets.udp((source, 9), ("127.0.0.1", port), b"?"))
            wire.send(cable.mac, packets.udp((source, 9), (one.address, 80), b"?"))
        wire.send(cable.mac, packets.udp((host.address, 9), (host.gateway, OPEN), b"?"))
        until(lambda: heard.seen, 5)
        assert not secret.seen and not within.seen
        # Both are there for the machine itself.
        assert ask(apart.namespaces, "127.0.0.1", SECRET, "udp") and ask(apart.namespaces, "127.0.0.1", 7080, "udp")


def default_routes(shown: str) -> list[str]:
    """The lines that lead everywhere, and those of the attacker's prefix."""
    return [line for line in shown.splitlines() if line.startswith("default") or PREFIX in line]


def test_cve_2020_13401_no_container_makes_itself_a_router(apart: Daemon, box, make_host) -> None:
    """Not the host's, nor its neighbours': an advertisement changes nobody's routes or addresses, IPv6 or no IPv6."""
    host = make_host(apart)
    with Wire(apart.namespaces, host.link) as wire:

        def believed() -> list[str]:
            wire.send("33:33:00:00:00:01", packets.router_advertisement(ATTACKER, PREFIX))
            return default_routes(run(host, "ip", "-6", "route").stdout)

        # A machine that believes in routers shows that the frame is right. Its cable is new: the first may be lost.
        until(believed, 5)
    before = run(apart.namespaces, "ip", "-6", "route").stdout
    for network, settings in (("bridge", {}), ("sixes", {"EnableIPv6": True})):
        one, other = box(network, settings), box(network)
        was = other.ip("-6", "route")
        with Wire(one.inside) as wire, serving(other.inside, OPEN, "udp") as heard:
            wire.send("33:33:00:00:00:01", packets.router_advertisement(ATTACKER, PREFIX))
            wire.send(other.mac, packets.udp((one.address, 9), (other.address, OPEN), b"?"))
            until(lambda heard=heard: heard.seen, 5)
        assert other.ip("-6", "route") == was and PREFIX not in other.ip("address")
    assert not set(default_routes(run(apart.namespaces, "ip", "-6", "route").stdout)) - set(before.splitlines())
    assert PREFIX not in run(apart.namespaces, "ip", "address").stdout


def test_cve_2024_29018_a_question_of_an_internal_network_does_not_leave(apart: Daemon, box, make_host) -> None:
    """Data could be carried out in names; a container that is in a network with a way out may ask."""
    host = make_host(apart)
    with Upstream(host, lambda asked, _: dns.answer(asked, "192.0.2.1"), host.address) as upstream:
        inner, outer = box("inner", {"Internal": True}, Dns=[host.address]), box("outer", Dns=[host.address])
        with Asker(inner.inside) as asker:
            for name in ("secret.example.com", "c2VjcmV0.example.com", "secret.example.com.inner", "secret"):
                for kind in (dns.A, dns.AAAA, dns.TXT, dns.PTR, dns.ANY):
                    assert asker.ask(name, kind).code in (dns.SERVFAIL, dns.NXDOMAIN, dns.REFUSED)
        with Asker(outer.inside) as asker:
            assert asker.addresses("open.example.com") == ["192.0.2.1"]
        assert upstream.names() == ["open.example.com"]
        # What it sends itself does not go there either.
        assert not reaches(inner.inside, host.address, 53, "udp")


def test_an_internal_network_has_no_way_out_in_the_connections_of_others(apart: Daemon, box, make_host) -> None:
    """What the host takes for an answer passes the walls; who calls itself by a neighbour's address gives none."""
    host = make_host(apart)
    inner, outer = box("inner", {"Internal": True}), box("outer")
    station = bridge(apart, "inner")["address"]
    with (
        host.socket(socket.SOCK_DGRAM) as server,
        outer.inside.socket(socket.SOCK_DGRAM) as client,
        Wire(inner.inside) as wire,
    ):
        server.bind((host.address, OPEN))
        server.settimeout(20.0)
        client.bind(("0.0.0.0", SECRET))
        client.settimeout(20.0)
        client.sendto(b"one", (host.address, OPEN))
        data, seen = server.recvfrom(100)
        server.sendto(b"yes", seen)
        assert data == b"one" and client.recv(100) == b"yes"
        wire.send(station, packets.udp((outer.address, SECRET), (host.address, OPEN), b"stolen"))
        client.sendto(b"two", (host.address, OPEN))
        assert server.recv(100) == b"two"


def test_a_spoofed_source_does_not_lead_into_another_network(apart: Daemon, box) -> None:
    """Whatever address and route a container gives itself: what counts is the bridge that it comes in by."""
    left, right, friend = box("left", CapAdd=["NET_ADMIN"]), box("right"), box("right")
    station = bridge(apart, "left")["address"]
    with serving(right.inside, OPEN, "udp") as within, serving(right.inside, OPEN) as stream, Wire(left.inside) as wire:
        for source in (left.address, friend.address, right.gateway, left.gateway, "198.51.100.9"):
            wire.send(station, packets.udp((source, 9), (right.address, OPEN), b"?"))
            wire.send(station, packets.syn((source, 9), (right.address, OPEN)))
        with serving(apart.namespaces, SECRET, "udp") as heard:
            wire.send(station, packets.udp((left.address, 9), (left.gateway, SECRET), b"?"))
            until(lambda: heard.seen, 5)
        left.ip("address", "add", f"{friend.address}/32", "dev", "eth0")
        left.ip("route", "add", f"{right.address}/32", "via", left.gateway, "src", friend.address)
        assert not reaches(left.inside, right.address, OPEN, "udp", 0.2)
        assert not within.seen and not stream.seen
        assert ask(friend.inside, right.address, OPEN, "udp") == friend.address


def test_a_container_that_destroys_its_own_wires_harms_nobody_else(apart: Daemon, box) -> None:
    """It is disconnected, connected and stopped as any other; the others and the host's rules are as before."""
    two, other = box("left", CapAdd=["NET_ADMIN"]), box("left")
    box("right")
    for network, harm in (
        ("right", ("link", "set", "dev", "eth1", "name", "mine")),
        ("right", ("link", "delete", "eth1")),
        ("right", ("address", "flush", "dev", "eth1")),
    ):
        body = {"Container": two.id}
        assert apart.request("POST", f"/networks/{network}/connect", body).status == 200
        if harm[1] == "set":
            two.ip("link", "set", "dev", "eth1", "down")
        two.ip(*harm)
        assert apart.request("POST", f"/networks/{network}/disconnect", body).status == 200
    before = run(apart.namespaces, "nft", "list", "ruleset").stdout
    subprocess.run(["nsenter", f"--target={two.pid}", "--net", "nft", "flush", "ruleset"], check=True)
    two.ip("link", "delete", "eth0")
    assert run(apart.namespaces, "nft", "list", "ruleset").stdout == before
    assert apart.inspect(two.id)["State"]["Running"]
    with serving(other.inside, OPEN):
        assert ask(apart.namespaces, other.address, OPEN)
    assert apart.request("POST", f"/containers/{two.id}/restart?t=0").status == 204
    shown = apart.inspect(two.id)
    with serving(Inside(shown["State"]["Pid"]), OPEN):
        assert ask(other.inside, shown["NetworkSettings"]["Networks"]["left"]["IPAddress"], OPEN)


def test_nobody_asks_another_containers_resolver(apart: Daemon, box, make_host) -> None:
    """127.0.0.11 is each container's own: what comes for it by a wire is thrown away, whatever it says it is from."""
    host = make_host(apart)
    with Upstream(host, lambda asked, _: dns.answer(asked, "192.0.2.1"), host.address) as upstream:
        victim, attacker = box("left", Dns=[host.address]), box("left", CapAdd=["NET_ADMIN"], Dns=[host.address])
        command = ["nsenter", f"--target={victim.pid}", "--net", "cat", "/proc/net/udp"]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[1:]
        ports = {int(line.split()[1].split(":")[1], 16) for line in lines} | {53}
        assert len(ports) > 1
        station = bridge(apart, "left")["address"]
        sources = (attacker.address, host.address, "127.0.0.1", "127.0.0.11", victim.address)
        with Wire(attacker.inside) as wire, Wire(host) as outside, Wire(apart.namespaces, host.link) as cable:
            for port, source, target in itertools.product(ports, sources, ("127.0.0.11", victim.address)):
                packet = packets.udp((source, 9), (target, port), dns.query(f"evil{port}.example.com"))
                wire.send(victim.mac, packet)
                wire.send(station, packet)
                outside.send(cable.mac, packet)
        attacker.ip("route", "add", "127.0.0.11/32", "via", victim.address, "table", "100")
        with Asker(victim.inside) as asker:
            assert asker.addresses("good.example.com") == ["192.0.2.1"]
        assert upstream.names() == ["good.example.com"]


def resident(daemon: Daemon) -> int:
    """The memory of all processes of this daemon that are not shared with others, in bytes."""
    total = 0
    for row in tree.find(str(daemon.exec_root)).rows:
        if not row.brief.kind:
            continue  # a container
        try:
            rollup = Path(f"/proc/{row.brief.pid}/smaps_rollup").read_text()
            total += sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Private"))
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
    return total * 1024


@pytest.mark.alone
def test_a_flood_of_questions_starves_nobody(apart: Daemon, box, make_host) -> None:
    """Questions that nobody answers, without end: the memory stays what it was, others are answered at once."""
    host = make_host(apart)
    attacker, one, two = box("left", Dns=[host.address]), box("right"), box("right")
    with Upstream(host, lambda *_: [], host.address), Asker(attacker.inside) as flood, Asker(one.inside) as asker:
        before = resident(apart)
        slowest = 0.0
        for number in range(20_000):
            try:
                flood.socket.send(dns.query(f"n{number}.example.com", number=number % 65536))
            except (BlockingIOError, TimeoutError):
                pass  # its own socket is full: others are not to notice
            if number % 500 == 0:
                began = time.perf_counter()
                assert asker.addresses(two.id[:12]) == [two.address]
                slowest = max(slowest, time.perf_counter() - began)
        assert slowest < 1.0
        assert resident(apart) - before < 16 << 20
        with Asker(attacker.inside) as again:
            assert again.addresses(attacker.id[:12]) == [attacker.address]


@pytest.mark.parametrize(("network", "rights", "may"), [("left", ["NET_ADMIN"], True), ("host", [], False)])
def test_rights_over_a_network_of_ones_own_are_none_over_the_hosts(
    apart: Daemon, box, network: str, rights: list[str], may: bool
) -> None:
    """What it makes is in its own; one that is in the host's network has no rights there that it was not given."""
    box("left")
    before = run(apart.namespaces, "sysctl", "net.ipv4.ip_forward").stdout
    words = "ip link add mine type bridge && ip address add 127.9.9.9/8 dev lo && ip link set lo mtu 1400"
    output = apart.run("sh", "-c", words, HostConfig={"NetworkMode": network, "CapAdd": rights})
    assert (output.status == 0) == may, output
    locked = apart.run("sh", "-c", "echo 0 > /proc/sys/net/ipv4/ip_forward", HostConfig={"NetworkMode": network})
    assert locked.status != 0 and b"Read-only file system" in locked.stderr
    shown = run(apart.namespaces, "ip", "address").stdout
    assert " mine:" not in shown and "127.9.9.9" not in shown and "mtu 1400" not in shown
    assert run(apart.namespaces, "sysctl", "net.ipv4.ip_forward").stdout == before
