"""Published ports, by traffic: who reaches a container at the host's ports, and from where it seems to come."""

import contextlib
import glob
import os
import re
import socket
import time
from collections.abc import Iterator

import pytest

from tests.harness.daemon import Daemon
from tests.harness.hosts import Host, ask, reaches, run, serving
from tests.network.places import BRIDGE, Place, bindings, container, network, pool


@pytest.fixture(scope="module")
def web(apart: Daemon) -> Iterator[Place]:
    """A container on the default network that answers at 8080 of the host, by TCP and by UDP."""
    with container(apart, ports=["8080:80", "8080:80/udp"]) as place:
        with serving(place, 80), serving(place, 80, "udp"):
            yield place


@pytest.mark.parametrize("kind", ["tcp", "udp"])
def test_a_client_outside_reaches_it_and_is_seen_as_itself(apart: Daemon, outside: Host, web: Place, kind: str) -> None:
    """The source address is not changed: the container sees who asks."""
    assert ask(outside, outside.gateway, 8080, kind) == outside.address


@pytest.mark.parametrize("kind", ["tcp", "udp"])
def test_the_host_reaches_it_by_each_of_its_own_addresses(apart: Daemon, outside: Host, web: Place, kind: str) -> None:
    """127.0.0.1, any other of the loopback's, the cable's and the bridge's."""
    assert ask(apart.namespaces, "127.0.0.1", 8080, kind) == web.gateway
    assert ask(apart.namespaces, "127.0.0.2", 8080, kind) == web.gateway
    assert ask(apart.namespaces, outside.gateway, 8080, kind) == outside.gateway
    assert ask(apart.namespaces, web.gateway, 8080, kind) == web.gateway


@pytest.mark.parametrize("filtered", ["0", "1"])
@pytest.mark.parametrize("kind", ["tcp", "udp"])
def test_other_containers_reach_it_by_the_hosts_addresses(
    apart: Daemon, outside: Host, web: Place, kind: str, filtered: str
) -> None:
    """One beside it, one on another network, and the container itself; with br_netfilter and without."""
    bridged(apart, filtered)
    with container(apart) as beside, network(apart, "other"), container(apart, "other") as elsewhere:
        for who in (beside, elsewhere, web):
            for address in (outside.gateway, web.gateway):
                assert ask(who, address, 8080, kind) == web.gateway
        assert ask(beside, web.address, 80, kind) == beside.address
        assert not reaches(elsewhere, web.address, 80, kind, 0.1)


def bridged(daemon: Daemon, filtered: str) -> None:
    """Have packets that are only bridged pass the firewall (`1`, as on a host with br_netfilter) or not."""
    for name in ("iptables", "ip6tables"):
        path = f"/proc/sys/net/bridge/bridge-nf-call-{name}"
        assert run(daemon.namespaces, "sh", "-c", f"echo {filtered} > {path}").returncode == 0


def test_an_address_of_the_host_may_be_chosen(apart: Daemon, outside: Host) -> None:
    """A port on one address of the host is not there on the others, nor for neighbours where that is the loopback."""
    with container(apart, ports=["127.0.0.1:8081:80", f"{outside.gateway}:8082:80"]) as place, serving(place, 80):
        assert ask(apart.namespaces, "127.0.0.1", 8081) == place.gateway
        assert ask(outside, outside.gateway, 8082) == outside.address
        assert not reaches(outside, outside.gateway, 8081)
        assert not reaches(apart.namespaces, "127.0.0.1", 8082)


def test_a_neighbour_who_sends_to_127_0_0_1_is_not_led_in(apart: Daemon, outside: Host, web: Place) -> None:
    """Somebody on the cable who addresses the host's loopback gets nowhere (the kernel alone would see it too late)."""
    hostile = (
        "ip addr del 127.0.0.1/8 dev lo; echo 1 > /proc/sys/net/ipv4/conf/all/route_localnet; "
        f"ip route add 127.0.0.3/32 via {outside.gateway}"
    )
    assert run(outside, "sh", "-c", hostile).returncode == 0
    assert not reaches(outside, "127.0.0.3", 8080, timeout=0.15)


def test_any_free_port_of_the_host_is_taken_where_none_is_named(apart: Daemon, outside: Host) -> None:
    """Two containers get two, out of the kernel's range for such ports."""
    with container(apart, ports=["80"]) as one, container(apart, ports=["80"]) as two:
        assert one.port(80) != two.port(80)
        assert {one.port(80), two.port(80)} <= set(range(32768, 61000))
        for place in (one, two):
            with serving(place, 80):
                assert ask(outside, outside.gateway, place.port(80)) == outside.address


