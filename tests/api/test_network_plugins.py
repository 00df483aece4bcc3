"""Networks and addresses of drivers that are plugins, by docker's protocol of remote drivers."""

import contextlib
import shutil
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.networking import connect, container, disconnect, inside, networks, on, outcome, shown
from tests.harness.daemon import Daemon
from tests.harness.fixtures import running
from tests.harness.plugin import Object, Plugin

POOL, POOL6 = "10.91.0.0/24", "fd91::/64"


class Net(Plugin):
    """A network driver whose networks are bridges that it makes on the daemon's machine."""

    def __init__(self, daemon: Daemon) -> None:
        super().__init__("NetworkDriver")
        self.daemon = daemon
        self.gateway = "10.91.0.1"
        self.routes: list[Object] = []
        self.methods |= {
            f"NetworkDriver.{name}": method
            for name, method in {
                "GetCapabilities": lambda _: b'{"Scope": "local"} {"Scope": "another"} and more',
                "CreateNetwork": self._create,
                "DeleteNetwork": self._delete,
                "CreateEndpoint": lambda asked: (
                    {} if asked["Interface"]["MacAddress"] else {"Interface": {"MacAddress": "02:91:00:00:00:07"}}
                ),
                "DeleteEndpoint": lambda _: {},
                "Join": self._join,
                "Leave": self._leave,
            }.items()
        }

    def links(self, *lines: str) -> None:
        """Have ip(8) do something on the daemon's machine."""
        command = self.daemon.namespaces.command(["ip", "-batch", "-"])
        subprocess.run(command, input="\n".join(lines) + "\n", text=True, check=True)

    def _create(self, asked: Object) -> Object:
        if refused := asked["Options"]["com.docker.network.generic"].get("refused"):
            return {"Err": refused}
        bridge = "p" + asked["NetworkID"][:10]
        self.links(
            f"link add {bridge} type bridge", f"addr add {self.gateway}/24 dev {bridge}", f"link set {bridge} up"
        )
        return {}

    def _delete(self, asked: Object) -> Object:
        self.links(f"link delete p{asked['NetworkID'][:10]}")
        return {}

    def _join(self, asked: Object) -> Object:
        end = asked["EndpointID"][:8]
        bridge = "p" + asked["NetworkID"][:10]
        self.links(f"link add h{end} master {bridge} up type veth peer name c{end}")
        name = {"SrcName": f"c{end}", "DstPrefix": "plug"}
        return {"InterfaceName": name, "Gateway": self.gateway, "StaticRoutes": self.routes}

    def _leave(self, asked: Object) -> None:
        command = self.daemon.namespaces.command(["ip", "link", "delete", f"h{asked['EndpointID'][:8]}"])
        subprocess.run(command, capture_output=True)  # with the container's namespace it may be gone already


