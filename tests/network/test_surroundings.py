"""What the host reaches already is left alone by the daemon's own choices of subnets, at its start and later."""

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.daemon.network import announcing, surroundings
from engine.daemon.network.record import Network
from tests.harness import inplace
from tests.harness.daemon import Daemon
from tests.harness.hosts import _batch, run
from tests.harness.namespaces import Namespaces, entered, socket_of
from tests.harness.pace import patient
from tests.network.places import container, pool

ALL = 3  # ETH_P_ALL
OWN = Network(id="a" * 64, name="own", driver="bridge", created_ns=1, device="own0")


@pytest.fixture
def host() -> Iterator[Namespaces]:
    """A host of the test's own, with a link `lan0`."""
    with Namespaces() as place:
        _batch(place, "link add lan0 type bridge", "link set lan0 up")
        yield place


class Dockerd(Daemon):
    """A daemon that is called dockerd."""

    def arguments(self) -> list[str]:
        """Its command line."""
        words = super().arguments()
        return [str(inplace.program("dockerd", self.root)), *words[words.index("daemon") + 1 :]]


@contextlib.contextmanager
def daemon(place: Namespaces, root: Path, *options: str, kind: type[Daemon] = Daemon) -> Iterator[Daemon]:
    """A daemon on that host."""
    one = kind(root, place, options).start()
    try:
        yield one
    finally:
        one.close()


def subnet(one: Daemon, network: str) -> str:
    """The IPv4 subnet of a network."""
    return one.request("GET", f"/networks/{network}").json()["IPAM"]["Config"][0]["Subnet"]


def created(one: Daemon, name: str) -> str:
    """The subnet of a new network that names none."""
    assert one.request("POST", "/networks/create", {"Name": name}).status == 201
    return subnet(one, name)


def test_addresses_and_routes_of_the_host_are_found(host: Namespaces) -> None:
    """Those of its links, those behind a gateway, not its default route, not those of the engine's own devices."""
    _batch(
        host,
        "link add own0 type bridge",
        f"link set own0 up alias engine:{OWN.id}",
        "addr add 10.1.0.9/24 dev lan0",
        "addr add fd01::9/64 dev lan0 nodad",
        "addr add 10.2.0.1/24 dev own0",
        "route add 10.3.0.0/16 via 10.1.0.1",
        "route add 10.4.0.0/16 dev lan0",
        "route add default via 10.1.0.1",
        "route add 10.5.0.0/16 via 10.1.0.1 table 77",
    )
    with entered(host.keeper.pid):
        found = surroundings.look([OWN])
    assert found.devices == {"lo", "lan0"}
    near, far = ({str(each) for each in side} for side in (found.near, found.far))
    assert {"10.1.0.0/24", "fd01::/64", "10.4.0.0/16", "127.0.0.0/8"} <= near
    assert far == {"10.3.0.0/16"}
    assert not any(each.startswith(("10.2.", "0.0.0.0", "10.5.")) for each in near)


def test_pieces_of_idle_bridges_are_used_when_no_other_is_left(host: Namespaces, world) -> None:
    """Daemons that have ended, or whose data root was wiped, take no piece of the pools for good."""
    _batch(
        host,
        "link add engine0 type bridge",
        f"link set engine0 up alias engine:{'b' * 64}",
        "addr add 10.9.0.1/25 dev engine0",
        "link add engine1 type bridge",
        f"link set engine1 up alias engine:{'c' * 64}",
        "addr add 10.9.0.129/25 dev engine1",
        "link add held type veth peer name in-container",
        "link set held master engine1",
    )
    with daemon(host, world.directory(), "--default-address-pool", "base=10.9.0.0/24,size=25") as one:
        one.import_busybox()
        assert subnet(one, "bridge") == "10.9.0.0/25"
        assert one.shell("ip route | grep -c default", HostConfig={"NetworkMode": "bridge"}) == "1"
        names = host.links()
        assert "engine0" not in names
        assert {"engine1", "engine2"} <= names
        assert "removing the idle bridge engine0 of another engine" in one.log


