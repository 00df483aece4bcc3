"""The walls between networks, by traffic: what is hidden, what is kept apart, and what others have put up stays."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.harness.daemon import Daemon
from tests.harness.fixtures import World, running
from tests.harness.hosts import Host, ask, reaches, run, serving
from tests.network.places import BRIDGE, Place, container, network, pool

QUICKLY = 0.15


@pytest.fixture(scope="module")
def inner(apart: Daemon) -> Iterator[Place]:
    """A container on the default network, with something listening."""
    with container(apart) as place, serving(place, 80):
        yield place


def nft(daemon: Daemon, *words: str) -> str:
    """What nft(8) says on the daemon's machine."""
    done = run(daemon.namespaces, "nft", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def silent(*asked: tuple) -> bool:
    """Whether none of these (place, address, port, kind) gets anything back in a moment; what is dropped is silent."""
    with ThreadPoolExecutor(len(asked)) as threads:
        return not any(threads.map(lambda each: reaches(*each, timeout=QUICKLY), asked))


def test_a_server_outside_sees_the_hosts_address(apart: Daemon, outside: Host, inner: Place) -> None:
    """Masquerade, by TCP and UDP: the container has no address that anybody outside could answer to."""
    for kind in ("tcp", "udp"):
        with serving(outside, 7000, kind):
            assert ask(inner, outside.address, 7000, kind) == outside.gateway


def test_nobody_outside_reaches_a_container_by_its_own_address(apart: Daemon, outside: Host, inner: Place) -> None:
    """A neighbour who knows the way (a route over the host) is not let in; the host itself is."""
    outside.route("172.16.0.0/12")
    assert silent((outside, inner.address, 80))
    assert ask(apart.namespaces, inner.address, 80) == inner.gateway


def test_networks_do_not_reach_each_other(apart: Daemon, inner: Place) -> None:
    """A container of another network is not reached; one of the same network is, and sees who asks."""
    with network(apart, "else"), container(apart, "else") as there, container(apart, "else") as beside:
        with serving(there, 80), serving(there, 80, "udp"):
            ways = [(inner, there.address, 80), (inner, there.address, 80, "udp"), (there, inner.address, 80)]
            assert silent(*ways)
            for kind in ("tcp", "udp"):
                assert ask(beside, there.address, 80, kind) == beside.address


def test_what_stays_on_one_bridge_is_not_tracked(apart: Daemon, inner: Place) -> None:
    """Traffic between containers costs what a plain bridge does: the kernel keeps no account of it."""
    with container(apart) as beside:
        before = tracked(apart)
        for _ in range(50):
            assert ask(beside, inner.address, 80) == beside.address
        assert tracked(apart) < before + 50


def tracked(daemon: Daemon) -> int:
    """How many connections the kernel of the daemon's machine keeps account of."""
    return int(run(daemon.namespaces, "cat", "/proc/sys/net/netfilter/nf_conntrack_count").stdout)


def test_an_internal_network_leads_nowhere(apart: Daemon, outside: Host) -> None:
    """Its containers reach each other and the bridge's own address, and nothing else, whatever routes they have."""
    pools = {"Config": [{"Subnet": "10.70.0.0/24", "Gateway": "10.70.0.1"}, {"Subnet": "fd71::/64"}]}
    with network(apart, "inside", Internal=True, EnableIPv6=True, IPAM=pools):
        with container(apart, "inside") as one, container(apart, "inside", ["8100:80"]) as two:
            assert not two.ports.get("80/tcp")
            way_out = ["ip", "route", "add", "default", "via", "10.70.0.1"]
            done = run(apart.namespaces, "nsenter", f"--target={one.pid}", "--net", *way_out)
            assert done.returncode == 0, done.stderr
            outside.route("10.70.0.0/24")
            with serving(two, 80), serving(outside, 7001, "udp") as seen, serving(apart.namespaces, 7002):
                assert ask(one, two.address, 80) == one.address
                assert ask(one, "10.70.0.1", 7002) == one.address
                with serving(two, 80, address="::"), serving(apart.namespaces, 7003, address="::"):
                    assert ask(one, two.address6, 80) == one.address6
                    assert ask(one, "fd71::1", 7003) == one.address6
                with container(apart, ports=["8101:81"]) as published, serving(published, 81):
                    others = [(one, outside.gateway, 7002), (one, outside.gateway, 8101), (one, "10.70.0.1", 8101)]
                    assert silent((one, outside.address, 7001, "udp"), *others) and not seen.seen


def test_a_network_without_icc_keeps_its_containers_apart(apart: Daemon, outside: Host) -> None:
    """Docker's enable_icc=false: they reach the outside and each other's published ports, not each other."""
    body = {"Options": {BRIDGE + "enable_icc": "false"}, "IPAM": pool("10.71.0.0/24")}
    with network(apart, "cells", **body), container(apart, "cells") as one:
        with (
            container(apart, "cells", ["8102:80"]) as two,
            serving(two, 80),
            serving(two, 80, "udp"),
            serving(outside, 7003),
        ):
            assert silent((one, two.address, 80), (one, two.address, 80, "udp"))
            assert ask(one, outside.gateway, 8102) == "10.71.0.1"
            assert ask(one, outside.address, 7003) == outside.gateway
            assert ask(outside, outside.gateway, 8102) == outside.address


@pytest.mark.parametrize("masquerade", ["false", "true"])
def test_masquerade_is_the_networks_to_choose(apart: Daemon, outside: Host, masquerade: str) -> None:
    """Without it a server outside sees the container's own address, and can answer if it has a route."""
    body = {"Options": {BRIDGE + "enable_ip_masquerade": masquerade}, "IPAM": pool("10.72.0.0/24")}
    outside.route("10.72.0.0/24") if masquerade == "false" else None
    with network(apart, "plain", **body), container(apart, "plain") as place, serving(outside, 7004):
        seen = ask(place, outside.address, 7004)
        assert seen == (place.address if masquerade == "false" else outside.gateway)


def test_the_address_that_servers_outside_see_may_be_chosen(apart: Daemon, outside: Host) -> None:
    """`com.docker.network.host_ipv4`: another address of the host than that of the cable."""
    run(apart.namespaces, "ip", "addr", "add", "198.19.0.1/32", "dev", "lo")
    outside.route("198.19.0.1/32")
    options = {"com.docker.network.host_ipv4": "198.19.0.1"}
    with network(apart, "named", Options=options, IPAM=pool("10.73.0.0/24")), container(apart, "named") as place:
        with serving(outside, 7005):
            assert ask(place, outside.address, 7005) == "198.19.0.1"


def test_a_routed_network_is_reached_at_its_own_addresses(apart: Daemon, outside: Host) -> None:
    """`gateway_mode_ipv4=routed`: no translation either way; of its ports only the published ones are open."""
    outside.route("10.74.0.0/24")
    body = {"Options": {BRIDGE + "gateway_mode_ipv4": "routed"}, "IPAM": pool("10.74.0.0/24")}
    with network(apart, "routed", **body), container(apart, "routed", ["8103:80"]) as place:
        with serving(place, 80), serving(place, 81), serving(outside, 7006):
            assert ask(outside, place.address, 80) == outside.address
            assert silent((outside, place.address, 81))
            assert ask(place, outside.address, 7006) == place.address
            assert not reaches(outside, outside.gateway, 8103)


@pytest.mark.parametrize("proxy", [True, False])
def test_a_routed_network_reaches_what_others_publish_on_the_host(world: World, proxy: bool) -> None:
    """At an address of the host, with and without the userland proxy, over IPv4 and IPv6."""
    options = ["--ipv6", f"--userland-proxy={str(proxy).lower()}"]
    with running(world.daemon(options, machine=world.machine())) as daemon:
        daemon.import_busybox()
        way = {BRIDGE + f"gateway_mode_ipv{version}": "routed" for version in (4, 6)}
        with network(daemon, "nat", EnableIPv6=True), network(daemon, "way", EnableIPv6=True, Options=way):
            with container(daemon) as plain, container(daemon, "nat", ["8106:80"]) as there:
                with container(daemon, "way") as place, serving(there, 80), serving(there, 80, address="::"):
                    listed = daemon.request("GET", "/networks/bridge").json()["IPAM"]["Config"]
                    assert plain.address and len(listed) == 2
                    for each in listed:
                        assert reaches(place, each["Gateway"].partition("/")[0], 8106), each


def test_an_unprotected_network_is_open(apart: Daemon, outside: Host) -> None:
    """`nat-unprotected`: all ports are reached by who has a route; what goes out is masqueraded."""
    outside.route("10.75.0.0/24")
    body = {"Options": {BRIDGE + "gateway_mode_ipv4": "nat-unprotected"}, "IPAM": pool("10.75.0.0/24")}
    with network(apart, "bare", **body), container(apart, "bare") as place:
        with serving(place, 81), serving(outside, 7007):
            assert ask(outside, place.address, 81) == outside.address
            assert ask(place, outside.address, 7007) == outside.gateway


def test_who_comes_by_a_trusted_interface_reaches_published_ports_directly(apart: Daemon, outside: Host) -> None:
    """`trusted_host_interfaces`: at the container's own address; by any other interface nothing, as before."""
    for net, by, reached in (("10.77.0.0/24", f"eth99:{outside.link}", True), ("10.78.0.0/24", "eth99", False)):
        outside.route(net)
        body = {"Options": {BRIDGE + "trusted_host_interfaces": by}, "IPAM": pool(net)}
        with network(apart, "trusting", **body), container(apart, "trusting", ["8105:80"]) as place:
            with serving(place, 80), serving(place, 81):
                assert silent((outside, place.address, 81))
                if reached:
                    assert ask(outside, place.address, 80) == outside.address
                else:
                    assert silent((outside, place.address, 80))
                assert ask(outside, outside.gateway, 8105) == outside.address


def test_a_daemon_may_let_everybody_reach_published_ports_directly(world: World) -> None:
    """`--allow-direct-routing`: at the containers' own addresses, and no other port of theirs."""
    with running(world.daemon(["--allow-direct-routing"], machine=world.machine())) as daemon:
        daemon.import_busybox()
        with Host(daemon.namespaces) as outside:
            outside.route("10.80.0.0/24")
            with network(daemon, "open", IPAM=pool("10.80.0.0/24")), container(daemon, "open", ["8106:80"]) as place:
                with serving(place, 80), serving(place, 81):
                    assert ask(outside, place.address, 80) == outside.address
                    assert silent((outside, place.address, 81))


def test_packets_with_the_daemons_mark_are_let_in(world: World) -> None:
    """`--bridge-accept-fwmark`: what another program of the host has marked; nothing else, as before."""
    with running(world.daemon(["--bridge-accept-fwmark", "0x2/0x3"], machine=world.machine())) as daemon:
        daemon.import_busybox()
        with Host(daemon.namespaces) as outside:
            outside.route("10.81.0.0/24")
            with network(daemon, "marked", IPAM=pool("10.81.0.0/24")), container(daemon, "marked") as place:
                nft(daemon, "add table inet marks")
                nft(daemon, "add chain inet marks early { type filter hook prerouting priority -150; }")
                nft(daemon, "add rule inet marks early tcp dport 80 meta mark set 0x6")
                nft(daemon, "add rule inet marks early tcp dport 81 meta mark set 0x3")
                with serving(place, 80), serving(place, 81):
                    assert ask(outside, place.address, 80) == outside.address
                    assert silent((outside, place.address, 81))
                nft(daemon, "delete table inet marks")


def test_ipv6_has_the_same_walls(apart: Daemon, outside: Host) -> None:
    """Masqueraded outward, not reached inward, apart from other networks."""
    outside.route("fd70::/16")
    one = {"EnableIPv6": True, "IPAM": {"Config": [{"Subnet": "10.76.0.0/24"}, {"Subnet": "fd70:1::/64"}]}}
    two = {"EnableIPv6": True, "IPAM": {"Config": [{"Subnet": "10.79.0.0/24"}, {"Subnet": "fd70:2::/64"}]}}
    with network(apart, "six1", **one), network(apart, "six2", **two):
        with container(apart, "six1") as here, container(apart, "six1") as beside, container(apart, "six2") as there:
            with serving(here, 80, address="::"), serving(outside, 7008, address="::"):
                assert ask(here, outside.address6, 7008) == outside.gateway6
                assert ask(beside, here.address6, 80) == beside.address6
                assert silent((outside, here.address6, 80), (there, here.address6, 80))


def test_linked_containers_reach_each_other_where_icc_is_off(world: World) -> None:
    """With --icc=false a link opens the exposed ports to the one that names them, to nobody else, kill -9 or not."""
    with running(world.daemon(["--icc=false"], machine=world.machine())) as daemon:
        daemon.import_busybox()
        exposed = {"ExposedPorts": {"80/tcp": {}}}
        target = daemon.create("sleep", "600", name="target", HostConfig={"NetworkMode": "bridge"}, **exposed)
        daemon.begin(target)
        there = Place(daemon, target, "bridge")
        with container(daemon) as stranger, container(daemon, Links=["target:t"]) as friend:
            with serving(there, 80), serving(there, 81):
                for _ in range(2):
                    assert ask(friend, there.address, 80) == friend.address
                    assert silent((friend, there.address, 81), (stranger, there.address, 80))
                    daemon.kill9()
                    daemon.start()


FOREIGN = """
table ip other {
    set keepers { type ipv4_addr; elements = { 192.0.2.1 }; }
    chain forward {
        type filter hook forward priority 10; policy accept;
        ip saddr 192.0.2.0/24 counter packets 0 bytes 0 drop
    }
}
table inet firewall {
    chain input {
        type filter hook input priority 0; policy accept;
        tcp dport 7009 drop
    }
}
"""


def test_other_peoples_tables_are_left_as_they_are(apart: Daemon, outside: Host, inner: Place) -> None:
    """Networks and ports come and go, the daemon is killed and begins anew: their text is the same, and it works."""
    run(apart.namespaces, "sh", "-c", f"nft -f - <<'end'\n{FOREIGN}\nend")
    before = [nft(apart, "list", "table", *name) for name in (("ip", "other"), ("inet", "firewall"))]
    with network(apart, "passing", IPAM=pool("10.80.0.0/24")), container(apart, "passing", ["8104:80"]):
        apart.kill9()
        apart.start()
    assert [nft(apart, "list", "table", *name) for name in (("ip", "other"), ("inet", "firewall"))] == before
    with serving(apart.namespaces, 7009):
        assert silent((outside, outside.gateway, 7009))
    nft(apart, "delete", "table", "ip", "other")
    nft(apart, "delete", "table", "inet", "firewall")


def test_what_somebody_flushes_is_made_again_with_the_next_change(apart: Daemon, outside: Host, inner: Place) -> None:
    """`nft flush ruleset`, as a firewall's restart does: the next container with a port has all of it back."""
    with container(apart, ports=["8105:80"]) as one, serving(one, 80):
        nft(apart, "flush", "ruleset")
        assert not reaches(outside, outside.gateway, 8105)
        with container(apart, ports=["8106:80"]) as two, serving(two, 80):
            assert ask(outside, outside.gateway, 8105) == outside.address
            assert ask(outside, outside.gateway, 8106) == outside.address
            assert silent((outside, inner.address, 80))


def test_after_kill_9_ports_and_walls_stand(apart: Daemon, outside: Host, inner: Place) -> None:
    """While no daemon is there, and with the next one; what ended meanwhile leads nowhere, and its port is free."""
    with container(apart, ports=["8107:80"]) as place, serving(place, 80):
        with container(apart, ports=["8108:80"]) as doomed:
            apart.kill9()
            assert ask(outside, outside.gateway, 8107) == outside.address
            assert silent((outside, inner.address, 80))
            run(apart.namespaces, "kill", "-9", str(doomed.pid))
            apart.start()
            assert "8108" not in nft(apart, "list", "ruleset")
            assert ask(outside, outside.gateway, 8107) == outside.address
            assert silent((outside, inner.address, 80))
        with container(apart, ports=["8108:80"]):
            refused = apart.create("true", HostConfig={"PortBindings": {"80/tcp": [{"HostPort": "8107"}]}})
            assert "already allocated" in apart.request("POST", f"/containers/{refused}/start").message
            apart.remove(refused)


def test_the_hosts_loopback_stays_the_hosts_own(apart: Daemon, inner: Place) -> None:
    """A container that may forge packets sends to 127.0.0.1 over its bridge (CVE-2020-8558): nothing comes back."""
    with container(apart, ports=["8109:80"], Privileged=True) as attacker:
        forge = (
            "ip addr del 127.0.0.1/8 dev lo; echo 1 > /proc/sys/net/ipv4/conf/all/route_localnet; "
            f"ip route add 127.0.0.1/32 via {attacker.gateway}"
        )
        done = run(apart.namespaces, "nsenter", f"--target={attacker.pid}", "--net", "--mount", "sh", "-c", forge)
        assert done.returncode == 0, done.stderr
        with serving(apart.namespaces, 7010, address="127.0.0.1"):
            assert silent((attacker, "127.0.0.1", 7010))
            assert ask(apart.namespaces, "127.0.0.1", 7010) == "127.0.0.1"