class Addresses(Plugin):
    """An IPAM driver with one pool, which gives out what nobody has."""

    def __init__(self) -> None:
        super().__init__("IpamDriver")
        self.taken: list[str] = []
        self.pools: list[str] = []
        self.methods |= {
            f"IpamDriver.{name}": method
            for name, method in {
                "GetCapabilities": lambda _: {"RequiresMACAddress": True},
                "GetDefaultAddressSpaces": lambda _: {
                    "LocalDefaultAddressSpace": "here",
                    "GlobalDefaultAddressSpace": "all",
                },
                "RequestPool": self._request_pool,
                "ReleasePool": lambda asked: self.pools.remove(asked["PoolID"]) or {},
                "RequestAddress": self._request,
                "ReleaseAddress": lambda asked: self.taken.remove(asked["Address"]) or {},
            }.items()
        }

    def _request_pool(self, asked: Object) -> Object:
        if asked["Options"].get("full"):
            return {"Error": "there is no pool left"}
        self.pools.append("mine")
        return {"PoolID": "mine", "Pool": asked["Pool"] or POOL}

    def _request(self, asked: Object) -> Object:
        gateway = asked["Options"].get("RequestAddressType") == "com.docker.network.gateway"
        wanted = asked["Address"] or ("10.91.0.1" if gateway else "")
        address = wanted or next(each for n in range(77, 90) if (each := f"10.91.0.{n}") not in self.taken)
        if address in self.taken:
            return {"Error": "somebody has it"}
        self.taken.append(address)
        return {"Address": address + "/24"}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the daemon looks for plugins."""
    return tmp_path_factory.mktemp("plugins")


@pytest.fixture(scope="module")
def plugged(world, directory: Path) -> Iterator[Daemon]:
    """A daemon that has plugins."""
    daemon = world.daemon((f"--plugin-dir={directory}",), world.machine())
    with running(daemon):
        daemon.import_busybox()
        yield daemon


@pytest.fixture
def net(directory: Path, plugged: Daemon) -> Iterator[Net]:
    """The network driver `wires`."""
    with Net(plugged).serving(directory / "wires.sock") as plugin:
        yield plugin


@pytest.fixture
def addresses(directory: Path) -> Iterator[Addresses]:
    """The IPAM driver `numbers`."""
    with Addresses().serving(directory / "numbers.sock") as plugin:
        yield plugin


def test_a_container_is_in_a_plugins_network(plugged: Daemon, net: Net) -> None:
    """It has the plugin's interface, MAC address, gateway and routes; all of it is given back."""
    net.routes = [
        {"Destination": "192.0.2.0/24", "RouteType": 0, "NextHop": "10.91.0.9"},
        {"Destination": "198.51.100.0/24", "RouteType": 1},
    ]
    body = {"Driver": "wires", "Options": {"color": "red"}, "IPAM": {"Config": [{"Subnet": POOL}]}}
    with networks(plugged, plug=body) as made:
        (asked,) = net.asked("NetworkDriver.CreateNetwork")
        assert asked == {
            "NetworkID": made["plug"],
            "Options": {
                "com.docker.network.generic": {"color": "red"},
                "com.docker.network.enable_ipv4": True,
                "com.docker.network.enable_ipv6": False,
            },
            "IPv4Data": [{"AddressSpace": "LocalDefault", "Pool": POOL, "Gateway": "10.91.0.1/24", "AuxAddresses": {}}],
            "IPv6Data": [],
        }
        assert "wires" in plugged.request("GET", "/info").json()["Plugins"]["Network"]
        with container(plugged, **on("plug")) as one:
            endpoint = shown(plugged, one)["plug"]
            assert (endpoint["IPAddress"], endpoint["Gateway"]) == ("10.91.0.2", "10.91.0.1")
            assert endpoint["MacAddress"] == "02:91:00:00:00:07"
            seen = inside(plugged, one, "ip -o -4 addr show dev plug0; cat /sys/class/net/plug0/address; ip route")
            for text in ("10.91.0.2/24", "02:91:00:00:00:07", "default via 10.91.0.1", "192.0.2.0/24 via 10.91.0.9"):
                assert text in seen
            assert "198.51.100.0/24 dev plug0" in seen
            assert "1 packets received" in inside(plugged, one, "ping -c 1 -W 5 10.91.0.1")
            (joined,) = net.asked("NetworkDriver.Join")
            assert joined["EndpointID"] == endpoint["EndpointID"] and joined["SandboxKey"].endswith("/ns/net")
        for method in ("Leave", "DeleteEndpoint"):
            assert [each["EndpointID"] for each in net.asked(f"NetworkDriver.{method}")] == [endpoint["EndpointID"]]
    assert len(net.asked("NetworkDriver.DeleteNetwork")) == 1


def test_a_running_container_comes_and_goes(plugged: Daemon, net: Net) -> None:
    """A disconnect takes the interface away; the container's own link of that name does not get to the host."""
    with networks(plugged, plug={"Driver": "wires", "IPAM": {"Config": [{"Subnet": POOL}]}}):
        with container(plugged, **on("bridge")) as one:
            assert connect(plugged, "plug", one) == (200, "")
            assert "10.91.0." in inside(plugged, one, "ip -o addr show dev plug1")
            assert disconnect(plugged, "plug", one) == (200, "")
            assert (
                "plug" not in inside(plugged, one, "ls /sys/class/net") and len(net.asked("NetworkDriver.Leave")) == 1
            )
            assert connect(plugged, "plug", one) == (200, "")
            before = plugged.namespaces.links()
            target = ["nsenter", f"--target={plugged.inspect(one)['State']['Pid']}", "--net", "ip", "-batch", "-"]
            lines = "link set plug1 down\nlink set plug1 name other\nlink add plug1 type bridge\n"
            subprocess.run(target, input=lines, text=True, check=True)
            assert disconnect(plugged, "plug", one) == (200, "")
            assert plugged.namespaces.links() <= before