def test_a_stopped_daemon_leaves_no_bridge_that_nobody_uses(host: Namespaces, world) -> None:
    """The one with a running container stays, and its container's network goes on; the next daemon knows both."""
    with daemon(host, world.directory()) as one:
        one.import_busybox()
        created(one, "used")
        kept = one.create("sleep", "1000", HostConfig={"NetworkMode": "used"})
        one.begin(kept)
        assert one.shell("ip route | grep -c default", HostConfig={"NetworkMode": "bridge"}) == "1"
        assert len(bridges := {name for name in host.links() if name.startswith(("engine", "br-"))}) == 2
        one.stop()
        assert {name for name in host.links() if name.startswith(("engine", "br-"))} == bridges - {"engine0"}
        one.start()
        assert one.shell("ip route | grep -c default", HostConfig={"NetworkMode": "bridge"}) == "1"
        assert "engine0" in host.links()
        one.remove(kept)


def bridges(place: Namespaces) -> set[str]:
    """The bridges of engines on that host, by their names."""
    return {name for name in place.links() if name.startswith(("engine", "docker", "br-"))}


def test_the_default_bridge_is_there_while_any_network_is_in_use(host: Namespaces, world) -> None:
    """People write its address for the host, in containers of other networks; a daemon that ends leaves none."""
    with daemon(host, world.directory()) as one:
        one.import_busybox()
        gateway = one.request("GET", "/networks/bridge").json()["IPAM"]["Config"][0]["Gateway"]
        assert one.request("POST", "/networks/create", {"Name": "net"}).status == 201
        assert not bridges(host)  # nobody has used one yet
        with container(one, "net"):
            assert "engine0" in bridges(host)
            assert one.shell(f"ping -c 1 -W 9 {gateway} >/dev/null && echo here", **ON_NET) == "here"
            one.restart()
            assert "engine0" in bridges(host)
    assert not bridges(host)


ON_NET = {"HostConfig": {"NetworkMode": "net"}}


def test_a_default_bridge_that_cannot_be_keeps_no_other_network_from_its_containers(host: Namespaces, world) -> None:
    """It was there at the start."""
    _batch(host, "addr add 10.44.0.5/24 dev lan0")
    with daemon(host, world.directory(), "--bridge", "lan0") as one:
        one.import_busybox()
        created(one, "net")
        _batch(host, "link delete lan0")
        assert one.shell("ls /sys/class/net | grep -c eth0", **ON_NET) == "1"
        assert "the default bridge could not be set up: bridge device with non default name lan0" in one.log


def test_a_port_is_published_at_the_gateway_of_a_network_that_nobody_was_in(host: Namespaces, world) -> None:
    """Its own network's, another's, the default one's; and again by a daemon that starts."""
    with daemon(host, world.directory()) as one:
        one.import_busybox()
        default = one.request("GET", "/networks/bridge").json()["IPAM"]["Config"][0]["Gateway"]
        gateways = ["10.77.0.1", "10.78.0.1", default]
        for name, subnet_ in (("net", "10.77.0.0/24"), ("other", "10.78.0.0/24")):
            body = {"Name": name, "IPAM": pool(subnet_)}
            assert one.request("POST", "/networks/create", body).status == 201
        with container(one, "net", [f"{each}:8080:80" for each in gateways]) as place:
            assert [each["HostIp"] for each in place.ports["80/tcp"]] == gateways
            assert one.request("POST", f"/containers/{place.id}/stop?t=0").status == 204
            one.restart()
            one.begin(place.id)
            one.restart()
            assert [each["HostIp"] for each in one.inspect(place.id)["NetworkSettings"]["Ports"]["80/tcp"]] == gateways
            assert "could not be" not in one.log and "has taken" not in one.log


