"""Bridges, wires, addresses and default routes: made by `Wiring` in a network of the test's own."""

import contextlib
import os
import socket
import subprocess

import pytest

from engine.daemon.network import announcing, plugging
from engine.daemon.network.record import Endpoint, Network, Pool, Published
from engine.daemon.network.wiring import Wiring
from engine.dataclass import replace
from engine.errors import SystemFailure
from engine.kernel import netns
from engine.kernel.netlink import addresses, links
from engine.kernel.netlink.socket import Netlink

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

NETWORK = Network(
    id="ab" * 32,
    name="web",
    driver="bridge",
    created_ns=0,
    device="br-abababababab",
    ipv6=True,
    pools=(Pool("10.9.0.0/24", gateway="10.9.0.1"), Pool("fd00:9::/64", gateway="fd00:9::1")),
)
PLAIN = replace(NETWORK, id="cd" * 32, name="plain", device="br-plain", ipv6=False, pools=NETWORK.pools[:1])
SECOND = replace(PLAIN, id="ef" * 32, name="alpha", device="br-alpha", pools=(Pool("10.8.0.0/24", gateway="10.8.0.1"),))


def endpoint(number: int, network: Network = NETWORK, **fields: object) -> Endpoint:
    """The endpoint with this address in a network."""
    subnet = network.pools[0].subnet.rpartition(".")[0]
    values = {
        "id": f"{number:02x}" * 32,
        "network": network.id,
        "container": f"{number:02x}" * 32,
        "mac": f"02:42:0a:09:00:{number:02x}",
        "ipv4": f"{subnet}.{number}",
        "prefix4": 24,
        "gateway4": network.pools[0].gateway,
        "interface": "eth0",
        "host_interface": f"veth{network.name[:3]}{number:04x}",
    }
    if network.ipv6:
        values |= {"ipv6": f"fd00:9::{number:x}", "prefix6": 64, "gateway6": "fd00:9::1"}
    return Endpoint(**(values | fields))


def links_of(namespace: int) -> dict[str, links.Link]:
    """The links there by their names."""
    with netns.entered(namespace), Netlink() as netlink:
        return {link.name: link for link in links.every(netlink)}


def addresses_of(namespace: int, name: str) -> set[str]:
    """An interface's addresses, without those that the kernel gave it by itself."""
    with netns.entered(namespace), Netlink() as netlink:
        index = links.index_of(netlink, name)
        found = {f"{one.address}/{one.prefix}" for one in addresses.addresses(netlink) if one.link == index}
    return {address for address in found if not address.startswith("fe80:")}


def defaults(namespace: int) -> dict[bool, str]:
    """Whether IPv6 → the gateway of the default route."""
    with netns.entered(namespace), Netlink() as netlink:
        return {route.ipv6: route.gateway for route in addresses.routes(netlink) if not route.destination}


def parameter(namespace: int, path: str) -> str:
    """A kernel parameter there."""
    with netns.entered(namespace), open(f"/proc/sys/net/{path}") as file:
        return file.read().strip()


def reach(namespace: int, address: str) -> bool:
    """Whether a closed port there refuses the first packet, which only the one who has the address can do.

    Not a datagram's port: the kernel says only six times in a row, and then once a second, that there is no such.
    """
    with netns.entered(namespace):
        caller = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    with caller:
        caller.settimeout(0.9)  # less than what the second packet takes to come
        try:
            caller.connect((address, 9))
        except ConnectionRefusedError:
            return True
        except OSError:  # unreachable, or nobody answers
            return False
        return False


def test_a_bridge_is_made_once_with_its_addresses_and_its_mark(ours: None) -> None:
    """It is up, has the network's gateways, a MAC of its own, and listens to no container's router advertisements."""
    network = replace(NETWORK, options={"com.docker.network.driver.mtu": "1400"})
    wiring = Wiring()
    assert wiring.ensure(network) is True
    assert wiring.ensure(network) is False
    with Netlink() as netlink:
        bridge = links.find(netlink, network.device)
        found = {one.address for one in addresses.addresses(netlink) if one.link == bridge.index}
    assert (bridge.kind, bridge.up, bridge.mtu, bridge.alias) == ("bridge", True, 1400, f"engine:{network.id}")
    assert {"10.9.0.1", "fd00:9::1"} <= found
    with open(f"/proc/sys/net/ipv6/conf/{network.device}/accept_ra") as file:
        assert file.read() == "0\n"
    wiring.remove(network)
    wiring.remove(network)
    with Netlink() as netlink:
        assert links.find(netlink, network.device) is None