BOUND = {"Proto": 6, "IP": "", "Port": 80, "HostIP": "", "HostPort": 8091, "HostPortEnd": 8091}
TOLD = {
    "com.docker.network.endpoint.exposedports": [{"Proto": 6, "Port": 80}, {"Proto": 17, "Port": 90}],
    "com.docker.network.portmap": [BOUND],
}
PORTS = {"80/tcp": [{"HostIp": "", "HostPort": "8091"}]}
OPEN = {"80/tcp": [{"HostIp": each, "HostPort": "8091"} for each in ("0.0.0.0", "::")], "90/udp": None}
SHUT = {"80/tcp": None, "90/udp": None}


def said(net: Net, *methods: str) -> list[str]:
    """What the plugin was asked of these, in order, since the last look."""
    found = [method.rpartition(".")[2] for method, _ in net.calls if method.rpartition(".")[2] in methods]
    net.calls.clear()
    return found


def ports(daemon: Daemon, name: str) -> Object:
    """The published ports of a container."""
    return daemon.inspect(name)["NetworkSettings"]["Ports"]


def publishing(first: str, **priorities: int) -> Object:
    """The part of a body that publishes a port in these networks."""
    ends = {name: {"GwPriority": priority} for name, priority in priorities.items()}
    return {
        **on(first, PortBindings=PORTS),
        "ExposedPorts": {"80/tcp": {}, "90/udp": {}},
        "NetworkingConfig": {"EndpointsConfig": ends},
    }


WAY = ("ProgramExternalConnectivity", "RevokeExternalConnectivity")


@pytest.mark.parametrize("knows", [True, False], ids=["", "a plugin that knows nothing of it"])
def test_ports_go_the_way_out_as_with_dockerd(plugged: Daemon, net: Net, knows: bool) -> None:
    """The plugin publishes those of a container whose default route leads to it, and else the bridge does."""
    if knows:
        net.methods |= {f"NetworkDriver.{name}": lambda _: {} for name in WAY}
    programmed, revoked = WAY
    with networks(plugged, plug={"Driver": "wires", "IPAM": {"Config": [{"Subnet": POOL}]}}, near={}):
        said(net)
        with container(plugged, **publishing("plug", plug=0)) as one:
            assert [net.asked(f"NetworkDriver.{each}")[-1]["Options"] for each in ("Join", *WAY[:1])] == [TOLD, TOLD]
            first = net.asked("NetworkDriver.CreateEndpoint")[-1]["Options"]
            assert first == {**TOLD, "com.docker.network.endpoint.exposedports": [{"Proto": 6, "Port": 80}]}
            assert not any(ports(plugged, one).values())
        assert said(net, "Join", "Leave", *WAY) == ["Join", programmed, revoked, "Leave"]
        with container(plugged, **publishing("plug", plug=1, near=0)) as one:
            assert ports(plugged, one) == SHUT
            assert disconnect(plugged, "plug", one) == (200, "") and ports(plugged, one) == OPEN
            assert said(net, *WAY) == [programmed, revoked]
            assert connect(plugged, "plug", one, GwPriority=1) == (200, "") and ports(plugged, one) == SHUT
            assert said(net, *WAY) == [programmed]
        assert said(net, *WAY) == [revoked]
        with container(plugged, **publishing("near", near=1, plug=0)) as one:
            assert ports(plugged, one) == OPEN and said(net, *WAY) == []
            assert disconnect(plugged, "near", one) == (200, "") and said(net, *WAY) == [programmed]
            plugged.restart()  # the next daemon knows what the plugin was told
            assert said(net, *WAY) == []
            assert connect(plugged, "near", one, GwPriority=1) == (200, "") and ports(plugged, one) == OPEN
            assert said(net, *WAY) == [revoked]
        assert said(net, *WAY) == []
        net.gateway = ""  # whatever the network's pool has
        with container(plugged, **publishing("plug", plug=1, near=0)) as one:
            assert ports(plugged, one) == OPEN and said(net, *WAY) == []
        net.gateway = "10.91.0.1"