def test_of_a_range_the_first_free_port_is_taken(apart: Daemon, outside: Host) -> None:
    """`--scale` gives two containers the same binding; a third that finds none is refused."""
    with container(apart, ports=["8083-8084:80"]) as one, container(apart, ports=["8083-8084:80"]) as two:
        assert (one.port(80), two.port(80)) == (8083, 8084)
        with serving(two, 80):
            assert ask(outside, outside.gateway, 8084) == outside.address
        third = apart.create("true", HostConfig={"PortBindings": bindings("8083-8084:80")})
        answer = apart.request("POST", f"/containers/{third}/start")
        assert answer.status == 500 and "port is already allocated" in answer.message
        apart.remove(third)


def test_ipv6_reaches_it_as_ipv4_does(apart: Daemon, outside: Host) -> None:
    """On a network of both families a port is published on both; each client is seen with its own address."""
    body = {"EnableIPv6": True, "IPAM": {"Config": [{"Subnet": "10.77.0.0/24"}, {"Subnet": "fd77::/64"}]}}
    with network(apart, "both", **body), container(apart, "both", ["8085:80", "8085:80/udp"]) as place:
        assert {each["HostIp"] for each in place.ports["80/tcp"]} == {"0.0.0.0", "::"}
        for kind in ("tcp", "udp"):
            with serving(place, 80, kind), serving(place, 80, kind, "::"):
                assert ask(outside, outside.gateway6, 8085, kind) == outside.address6
                assert ask(outside, outside.gateway, 8085, kind) == outside.address
                assert ask(apart.namespaces, outside.gateway6, 8085, kind) == outside.gateway6
                with container(apart, "both") as beside:
                    assert ask(beside, outside.gateway6, 8085, kind) == "fd77::1"


def test_sctp_is_led_in_as_well(apart: Daemon) -> None:
    """No program here speaks it, so the rule itself is looked at: protocol 132, the port, the container's address."""
    with container(apart, ports=["8086:80/sctp"]) as place:
        rules = listed(apart)
        assert re.search(rf"sctp \. 8086 : {re.escape(place.address)} \. 80", rules), rules
    assert "8086" not in listed(apart)


def listed(daemon: Daemon) -> str:
    """The rules on the daemon's machine, as nft(8) shows them."""
    done = daemon.command(*daemon.namespaces.command(["nft", "list", "ruleset"]))
    assert done.returncode == 0, done
    return done.stdout.decode()


def test_a_port_that_a_container_has_is_refused_and_nothing_stays(apart: Daemon, outside: Host, web: Place) -> None:
    """Docker's words and status; what the container had asked for beside it is free again."""
    for taken in ("8080:80", "127.0.0.1:8080:80"):
        refused = apart.create("true", HostConfig={"PortBindings": bindings("8087:81", taken)})
        answer = apart.request("POST", f"/containers/{refused}/start")
        address = taken.removesuffix(":80").removesuffix(":8080") if taken.count(":") > 1 else "0.0.0.0"
        assert answer.status == 500, answer
        assert answer.message.startswith("failed to set up container networking: driver failed programming external")
        assert answer.message.endswith(f"Bind for {address}:8080 failed: port is already allocated")
        assert apart.inspect(refused)["State"]["Status"] == "created"
        apart.remove(refused)
    assert "8087" not in listed(apart)
    with container(apart, ports=["8087:81"]):
        assert ask(outside, outside.gateway, 8080) == outside.address


def test_a_port_that_a_program_of_the_host_has_is_refused(apart: Daemon) -> None:
    """By TCP and by UDP; and while a container has a port, no program of the host gets it."""
    with container(apart, ports=["8088:80", "8088:80/udp"]):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            with apart.namespaces.socket(kind) as program, pytest.raises(OSError, match="in use"):
                program.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                program.bind(("0.0.0.0", 8088))
    for kind in ("tcp", "udp"):
        with serving(apart.namespaces, 8088, kind):
            refused = apart.create("true", HostConfig={"PortBindings": bindings(f"8088:80/{kind}")})
            answer = apart.request("POST", f"/containers/{refused}/start")
            assert answer.status == 500
            assert answer.message.endswith(f"failed to bind host port 0.0.0.0:8088/{kind}: address already in use")
            apart.remove(refused)


