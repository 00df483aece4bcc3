"""The daemon's settings of networks, each as a container or the host sees it."""

from collections.abc import Iterator

import pytest

from tests.api.networking import inside
from tests.harness import leaks
from tests.harness.daemon import Daemon

OPTIONS = [
    *("--dns", "192.0.2.53", "--dns", "2001:db8::53", "--dns-search", "example.org", "--dns-opt", "ndots:3"),
    *("--host-gateway-ip", "192.0.2.1", "--ip", "127.0.0.1", "--icc=false"),
    *("--default-address-pool", "base=10.66.0.0/16,size=24", "--default-address-pool", "base=fd66::/48,size=64"),
    *("--default-network-opt", "bridge=com.docker.network.driver.mtu=1400"),
]


@pytest.fixture(scope="module")
def set_up(world) -> Iterator[Daemon]:
    """A daemon with all of them, on a machine of its own."""
    one = Daemon(world.directory(), world.machine(), OPTIONS).start()
    one.import_busybox()
    yield one
    one.close()


def on(network: str, **more: object) -> dict:
    """A container's HostConfig on this network."""
    return {"HostConfig": {"NetworkMode": network, **more}}


@pytest.fixture
def network(set_up: Daemon) -> Iterator[str]:
    """A network that names nothing."""
    identifier = set_up.request("POST", "/networks/create", {"Name": "plain", "EnableIPv6": True}).json()["Id"]
    yield "plain"
    assert set_up.request("DELETE", f"/networks/{identifier}").status == 204


def test_containers_without_servers_of_their_own_have_the_daemons(set_up: Daemon) -> None:
    """Servers, search domains and options; each kind that the container names takes the place of the daemon's."""
    lines = set_up.shell("cat /etc/resolv.conf", **on("bridge")).splitlines()
    assert {"nameserver 192.0.2.53", "nameserver 2001:db8::53", "search example.org", "options ndots:3"} <= set(lines)
    lines = set_up.shell(
        "cat /etc/resolv.conf", **on("bridge", Dns=["192.0.2.9"], DnsSearch=["a.example"])
    ).splitlines()
    assert {"nameserver 192.0.2.9", "search a.example", "options ndots:3"} <= set(lines)
    assert "nameserver 192.0.2.53" not in lines


def test_host_gateway_is_what_the_daemon_says(set_up: Daemon) -> None:
    """In the place of the default bridge's address."""
    hosts = set_up.shell("cat /etc/hosts", **on("bridge", ExtraHosts=["up:host-gateway"]))
    assert "192.0.2.1\tup" in hosts


def test_networks_come_from_the_pools_with_the_options(set_up: Daemon, network: str) -> None:
    """The default one has the first piece, and not the options."""
    shown = set_up.request("GET", "/networks/bridge").json()
    assert shown["IPAM"]["Config"] == [{"Subnet": "10.66.0.0/24", "Gateway": "10.66.0.1"}]
    shown = set_up.request("GET", f"/networks/{network}").json()
    assert [each["Subnet"] for each in shown["IPAM"]["Config"]] == ["10.66.1.0/24", "fd66::/64"]
    assert shown["Options"] == {"com.docker.network.driver.mtu": "1400"}
    assert set_up.shell("cat /sys/class/net/eth0/mtu", **on(network)) == "1400"
    assert set_up.shell("cat /sys/class/net/eth0/mtu", **on("bridge")) == "1500"


def test_ports_are_published_at_the_daemons_address(set_up: Daemon) -> None:
    """Where the container names none."""
    ports = {"80/tcp": [{"HostPort": "18080"}], "81/tcp": [{"HostIp": "0.0.0.0", "HostPort": "18081"}]}
    one = set_up.create("sleep", "60", **on("bridge", PortBindings=ports), ExposedPorts={"80/tcp": {}, "81/tcp": {}})
    set_up.begin(one)
    shown = set_up.inspect(one)["NetworkSettings"]["Ports"]
    assert shown["80/tcp"] == [{"HostIp": "127.0.0.1", "HostPort": "18080"}]
    assert {"HostIp": "0.0.0.0", "HostPort": "18081"} in shown["81/tcp"]
    set_up.remove(one)


def test_containers_of_the_default_network_are_kept_from_each_other(set_up: Daemon, network: str) -> None:
    """--icc=false; another network's are not."""
    for where, reached in (("bridge", False), (network, True)):
        listener = set_up.create("sh", "-c", "while :; do nc -l -p 80 -e echo here; done", **on(where))
        set_up.begin(listener)
        address = set_up.inspect(listener)["NetworkSettings"]["Networks"][where]["IPAddress"]
        once = f"nc -w 1 {address} 80 2>/dev/null"
        script = f"i=0; until {once} || [ $i = 500 ]; do i=$((i + 1)); sleep 0.02; done" if reached else f"{once}; true"
        assert (set_up.shell(script, **on(where)) == "here") is reached
        set_up.remove(listener)


def test_a_link_that_is_taken_away_closes_what_it_had_opened(set_up: Daemon) -> None:
    """--icc=false: `docker rm --link` of the last alias; one of two aliases leaves the way open."""
    listens = ["sh", "-c", "while :; do nc -l -p 80 -e echo here; done"]
    other = set_up.create(*listens, **on("bridge"), ExposedPorts={"80/tcp": {}})
    set_up.begin(other)
    linked = set_up.create("sleep", "600", **on("bridge", Links=[f"{other}:db", f"{other}:cache"]))
    set_up.begin(linked)
    address = set_up.inspect(other)["NetworkSettings"]["Networks"]["bridge"]["IPAddress"]
    once = f"nc -w 1 {address} 80 2>/dev/null"
    opened = f"i=0; until {once} || [ $i = 500 ]; do i=$((i + 1)); sleep 0.02; done"
    name = set_up.inspect(linked)["Name"]
    try:
        assert inside(set_up, linked, opened) == "here"
        assert set_up.request("DELETE", f"/containers{name}/db?link=1").status == 204
        assert inside(set_up, linked, opened) == "here"
        assert set_up.request("DELETE", f"/containers{name}/cache?link=1").status == 204
        assert inside(set_up, linked, f"{once}; true") == ""
    finally:
        set_up.remove(linked)
        set_up.remove(other)


def test_a_daemon_that_may_have_no_firewall_makes_none(world) -> None:
    """--iptables=false and --ip6tables=false: containers have their network, and the host has no table."""
    one = Daemon(world.directory(), world.machine(), ["--iptables=false", "--ip6tables=false"]).start()
    try:
        one.import_busybox()
        running = one.create("sleep", "60", **on("bridge"))
        one.begin(running)
        assert "engine0" in one.namespaces.links()
        assert leaks.tables(one.namespaces) == {}
    finally:
        one.close()