def test_a_plugin_that_cannot_publish_refuses_the_start(plugged: Daemon, net: Net) -> None:
    net.methods[f"NetworkDriver.{WAY[0]}"] = lambda _: {"Err": "no way"}
    with (
        networks(plugged, plug={"Driver": "wires", "IPAM": {"Config": [{"Subnet": POOL}]}}),
        container(plugged, begin=False, **publishing("plug", plug=0)) as one,
    ):
        status, text = outcome(plugged, f"/containers/{one}/start")
        end = net.asked("NetworkDriver.Join")[-1]["EndpointID"]
        words = f"driver failed programming external connectivity on endpoint {one} ({end}): "
        assert status == 500 and f"failed to set up container networking: {words}" in text and text.endswith("no way")
        assert [each["EndpointID"] for each in net.asked("NetworkDriver.DeleteEndpoint")] == [end]


def test_addresses_are_of_a_plugin(plugged: Daemon, addresses: Addresses) -> None:
    """In a network of the engine's own: the pool, the gateway, and each container's address; and back again."""
    with networks(plugged, numbered={"IPAM": {"Driver": "numbers", "Options": {"a": "b"}}}):
        (asked,) = addresses.asked("IpamDriver.RequestPool")
        assert asked == {"AddressSpace": "here", "Pool": "", "SubPool": "", "V6": False, "Options": {"a": "b"}}
        network = plugged.request("GET", "/networks/numbered").json()
        assert network["IPAM"]["Config"] == [{"Subnet": POOL, "Gateway": "10.91.0.1"}]
        with container(plugged, **on("numbered")) as one, container(plugged, **on("numbered")) as two:
            assert [shown(plugged, each)["numbered"]["IPAddress"] for each in (one, two)] == [
                "10.91.0.77",
                "10.91.0.78",
            ]
            given = addresses.asked("IpamDriver.RequestAddress")[1]["Options"]
            assert given == {"com.docker.network.endpoint.macaddress": shown(plugged, one)["numbered"]["MacAddress"]}
            assert "1 packets received" in inside(plugged, one, "ping -c 1 -W 5 10.91.0.78")
            plugged.restart()
            assert shown(plugged, one)["numbered"]["IPAddress"] == "10.91.0.77"
        assert addresses.taken == ["10.91.0.1"]
    assert addresses.taken == addresses.pools == []


def test_what_a_plugin_refuses_leaves_nothing(plugged: Daemon, net: Net, addresses: Addresses) -> None:
    """With the plugin's words; the addresses go back, and the name is free."""

    def made(**body: object) -> tuple[int, str]:
        return outcome(plugged, "/networks/create", {"Name": "refused", **body})

    assert made(IPAM={"Driver": "numbers", "Options": {"full": "1"}}) == (500, "remote: there is no pool left")
    ipam = {"Driver": "numbers"}
    status, text = made(Driver="wires", Options={"refused": "no such color"}, IPAM=ipam)
    assert status == 500 and "no such color" in text
    assert addresses.taken == addresses.pools == []
    assert "refused" not in {each["Name"] for each in plugged.request("GET", "/networks").json()}
    with networks(plugged, plug={"Driver": "wires", "IPAM": ipam}):
        for method, answer in (
            ("Join", {"InterfaceName": {"SrcName": "nothing0", "DstPrefix": "plug"}}),
            ("Join", {"InterfaceName": {"SrcName": "../x"}}),
            ("Join", {"Gateway": "nowhere"}),
            ("CreateEndpoint", {"Interface": {"Address": "10.91.0.5/24"}}),
            ("CreateEndpoint", {"Err": "full"}),
            ("CreateEndpoint", b"[]"),
        ):
            before = net.methods[f"NetworkDriver.{method}"]
            net.methods[f"NetworkDriver.{method}"] = lambda _, answer=answer: answer
            with container(plugged, begin=False, **on("plug")) as one:
                status, _ = outcome(plugged, f"/containers/{one}/start")
                assert status >= 400, (method, answer)
                assert addresses.taken == ["10.91.0.1"], (method, answer)
                net.methods[f"NetworkDriver.{method}"] = before
                plugged.begin(one)