def test_a_daemon_of_dockerds_name_has_its_bridges_from_the_start(host: Namespaces, world) -> None:
    """docker0, and those of networks from their creation on; they go with it, and the next one has them all again."""
    root = world.directory()
    with daemon(host, root, kind=Dockerd) as one:
        assert bridges(host) == {"docker0"}
        bridge = one.request("GET", "/networks/bridge").json()
        assert bridge["Options"]["com.docker.network.bridge.name"] == "docker0"
        identifier = one.request("POST", "/networks/create", {"Name": "net"}).json()["Id"]
        name = f"br-{identifier[:12]}"
        assert bridges(host) == {"docker0", name}
        _batch(host, "link add br-wrong type veth peer name other")
        body = {"Name": "bad", "Options": {"com.docker.network.bridge.name": "br-wrong"}}
        refused = one.request("POST", "/networks/create", body)
        assert refused.status == 500 and "is not a bridge" in refused.message
        _batch(host, "link delete br-wrong")
        assert {each["Name"] for each in one.request("GET", "/networks").json()} == {"bridge", "host", "none", "net"}
        one.restart()
        assert bridges(host) == {"docker0", name}
        assert one.request("DELETE", "/networks/net").status == 204
        assert bridges(host) == {"docker0"}
    assert not bridges(host)
    with daemon(host, root) as one:  # by its own name it makes nothing, and the subnet is the same
        assert not bridges(host)
        assert one.request("GET", "/networks/bridge").json()["IPAM"]["Config"] == bridge["IPAM"]["Config"]


def test_a_bridge_of_another_name_goes_when_the_daemon_is_called_otherwise(host: Namespaces, world) -> None:
    """After a crash, too: one subnet is never on two bridges."""
    root = world.directory()
    with daemon(host, root) as one:
        one.import_busybox()
        with container(one):
            assert bridges(host) == {"engine0"}
        one.kill9()
        one.start()
        one.kill9()
        assert bridges(host) == {"engine0"}
        with daemon(host, root, kind=Dockerd):
            assert bridges(host) == {"docker0"}
        one.start()
    assert not bridges(host)


@pytest.mark.parametrize("of", ["dockerd", "an engine that is gone"])
def test_a_daemon_of_dockerds_name_takes_over_a_docker0_that_is_there(host: Namespaces, world, of: str) -> None:
    """With its addresses; what dockerd has made stays when the daemon goes."""
    _batch(host, "link add docker0 type bridge", "addr add 10.79.0.9/24 dev docker0", "link set docker0 up")
    if of != "dockerd":
        _batch(host, f"link set docker0 alias engine:{'d' * 64}")
    with daemon(host, world.directory(), "--ipv6", "--fixed-cidr-v6", "fe80::/64", kind=Dockerd) as one:
        four, six = one.request("GET", "/networks/bridge").json()["IPAM"]["Config"]
        assert four == {"Subnet": "10.79.0.0/24", "Gateway": "10.79.0.9"}
        assert six["Subnet"] == "fe80::/64" and six["Gateway"] in of_link(host, "docker0")
        one.import_busybox()
        script = "ip -o -4 addr show eth0; ip route show default"
        said = one.shell(script, HostConfig={"NetworkMode": "bridge"})
        assert "10.79.0.1/24" in said and "via 10.79.0.9" in said
    assert bridges(host) == ({"docker0"} if of == "dockerd" else set())


def of_link(place: Namespaces, device: str) -> set[str]:
    """The addresses of one of that host's links."""
    said = run(place, "ip", "-o", "addr", "show", "dev", device).stdout
    return {line.split()[3].partition("/")[0] for line in said.splitlines()}


def test_the_subnets_stay_when_a_daemon_starts_with_other_pools(host: Namespaces, world) -> None:
    """That of the default network, and those of others."""
    root = world.directory()
    with daemon(host, root, "--ipv6", "--default-address-pool", "base=10.80.0.0/16,size=24") as one:
        created(one, "net")
        before = [one.request("GET", f"/networks/{name}").json()["IPAM"] for name in ("bridge", "net")]
        one.stop()
        one.options = ("--ipv6", "--default-address-pool", "base=10.81.0.0/16,size=24")
        one.start()
        assert [one.request("GET", f"/networks/{name}").json()["IPAM"] for name in ("bridge", "net")] == before
        one.stop()
        one.options = ()
        one.start()
        assert one.request("GET", "/networks/bridge").json()["IPAM"]["Config"] == before[0]["Config"][:1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--bridge", "nobr0"), "bridge device with non default name nobr0 must be created manually"),
        (
            ("--bridge", "lan0", "--ipv6", "--fixed-cidr-v6", "fd55::/60"),
            "fixed-cidr-v6=fd55::/60 is outside any subnet implied by addresses on the user-managed default bridge",
        ),
        (
            ("--bridge", "lan0", "--ipv6", "--fixed-cidr-v6", "fd56::/64"),
            "fixed-cidr-v6=fd56::/64 is outside any subnet implied by addresses on the user-managed default bridge",
        ),
    ],
)
@pytest.mark.parametrize("kind", [Daemon, Dockerd])
def test_a_default_network_that_cannot_be_ends_the_start(
    host: Namespaces, world, kind: type[Daemon], options: tuple[str, ...], words: str
) -> None:
    """What the settings say of it may contradict the host, or itself; as with dockerd the daemon does not come up."""
    _batch(host, "addr add 10.44.0.5/24 dev lan0", "addr add fd55::5/64 dev lan0 nodad")
    one = kind(world.directory(), host, options).start(wait=False)
    try:
        assert one.process.wait(patient(60)) == 1
    finally:
        if one.process.poll() is None:
            one.close()
    assert f'error creating default "bridge" network: {words}' in one.log.replace('\\"', '"')  # dockerd's form escapes
    assert not bridges(host)