def test_who_is_to_know_of_a_device_hears_of_it_before_it_is_used(ours: None) -> None:
    """Once, and again where that failed or the device had to be made again."""
    told: list[str] = []

    def opened(network: Network) -> None:
        told.append(network.name)
        if len(told) == 1:
            raise SystemFailure("no rules")

    wiring = Wiring(opened)
    with pytest.raises(SystemFailure, match="no rules"):
        wiring.ensure(PLAIN)
    assert [wiring.ensure(PLAIN), wiring.ensure(PLAIN), len(told)] == [True, False, 2]
    with Netlink() as netlink:
        netlink.send((links.delete(PLAIN.device),))
    assert wiring.ensure(PLAIN) is True and told == ["plain"] * 3


def test_the_default_network_takes_its_address_along_when_it_moves(ours: None) -> None:
    """Its bridge keeps no way to the subnet that it has left; of another network's bridge nothing is ever taken."""

    def found() -> set[str]:
        with Netlink() as netlink:
            index = links.index_of(netlink, PLAIN.device)
            return {one.address for one in addresses.addresses(netlink) if one.link == index}

    default = replace(PLAIN, name="bridge")
    moved = replace(default, pools=SECOND.pools)
    Wiring().ensure(default)
    Wiring().ensure(moved)
    assert found() == {"10.8.0.1"}
    Wiring().ensure(PLAIN)
    assert found() == {"10.8.0.1", "10.9.0.1"}


def test_a_bridge_without_ipv6_has_none_at_all(ours: None) -> None:
    """Not even the address that the kernel makes of its MAC."""
    Wiring().ensure(PLAIN)
    with Netlink() as netlink:
        index = links.index_of(netlink, PLAIN.device)
        assert [one.address for one in addresses.addresses(netlink) if one.link == index] == ["10.9.0.1"]


def test_a_deleted_bridge_is_made_again_and_running_containers_are_attached_to_it(
    ours: None, inside: list[int]
) -> None:
    """Somebody deletes the device: at the next use it is there, and who was plugged in before is reached again."""
    wiring = Wiring()
    wiring.ensure(PLAIN)
    (wired,) = wiring.plug([(PLAIN, endpoint(2, PLAIN))], inside[0])
    with Netlink() as netlink:
        netlink.send((links.delete(PLAIN.device),))
    assert wiring.ensure(PLAIN) is True
    wiring.attach(PLAIN, [wired])
    wiring.plug([(PLAIN, endpoint(3, PLAIN))], inside[1])
    assert reach(inside[1], "10.9.0.2")


def test_a_bridge_that_is_there_already_is_used_and_never_removed(ours: None) -> None:
    """One that the user made keeps what it has, gets what it lacks, and outlives the network."""
    named = replace(PLAIN, device="mine")
    with Netlink() as netlink:
        netlink.send(links.bridge("mine", "02:00:00:00:00:05", 1500))
        wiring = Wiring()
        wiring.ensure(named)
        found = links.find(netlink, "mine")
        assert (found.up, found.mac, found.alias) == (True, "02:00:00:00:00:05", "")
        wiring.remove(named)
        assert links.find(netlink, "mine") is not None


def test_an_earlier_daemons_devices_are_known_by_their_marks(ours: None) -> None:
    Wiring().ensure(NETWORK)
    theirs = replace(NETWORK, id="9" * 64, device="br-theirs")
    with Netlink() as netlink:
        netlink.send(links.bridge(theirs.device, "02:00:00:00:00:07", 0, "not the engine's"))
    wiring = Wiring()
    assert wiring.made([NETWORK, theirs]) == [NETWORK] and wiring.made([theirs]) == []
    wiring.remove(NETWORK)
    assert wiring.made([NETWORK, theirs]) == []


def test_a_device_that_two_networks_hang_on_goes_with_the_last_of_them(ours: None) -> None:
    """Such a device is a VLAN that the engine made for the first of two macvlan networks."""
    first = replace(PLAIN, driver="macvlan", device="up0.7", options={"parent": "up0.7"})
    second = replace(first, id=SECOND.id)
    with Netlink() as netlink:
        # In place of a VLAN, which the kernel may not have.
        netlink.send(links.bridge("up0.7", "02:00:00:00:00:07", 1500, f"engine:{first.id}"))
        wiring = Wiring()
        for network in (first, second):
            assert (wiring.ensure(network), wiring.ensure(network)) == (True, False)
        wiring.remove(first, [first, second])
        assert links.find(netlink, "up0.7").alias == f"engine:{second.id}"
        wiring.remove(second, [second])
        assert links.find(netlink, "up0.7") is None


