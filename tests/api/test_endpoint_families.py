"""Endpoints without IPv6, and networks that cannot be the way out."""

from collections.abc import Iterator

import pytest

from tests.api.networking import (
    connect,
    container,
    disconnect,
    endpoints,
    inside,
    members,
    networks,
    on,
    shown,
    subnet,
)
from tests.harness.daemon import Daemon

pytestmark = pytest.mark.usefixtures("busybox")

RED, BLUE, SIXTH = "10.211.1", "10.211.2", "10.211.6"
SYSCTLS = "com.docker.network.endpoint.sysctls"
SIX = {"EnableIPv6": True, "IPAM": {"Config": [{"Subnet": f"{SIXTH}.0/24"}, {"Subnet": "fd00:211:6::/64"}]}}


@pytest.fixture(scope="module")
def red(daemon: Daemon) -> Iterator[str]:
    """The network `red`."""
    with networks(daemon, red=subnet(f"{RED}.0/24")):
        yield "red"


@pytest.fixture(scope="module")
def blue(daemon: Daemon) -> Iterator[str]:
    """The network `blue`."""
    with networks(daemon, blue=subnet(f"{BLUE}.0/24")):
        yield "blue"


@pytest.mark.parametrize("name", ["all", "lo"])
def test_a_container_that_wants_no_ipv6_has_none_in_a_network_that_has(daemon: Daemon, name: str) -> None:
    """`--sysctl net.ipv6.conf.all.disable_ipv6=1`: no address, no line of hosts; nor through a network of later."""
    off = {f"net.ipv6.conf.{name}.disable_ipv6": "1"}
    asked = endpoints(six={"IPAMConfig": {"IPv6Address": "fd00:211:6::66"}})
    with (
        networks(daemon, six=SIX, later={"EnableIPv6": True}),
        container(daemon, **on("six")) as usual,
        container(daemon, **on("six", Sysctls=off), **asked) as one,
    ):
        address = shown(daemon, usual)["six"]["GlobalIPv6Address"]
        assert address and f"{address}\t" in inside(daemon, usual, "cat /etc/hosts")
        assert connect(daemon, "later", one) == (200, "")
        ours = shown(daemon, one)
        assert [ours[each]["GlobalIPv6Address"] for each in ("six", "later")] == ["", ""]
        assert [ours[each]["GlobalIPv6PrefixLen"] for each in ("six", "later")] == [0, 0]
        assert inside(daemon, one, "ip -6 addr") == ""
        hostname = daemon.inspect(one)["Config"]["Hostname"]
        lines = [f"{ours[each]['IPAddress']}\t{hostname}" for each in ("six", "later")]
        assert inside(daemon, one, "cat /etc/hosts").split("\n") == ["127.0.0.1\tlocalhost", *lines]
        assert "0% packet loss" in inside(daemon, usual, f"ping -4 -c 1 -W 9 {one}").replace("100%", "all")


def test_an_endpoint_that_switches_ipv6_off_has_ipv4_alone(daemon: Daemon) -> None:
    """`--driver-opt ...endpoint.sysctls=net.ipv6.conf.IFNAME.disable_ipv6=1`; the container's others have both."""
    off = {SYSCTLS: "net.ipv6.conf.IFNAME.disable_ipv6=0,net.ipv6.conf.IFNAME.disable_ipv6=1"}
    asked = endpoints(six={"IPAMConfig": {"IPv6Address": "fd00:211:6::66"}, "DriverOpts": off})
    ports = {"80/tcp": [{"HostPort": ""}]}
    with (
        networks(daemon, six=SIX, later={"EnableIPv6": True}, last={"EnableIPv6": True}),
        container(daemon, **on("six", PortBindings=ports), **asked, ExposedPorts={"80/tcp": {}}) as one,
    ):
        assert connect(daemon, "later", one) == connect(daemon, "last", one, DriverOpts=off) == (200, "")
        ours = shown(daemon, one)
        found = {name: bool(ours[name]["GlobalIPv6Address"]) for name in ("six", "later", "last")}
        assert found == {"six": False, "later": True, "last": False}
        assert ours["six"]["GlobalIPv6PrefixLen"] == 0 and not ours["six"]["IPv6Gateway"]
        assert inside(daemon, one, "ip -6 addr show eth0; ip -6 addr show eth2") == ""
        assert "fd00:211:6" not in inside(daemon, one, "cat /etc/hosts")
        assert daemon.inspect(one)["NetworkSettings"]["Ports"]["80/tcp"]
        assert "0% packet loss" in inside(daemon, one, f"ping -4 -c 1 -W 9 {one}").replace("100%", "all")


def test_a_network_is_left_though_the_other_cannot_be_the_way_out(daemon: Daemon, red: str, blue: str) -> None:
    """The container has taken the other interface down itself; it can come back, and be started again."""
    with container(daemon, **on("red", CapAdd=["NET_ADMIN"]), **endpoints(red={"GwPriority": 1}, blue={})) as one:
        inside(daemon, one, "ip link set eth1 down")
        assert disconnect(daemon, "red", one) == (200, "")
        assert set(shown(daemon, one)) == {"blue"} and one not in members(daemon, "red")
        assert connect(daemon, "red", one) == (200, "")
        assert daemon.request("POST", f"/containers/{one}/restart?t=0").status == 204
        assert set(shown(daemon, one)) == {"red", "blue"}


def test_a_connect_whose_default_route_is_taken_leaves_nothing(daemon: Daemon, blue: str) -> None:
    """The container has set one itself."""
    inner = {"Internal": True, **subnet("10.211.9.0/24")}
    with networks(daemon, inner=inner), container(daemon, **on("inner", CapAdd=["NET_ADMIN"])) as one:
        inside(daemon, one, "ip route add default via 10.211.9.1")
        status, text = connect(daemon, "blue", one)
        assert (status, text.endswith("failed to set gateway: file exists")) == (500, True), text
        assert set(shown(daemon, one)) == {"inner"} and one not in members(daemon, "blue")
        assert inside(daemon, one, "ls /sys/class/net").split() == ["eth0", "lo"]
        assert "via 10.211.9.1" in inside(daemon, one, "ip route show default")
        inside(daemon, one, "ip route delete default")
        assert connect(daemon, "blue", one) == (200, "")
        assert set(shown(daemon, one)) == {"inner", "blue"}