def test_a_daemon_takes_the_next_subnet_where_the_host_has_the_first(host: Namespaces, world) -> None:
    """For the default network and for others: another engine's docker0, a cable, a VPN's route."""
    _batch(
        host,
        "addr add 172.17.0.1/16 dev lan0",
        "addr add 172.19.5.1/24 dev lan0",
        "route add 172.20.0.0/15 via 172.17.0.2",
    )
    with daemon(host, world.directory()) as one:
        assert subnet(one, "bridge") == "172.18.0.0/16"
        assert created(one, "first") == "172.22.0.0/16"
        _batch(host, "addr add 172.23.0.1/24 dev lan0")
        assert created(one, "second") == "172.24.0.0/16"


def test_the_default_network_moves_when_the_host_comes_to_reach_its_subnet(host: Namespaces, world) -> None:
    """At the daemon's next start, where nothing runs on it."""
    root = world.directory()
    with daemon(host, root) as one:
        assert subnet(one, "bridge") == "172.17.0.0/16"
        identifier = one.request("GET", "/networks/bridge").json()["Id"]
    _batch(host, "addr add 172.17.9.1/24 dev lan0")
    with daemon(host, root) as one:
        assert subnet(one, "bridge") == "172.18.0.0/16"
        assert one.request("GET", "/networks/bridge").json()["Id"] == identifier


def test_two_daemons_share_a_host(host: Namespaces, world) -> None:
    """Each with a bridge and a subnet of its own, whoever looked first."""
    with daemon(host, world.directory()) as one, daemon(host, world.directory()) as two:
        assert [subnet(each, "bridge") for each in (one, two)] == ["172.17.0.0/16"] * 2  # nobody has anything yet
        for each in (two, one):
            each.import_busybox()
            running = each.create("sleep", "60", HostConfig={"NetworkMode": "bridge"})
            each.begin(running)
        assert [subnet(each, "bridge") for each in (one, two)] == ["172.18.0.0/16", "172.17.0.0/16"]
        assert {"engine0", "engine1"} <= host.links()


def test_a_bridge_that_is_there_gives_its_address_to_the_default_network(host: Namespaces, world) -> None:
    """--bridge, as dockerd's; and it stays when the daemon goes."""
    _batch(host, "addr add 10.44.0.5/24 dev lan0")
    with daemon(host, world.directory(), "--bridge", "lan0") as one:
        (pool,) = one.request("GET", "/networks/bridge").json()["IPAM"]["Config"]
        assert pool == {"Subnet": "10.44.0.0/24", "Gateway": "10.44.0.5"}
        one.import_busybox()
        script = "ip -o -4 addr show eth0; ip route show default; ping -c 1 -W 2 10.44.0.5 >/dev/null && echo reached"
        said = one.shell(script, HostConfig={"NetworkMode": "bridge"})
        assert "10.44.0.1/24" in said and "via 10.44.0.5" in said and said.endswith("reached")
    assert "lan0" in host.links() and "engine0" not in host.links()