@pytest.mark.parametrize("refused", [False, True])
def test_a_network_is_nobodys_while_its_plugin_makes_it(
    plugged: Daemon, net: Net, addresses: Addresses, tmp_path: Path, refused: bool
) -> None:
    """It is neither removed nor joined, and its name is taken; if the plugin refuses, nothing of it stays."""
    asked, going_on = threading.Event(), threading.Event()
    create = net.methods["NetworkDriver.CreateNetwork"]

    def slow(arguments: Object) -> Object:
        asked.set()
        going_on.wait(60)
        return {"Err": "no"} if refused else create(arguments)

    net.methods["NetworkDriver.CreateNetwork"] = slow
    answers: list[tuple[int, str]] = []
    body = {"Name": "slow", "Driver": "wires", "IPAM": {"Driver": "numbers"}}
    asking = threading.Thread(target=lambda: answers.append(outcome(plugged, "/networks/create", body)))
    with container(plugged) as other:
        asking.start()
        try:
            assert asked.wait(30)
            assert plugged.request("DELETE", "/networks/slow").status == 404
            assert connect(plugged, "slow", other)[0] == 404
            assert plugged.request("POST", "/networks/prune").json()["NetworksDeleted"] is None
            assert outcome(plugged, "/networks/create", body)[0] == 409
        finally:
            going_on.set()
            asking.join()
        assert answers == [(500, "no") if refused else (201, "")]
        if not refused:
            assert connect(plugged, "slow", other)[0] == 200
            assert disconnect(plugged, "slow", other) == (200, "")
            assert plugged.request("DELETE", "/networks/slow").status == 204
    assert addresses.taken == addresses.pools == []
    for file in plugged.data_root.glob("engine.db*"):  # the daemon's own are locked
        shutil.copy(file, tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / "engine.db")) as database:
        assert database.execute("SELECT count(*) FROM pool_ids").fetchone() == (0,)


def test_a_driver_that_is_not_there_yet_is_looked_for_again(plugged: Daemon, directory: Path) -> None:
    """For some seconds; one that does not come is not found."""
    begun = time.monotonic()
    words = 'plugin "nobody" not found'
    assert outcome(plugged, "/networks/create", {"Name": "late", "Driver": "nobody"}) == (404, words)
    assert outcome(plugged, "/networks/create", {"Name": "late", "IPAM": {"Driver": "nobody"}}) == (404, words)
    assert 1.0 < time.monotonic() - begun < 60.0
    answers: list[tuple[int, str]] = []
    body = {"Name": "late", "Driver": "late", "IPAM": {"Config": [{"Subnet": POOL}]}}
    asking = threading.Thread(
        target=lambda: answers.append((plugged.request("POST", "/networks/create", body).status, ""))
    )
    asking.start()
    with Net(plugged).serving(directory / "late.sock"):
        asking.join()
        assert answers == [(201, "")]
        assert plugged.request("DELETE", "/networks/late").status == 204


def test_a_network_goes_though_its_plugin_has_gone(plugged: Daemon, directory: Path) -> None:
    """The failure is logged; a container that was in it ends and goes too."""
    with Net(plugged).serving(directory / "brief.sock") as plugin:
        body = {"Name": "brief", "Driver": "brief", "IPAM": {"Config": [{"Subnet": POOL}]}}
        assert plugged.request("POST", "/networks/create", body).status == 201
        one = plugged.create("sleep", "600", HostConfig={"NetworkMode": "brief"})
        plugged.begin(one)
        bridge = "p" + plugged.request("GET", "/networks/brief").json()["Id"][:10]
    plugged.remove(one)
    assert plugged.request("DELETE", "/networks/brief").status == 204
    assert "is not told of DeleteNetwork" in plugged.log
    plugin.links(f"link delete {bridge}")