@pytest.mark.parametrize(
    ("alias", "kind", "words"),
    [("engine:" + "12" * 32, "bridge", "belongs to another network: 121212121212"), ("", "veth", "is not a bridge")],
)
def test_what_cannot_be_the_bridge_is_refused_in_words(ours: None, alias: str, kind: str, words: str) -> None:
    """A bridge of another daemon's network, and an interface of another kind."""
    with Netlink() as netlink:
        if kind == "veth":
            subprocess.run(["ip", "link", "add", PLAIN.device, "type", "veth", "peer", "name", "other"], check=True)
        else:
            netlink.send(links.bridge(PLAIN.device, "02:00:00:00:00:05", 1500, alias))
    with pytest.raises(SystemFailure, match=words):
        Wiring().ensure(PLAIN)


def test_containers_of_one_bridge_reach_each_other_and_the_host(ours: None, inside: list[int]) -> None:
    """Each has the interface, the MAC, the addresses and the default routes of its endpoint, at once."""
    wiring = Wiring()
    wiring.ensure(NETWORK)
    for number in (2, 3):
        (wired,) = wiring.plug([(NETWORK, endpoint(number, link_local=("169.254.7.7",)))], inside[number - 2])
        assert wired.interface == "eth0"
    first = links_of(inside[0])["eth0"]
    assert (first.kind, first.up, first.mac) == ("veth", True, "02:42:0a:09:00:02")
    assert addresses_of(inside[0], "eth0") == {"10.9.0.2/24", "fd00:9::2/64", "169.254.7.7/16"}
    assert defaults(inside[0]) == {False: "10.9.0.1", True: "fd00:9::1"}
    assert parameter(inside[0], "ipv6/conf/eth0/accept_ra") == "0"
    for address in ("10.9.0.3", "10.9.0.1", "fd00:9::3", "fd00:9::1"):
        assert reach(inside[0], address), address


def test_a_network_without_ipv6_gives_an_interface_without(ours: None, inside: list[int]) -> None:
    """The kernel's own link-local address is not there either."""
    wiring = Wiring()
    wiring.ensure(PLAIN)
    wiring.plug([(PLAIN, endpoint(2, PLAIN))], inside[0])
    assert parameter(inside[0], "ipv6/conf/eth0/disable_ipv6") == "1"
    with netns.entered(inside[0]), Netlink() as netlink:
        index = links.index_of(netlink, "eth0")
        assert [one.address for one in addresses.addresses(netlink) if one.link == index] == ["10.9.0.2"]
    assert defaults(inside[0]) == {False: "10.9.0.1"}