def test_of_several_addresses_of_a_bridge_that_is_there_the_range_chooses(host: Namespaces, world) -> None:
    """The network is the subnet that --fixed-cidr lies in, and its gateway the bridge's address there."""
    for address in ("10.46.160.88/20", "10.46.176.88/20", "10.46.192.88/20"):
        _batch(host, f"addr add {address} dev lan0")
    with daemon(host, world.directory(), "--bridge", "lan0", "--fixed-cidr", "10.46.177.0/24") as one:
        (pool,) = one.request("GET", "/networks/bridge").json()["IPAM"]["Config"]
        assert pool == {"Subnet": "10.46.176.0/20", "IPRange": "10.46.177.0/24", "Gateway": "10.46.176.88"}
        one.import_busybox()
        script = (
            "ip -o -4 addr show eth0; ip route show default; ping -c 1 -W 2 10.46.176.88 >/dev/null && echo reached"
        )
        said = one.shell(script, HostConfig={"NetworkMode": "bridge"})
        assert "10.46.177.0/20" in said and "via 10.46.176.88" in said and said.endswith("reached")


def test_a_daemon_without_a_default_bridge(host: Namespaces, world) -> None:
    """--bridge none: containers that ask for no network have none of it, others go on."""
    with daemon(host, world.directory(), "--bridge", "none") as one:
        assert {each["Name"] for each in one.request("GET", "/networks").json()} == {"host", "none"}
        one.import_busybox()
        for mode in ("none", "bridge", "default"):
            assert one.shell("ls /sys/class/net", HostConfig={"NetworkMode": mode}) == "lo"
        created(one, "other")
        assert "eth0" in one.shell("ls /sys/class/net", HostConfig={"NetworkMode": "other"})


def test_the_default_networks_gateway_of_ipv6_is_the_one_that_is_named(host: Namespaces, world) -> None:
    """--default-gateway-v6: the container's route leads there, and the bridge keeps its own address."""
    options = ["--ipv6", "--fixed-cidr-v6", "fd55::/64", "--default-gateway-v6", "fd55::9"]
    with daemon(host, world.directory(), *options) as one:
        one.import_busybox()
        on = {"HostConfig": {"NetworkMode": "bridge"}}
        assert one.shell("ip -6 route show default", **on).startswith("default via fd55::9 dev eth0")
        held = one.create("sleep", "60", **on)
        one.begin(held)
        assert one.inspect(held)["NetworkSettings"]["Networks"]["bridge"]["IPv6Gateway"] == "fd55::9"


def test_the_settings_of_the_default_network_are_obeyed(host: Namespaces, world) -> None:
    """Addresses, ranges, gateway and MTU, as a container sees them."""
    options = [
        "--bip",
        "10.55.0.1/16",
        "--fixed-cidr",
        "10.55.8.0/24",
        "--default-gateway",
        "10.55.0.9",
        "--mtu",
        "1300",
    ]
    six = ["--ipv6", "--bip6", "fd55::1/64", "--fixed-cidr-v6", "fd55::8:0/112"]
    with daemon(host, world.directory(), *options, *six) as one:
        one.import_busybox()
        script = "ip -o addr show eth0; ip route show default; ip -6 route show default; cat /sys/class/net/eth0/mtu"
        said = one.shell(script, HostConfig={"NetworkMode": "bridge"})
        assert "inet 10.55.8.0/16" in said and "inet6 fd55::8:0/64" in said
        assert "default via 10.55.0.9" in said and "default via fd55::1" in said and said.endswith("1300")


def test_running_containers_are_announced_by_a_daemon_that_starts(host: Namespaces, world) -> None:
    """By ARP and as a neighbour of IPv6: the words of the daemon before may have been lost."""
    with daemon(host, world.directory()) as one:
        one.import_busybox()
        body = {
            "Name": "net",
            "EnableIPv6": True,
            "IPAM": {"Config": [{"Subnet": "10.82.0.0/24"}, {"Subnet": "fd82::/64"}]},
        }
        name = f"br-{one.request('POST', '/networks/create', body).json()['Id'][:12]}"
        with container(one, "net") as place:
            mac = one.inspect(place.id)["NetworkSettings"]["Networks"]["net"]["MacAddress"]
            one.kill9()
            heard = set()
            with socket_of(host.keeper.pid, socket.AF_PACKET, socket.SOCK_RAW) as ear:
                ear.bind((name, ALL))
                ear.settimeout(patient(30))
                one.start()
                frames = {announcing.gratuitous_arp(mac, place.address), announcing.advertisement(mac, place.address6)}
                while not frames <= heard:
                    heard.add(ear.recv(2048)[:86])