def test_a_port_is_free_and_leads_nowhere_when_its_container_has_ended(apart: Daemon, outside: Host) -> None:
    """Over UDP too, by a client that never stops: its container is reached, never the next one with that address."""
    with outside.socket(socket.SOCK_DGRAM) as client:
        client.settimeout(0.1)
        client.connect((outside.gateway, 8089))
        for _ in range(2):
            with container(apart, ports=["8089:80/udp"]) as place, serving(place, 80, "udp"):
                assert answered(client) == outside.address
            with container(apart) as heir, serving(heir, 80, "udp") as stranger:
                assert heir.address == place.address
                for _ in range(3):
                    with contextlib.suppress(OSError):  # silence, or the host's word that nobody is there
                        client.send(b"?")
                        client.recv(100)
                assert stranger.seen == []


def answered(client: socket.socket) -> str:
    """What comes back to a client that tries again and again, as clients of UDP do."""
    for _ in range(300):
        try:
            client.send(b"?")
            return client.recv(100).decode()
        except (TimeoutError, ConnectionRefusedError):
            continue
    raise AssertionError("no answer")


def test_a_port_needs_no_process_of_its_own(apart: Daemon, web: Place) -> None:
    """A hundred ports cost what one does: the one process that keeps the container, beside one proxy for all."""
    before = steady(apart)
    with container(apart):
        without = settled(apart, before + 1)
    with container(apart, ports=[f"{number}:80" for number in range(9000, 9100)]):
        assert settled(apart, without) == without == before + 1


def processes(daemon: Daemon) -> int:
    """How many processes are in the network of the daemon's machine; those of containers are in their own."""
    machine = os.readlink(f"/proc/{daemon.pid}/ns/net")
    found = 0
    for path in glob.glob("/proc/[0-9]*/ns/net"):
        with contextlib.suppress(OSError):  # it has ended meanwhile, or is nobody's business
            found += os.readlink(path) == machine
    return found


def steady(daemon: Daemon) -> int:
    """The same, once it has been the same for a while."""
    seen = [processes(daemon)]
    while len(seen) < 25 or len(set(seen[-25:])) > 1:
        time.sleep(0.02)
        seen.append(processes(daemon))
    return seen[-1]


def settled(daemon: Daemon, expected: int) -> int:
    """The same, once what the spawner prepares for the next start, or for execs a while, is as it was before."""
    end = time.monotonic() + 60.0
    while (found := processes(daemon)) != expected and time.monotonic() < end:
        time.sleep(0.02)
    return found


def test_a_network_may_have_an_address_of_its_own_for_ports(apart: Daemon, outside: Host) -> None:
    """`host_binding_ipv4` stands for the address that nobody has named."""
    options = {BRIDGE + "host_binding_ipv4": "127.0.0.1"}
    with network(apart, "bound", Options=options, IPAM=pool("10.78.0.0/24")):
        with container(apart, "bound", ["8090:80"]) as place, serving(place, 80):
            assert place.ports["80/tcp"] == [{"HostIp": "127.0.0.1", "HostPort": "8090"}]
            assert ask(apart.namespaces, "127.0.0.1", 8090) == place.gateway
            assert not reaches(outside, outside.gateway, 8090)


def test_every_network_that_can_carry_a_port_does(apart: Daemon, outside: Host) -> None:
    """One that routes, at the container's own address; one of IPv4 and one of IPv6, each at the host's addresses."""
    routed = {f"{BRIDGE}gateway_mode_ipv4": "routed"}
    subnets = {"nat4": "10.86.0.0/24", "nat6": "fd86::/64", "routed4": "10.86.1.0/24"}
    with (
        network(apart, "nat4", IPAM=pool(subnets["nat4"])),
        network(apart, "nat6", EnableIPv4=False, EnableIPv6=True, IPAM=pool(subnets["nat6"])),
        network(apart, "routed4", Options=routed, IPAM=pool(subnets["routed4"])),
        container(apart, "nat4", ["8099:80"]) as place,
    ):
        for name in ("routed4", "nat6"):
            body = {"Container": place.id, "EndpointConfig": {"GwPriority": -1}}
            assert apart.request("POST", f"/networks/{name}/connect", body).status == 200
        outside.route(subnets["routed4"])
        settings = apart.inspect(place.id)["NetworkSettings"]["Networks"]
        with serving(place, 80), serving(place, 80, address="::"):
            assert ask(outside, outside.gateway, 8099) == outside.address
            assert ask(outside, outside.gateway6, 8099) == outside.address6, "by the rules"
            assert ask(apart.namespaces, "::1", 8099) == settings["nat6"]["IPv6Gateway"]
            assert ask(outside, settings["routed4"]["IPAddress"], 80) == outside.address