def test_a_kernel_without_ipv6_has_bridges_all_the_same(
    ours: None, inside: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was started with ipv6.disable=1 refuses every word about it."""
    monkeypatch.setattr(plugging, "_IPV6", False)
    wiring = Wiring()
    wiring.ensure(PLAIN)
    for number in (2, 3):
        wiring.plug([(PLAIN, endpoint(number, PLAIN))], inside[number - 2])
    assert reach(inside[0], "10.9.0.3")


def test_an_address_that_moves_to_another_container_is_reached_at_once(ours: None, inside: list[int]) -> None:
    """Neither the host nor a neighbour goes on asking for the MAC of who had it before."""
    wiring = Wiring()
    wiring.ensure(NETWORK)
    wiring.plug([(NETWORK, endpoint(2))], inside[0])
    old = endpoint(3)
    wiring.plug([(NETWORK, old)], inside[1])
    ours = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    with contextlib.closing(os.fdopen(ours, "rb", buffering=0)):
        for asking in (inside[0], ours):
            assert reach(asking, old.ipv4) and reach(asking, old.ipv6)
        wiring.unplug(NETWORK, old, inside[1])
        new = replace(old, id="99" * 32, mac="02:42:0a:09:00:99", host_interface="vethnew")
        wiring.plug([(NETWORK, new)], inside[2])
        for asking in (inside[0], ours):
            assert reach(asking, new.ipv4) and reach(asking, new.ipv6)


def test_who_has_ended_does_not_answer_for_who_has_his_address_now(ours: None, inside: list[int]) -> None:
    """Though his namespace is still there: a neighbour who asks anew hears one answer."""
    wiring = Wiring()
    wiring.ensure(PLAIN)
    wiring.plug([(PLAIN, endpoint(2, PLAIN))], inside[0])
    old = endpoint(3, PLAIN)
    wiring.plug([(PLAIN, old)], inside[1])
    wiring.silence([old, endpoint(4, PLAIN)])
    assert not reach(inside[0], old.ipv4)
    new = replace(old, id="99" * 32, mac="02:42:0a:09:00:99", host_interface="vethnew")
    wiring.plug([(PLAIN, new)], inside[2])
    with netns.entered(inside[0]):
        subprocess.run(["ip", "neigh", "flush", "dev", "eth0"], check=True)
        assert reach(inside[0], new.ipv4)
        shown = subprocess.run(["ip", "neigh", "show", new.ipv4], capture_output=True, text=True).stdout
    assert new.mac in shown


def test_only_an_address_that_somebody_has_had_is_announced(
    ours: None, inside: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each frame goes to all the others; a daemon that has not made the bridge does not know who has had what."""
    told: list[str] = []

    def frame(mac: str, address: str) -> bytes:
        told.append(address)
        return bytes(42)

    monkeypatch.setattr(announcing, "gratuitous_arp", frame)
    wiring = Wiring()
    wiring.ensure(PLAIN)
    wiring.attach(PLAIN, [])
    first = endpoint(2, PLAIN)
    wiring.plug([(PLAIN, first)], inside[0])
    wiring.plug([(PLAIN, endpoint(3, PLAIN))], inside[1])
    assert told == []
    wiring.unplug(PLAIN, first, inside[0])
    wiring.plug([(PLAIN, replace(first, id="99" * 32, host_interface="vethnew"))], inside[2])
    assert told == ["10.9.0.2"]
    later = Wiring()
    later.ensure(PLAIN)
    later.plug([(PLAIN, endpoint(4, PLAIN))], inside[0])
    assert told == ["10.9.0.2", "10.9.0.4"]
    silent = replace(PLAIN, options={"com.docker.network.advertise_addr_nmsgs": "0"})
    later.plug([(silent, endpoint(5, silent))], inside[1])
    assert told == ["10.9.0.2", "10.9.0.4"]
    Wiring().announce([(PLAIN, first), (silent, endpoint(5, silent))])  # a daemon that has started meanwhile
    assert told == ["10.9.0.2", "10.9.0.4", "10.9.0.2"]


def test_the_first_packet_to_a_new_container_is_not_lost(ours: None, inside: list[int]) -> None:
    """Its end works when the plug returns, though the kernel sees to a new carrier somewhere else and later."""
    wiring = Wiring()
    wiring.ensure(PLAIN)
    wiring.plug([(PLAIN, endpoint(2, PLAIN))], inside[0])
    for number in range(3, 13):
        new = endpoint(number, PLAIN)
        with netns.entered(inside[0]), Netlink() as netlink:  # no question before it would be repeated for a second
            netlink.send((addresses.neighbour(links.index_of(netlink, "eth0"), new.ipv4, new.mac),))
        wiring.plug([(PLAIN, new)], inside[1])
        assert reach(inside[0], new.ipv4)
        wiring.unplug(PLAIN, new, inside[1])


def test_an_endpoint_has_kernel_parameters_and_a_name_of_its_own(ours: None, inside: list[int]) -> None:
    """The driver options com.docker.network.endpoint.sysctls and .ifname."""
    wiring = Wiring()
    wiring.ensure(NETWORK)
    given = {
        "com.docker.network.endpoint.sysctls": "net.ipv4.conf.IFNAME.log_martians=1,net.ipv6.conf.ifname.hop_limit=9",
        "com.docker.network.endpoint.ifname": "up.link",
    }
    wiring.plug([(NETWORK, endpoint(2, driver_opts=given, interface="up.link"))], inside[0])
    assert "up.link" in links_of(inside[0])
    assert parameter(inside[0], "ipv4/conf/up.link/log_martians") == "1"
    assert parameter(inside[0], "ipv6/conf/up.link/hop_limit") == "9"


def test_a_name_that_the_container_uses_itself_is_passed_over(ours: None, inside: list[int]) -> None:
    """A hot plug does not touch what the container made; a name that was asked for is refused then."""
    wiring = Wiring()
    wiring.ensure(PLAIN)
    with netns.entered(inside[0]), Netlink() as netlink:
        netlink.send(links.bridge("eth0", "02:00:00:00:00:01", 1500))
    (wired,) = wiring.plug([(PLAIN, endpoint(2, PLAIN))], inside[0])
    assert wired.interface == "eth1"
    asked = endpoint(3, PLAIN, driver_opts={"com.docker.network.endpoint.ifname": "eth0"})
    with pytest.raises(SystemFailure, match="has an interface eth0 already"):
        wiring.plug([(PLAIN, asked)], inside[0], [(PLAIN, wired)])


def test_a_failed_plug_leaves_nothing_behind(ours: None, inside: list[int]) -> None:
    """One of two interfaces cannot be made: neither is there, on neither side."""
    wiring = Wiring()
    for network in (PLAIN, SECOND):
        wiring.ensure(network)
    given = {"com.docker.network.endpoint.sysctls": "net.ipv4.conf.IFNAME.no_such_thing=1"}
    bad = endpoint(3, SECOND, interface="eth1", driver_opts=given)
    with pytest.raises(SystemFailure, match="eth1 of network alpha cannot be made: no such file"):
        wiring.plug([(PLAIN, endpoint(2, PLAIN)), (SECOND, bad)], inside[0])
    assert set(links_of(inside[0])) == {"lo"}
    with Netlink() as netlink:
        assert {link.name for link in links.every(netlink)} == {"lo", PLAIN.device, SECOND.device}


def test_a_network_whose_bridge_is_gone_is_an_error_in_words(ours: None, inside: list[int]) -> None:
    """Between `ensure` and the plug somebody has deleted it."""
    with pytest.raises(SystemFailure, match="br-plain of network plain is gone"):
        Wiring().plug([(PLAIN, endpoint(2, PLAIN))], inside[0])


def test_the_hosts_end_alone_is_enough_to_unplug_and_may_be_gone(ours: None, inside: list[int]) -> None:
    """After the death of the daemon nobody may know the container's network any more."""
    wiring = Wiring()
    wiring.ensure(PLAIN)
    (wired,) = wiring.plug([(PLAIN, endpoint(2, PLAIN))], inside[0])
    wiring.unplug(PLAIN, wired, None)
    wiring.unplug(PLAIN, wired, None)
    assert set(links_of(inside[0])) == {"lo"}


def test_a_port_of_a_container_with_published_ports_sends_back_out_what_came_in(ours: None, inside: list[int]) -> None:
    """So that it reaches itself by the host's address."""
    wiring = Wiring()
    wiring.ensure(PLAIN)
    wired = endpoint(2, PLAIN, ports=(Published(80, "tcp", "0.0.0.0", 8080),))
    wiring.plug([(PLAIN, wired)], inside[0])
    shown = subprocess.run(["ip", "-d", "link", "show", wired.host_interface], capture_output=True, text=True)
    assert "hairpin on" in shown.stdout


@pytest.mark.parametrize("driver", ["macvlan", "ipvlan"])
def test_a_link_of_the_hosts_link_is_made_or_refused_in_words(ours: None, inside: list[int], driver: str) -> None:
    """With a macvlan in each, containers reach each other; a kernel without such links is the one that says so."""
    subprocess.run(["ip", "link", "add", "up0", "type", "veth", "peer", "name", "up1"], check=True)
    subprocess.run("ip link set up0 up; ip link set up1 up", shell=True, check=True)
    network = replace(NETWORK, driver=driver, device="up0", options={"parent": "up0"})
    wiring = Wiring()
    assert wiring.ensure(network) is True
    ends = [endpoint(number, network, host_interface="") for number in (2, 3)]
    try:
        for each, namespace in zip(ends, inside, strict=False):
            wiring.plug([(network, each)], namespace)
    except SystemFailure as error:
        assert (driver, str(error)) == ("ipvlan", "the kernel of this host does not support ipvlan links")
        return
    assert links_of(inside[0])["eth0"].kind == driver
    assert reach(inside[0], "10.9.0.3")
    assert defaults(inside[0]) == {False: "10.9.0.1", True: "fd00:9::1"}
    with netns.entered(inside[0]):
        subprocess.run("ip link set eth0 down; ip link set eth0 name hidden", shell=True, check=True)
    wiring.unplug(network, ends[0], inside[0])
    assert set(links_of(inside[0])) == {"lo"}


@pytest.mark.parametrize(("parent", "made", "kind"), [("up0.7", "up0.7", "vlan"), ("", "dm-abababababab", "dummy")])
def test_a_parent_is_made_at_first_use_or_refused_in_words(ours: None, parent: str, made: str, kind: str) -> None:
    """A VLAN of a link that is there; and where nobody named a parent, a link that leads nowhere."""
    subprocess.run(["ip", "link", "add", "up0", "type", "veth", "peer", "name", "up1"], check=True)
    network = replace(PLAIN, id="ab" * 32, driver="macvlan", device=made, options={"parent": parent} if parent else {})
    wiring = Wiring()
    try:
        wiring.ensure(network)
    except SystemFailure as error:
        assert str(error) == f"failed to create {made} {kind} link: operation not supported: unknown device type"
        return
    with Netlink() as netlink:
        found = links.find(netlink, made)
        assert (found.kind, found.alias) == (kind, f"engine:{network.id}")
        wiring.remove(network)
        assert links.find(netlink, made) is None
