"""Networks and endpoints are rows: found, joined, left and removed, and the same after every start."""

import threading

import pytest

from engine.daemon.network import joining
from engine.daemon.network.record import Published
from engine.daemon.runtime.events import Events
from engine.dataclass import replace
from engine.errors import Conflict, EngineError, Forbidden, Invalid, NotFound
from tests.unit.network.made import endpoint, subnet

ONE, TWO = "1" * 64, "2" * 64


def make(networks, name="net", **body):
    """A network of this name."""
    return networks.create({"Name": name, **body})


def remove(networks, network):
    """Remove one that has nothing in the kernel."""
    with networks.removing(network):
        pass


def test_networks_and_endpoints_are_there_after_a_start(networks, opened):
    network = make(networks, **subnet("10.1.0.0/24"), Labels={"a": "b"}, Options={"c": "d"}, EnableIPv6=True)
    wanted = {"net": endpoint(DNSNames=["web", "111"], DriverOpts={"x": "y"}), "bridge": endpoint()}
    first, second = networks.join(ONE, wanted)
    joined = replace(first, ports=(Published(80, "tcp", "0.0.0.0", 8080),)), second
    networks.update(joined[0])
    again = opened()
    assert again.all() == networks.all() and network in again.all()
    assert tuple(again.endpoints()) == joined
    assert again.status(network) == networks.status(network)
    assert again.join(TWO, {"net": endpoint()})[0].ipv4 == "10.1.0.3"


def test_an_endpoint_has_all_that_its_network_gives(networks):
    network = make(networks, EnableIPv6=True, **subnet("10.1.0.0/24"))
    asked = make(networks, name="asked", EnableIPv6=True, **subnet("fd01:a::/64"))
    assert asked.pools[0].subnet == "fd01:a::/64" and ":" not in asked.pools[1].subnet, "what was asked for is first"
    (found,) = networks.join(ONE, {"net": endpoint(GwPriority=5, DNSNames=["web"])})
    assert (found.network, found.container, found.priority, found.names) == (network.id, ONE, 5, ("web",))
    assert (found.ipv4, found.prefix4, found.gateway4) == ("10.1.0.2", 24, "10.1.0.1")
    assert found.ipv6.endswith("::2") and (found.prefix6, found.gateway6) == (64, found.ipv6[:-1] + "1")
    assert (found.interface, len(found.id)) == ("eth0", 64)
    assert found.host_interface.startswith("veth") and len(found.host_interface) == 11
    first = int(found.mac.split(":")[0], 16)
    assert first & 3 == 2  # of this host alone, and of one interface


def test_an_internal_network_has_no_way_out(networks):
    make(networks, Internal=True, **subnet("10.1.0.0/24"))
    (found,) = networks.join(ONE, {"net": endpoint()})
    assert (found.ipv4, found.gateway4) == ("10.1.0.2", "")


def test_host_and_none_give_an_endpoint_without_a_row(networks, opened):
    host, none = networks.join(ONE, {"host": endpoint()}) + networks.join(TWO, {"none": endpoint()})
    assert (host.ipv4, host.mac, host.interface, none.ipv4) == ("", "", "", "")
    assert networks.endpoints(networks.find("host").id) == [host]
    assert opened().endpoints() == []
    networks.leave([host, none])
    assert networks.endpoints() == []


def test_interfaces_are_named_in_the_order_of_joining(networks):
    for number, name in enumerate("abc"):
        make(networks, name, **subnet(f"10.{number}.0.0/24"))
    named = endpoint(DriverOpts={"com.docker.network.endpoint.ifname": "eth1"})
    found = networks.join(ONE, {"a": endpoint(), "b": endpoint(), "c": named})
    assert [each.interface for each in found] == ["eth0", "eth2", "eth1"]
    networks.leave(found[:1])
    assert networks.join(ONE, {"bridge": endpoint()})[0].interface == "eth0"


def test_a_network_may_say_what_interfaces_are_called(networks):
    make(networks, Options={"com.docker.network.container_iface_prefix": "lan"})
    assert [each.interface for each in networks.join(ONE, {"net": endpoint(), "bridge": endpoint()})] == [
        "lan0",
        "eth0",
    ]


@pytest.mark.parametrize("name", ["a/b", "sixteen-letters-", "a b", "lo", ".", "a:b"])
def test_a_name_that_the_kernel_would_not_take_is_refused(networks, name):
    with pytest.raises(Invalid, match="name of a network interface"):
        networks.join(ONE, {"bridge": endpoint(DriverOpts={"com.docker.network.endpoint.ifname": name})})
    assert networks.endpoints() == []


def test_an_address_and_a_mac_may_be_asked_for(networks):
    make(networks, EnableIPv6=True, IPAM={"Config": [{"Subnet": "10.1.0.0/24"}, {"Subnet": "fd01::/64"}]})
    (found,) = networks.join(ONE, {"net": endpoint("10.1.0.9", "FD01:0::9", MacAddress="02-42-AC-11-00-09")})
    assert (found.ipv4, found.ipv6, found.mac) == ("10.1.0.9", "fd01::9", "02:42:ac:11:00:09")
    with pytest.raises(Forbidden, match="Address already in use"):
        networks.join(TWO, {"net": endpoint("10.1.0.9")})
    with pytest.raises(Invalid, match="no configured subnet contains IP address"):
        networks.join(TWO, {"net": endpoint("10.2.0.9")})
    with pytest.raises(Invalid, match="MAC"):
        networks.join(TWO, {"net": endpoint(MacAddress="02:42")})
    (found,) = networks.join(TWO, {"net": endpoint(MacAddress="0242.AC11.0008")})
    assert found.mac == "02:42:ac:11:00:08"


def test_link_local_addresses_are_kept_and_others_are_none(networks):
    asked = {"LinkLocalIPs": ["169.254.8.8", "FE80:0::8"]}
    (found,) = networks.join(ONE, {"bridge": endpoint(IPAMConfig=asked)})
    assert found.link_local == ("169.254.8.8", "fe80::8")
    for other in ("10.0.0.1", "fe80::1%eth0"):
        with pytest.raises(Invalid, match="invalid link local IP address: "):
            networks.join(TWO, {"bridge": endpoint(IPAMConfig={"LinkLocalIPs": [other]})})


def test_a_network_has_not_any_number_of_subnets(networks):
    """Each is compared with each, while others wait."""
    config = [{"Subnet": f"10.{number // 256}.{number % 256}.0/24"} for number in range(257)]
    with pytest.raises(Invalid, match="more than 256 subnets"):
        make(networks, Driver="macvlan", IPAM={"Config": config})


@pytest.mark.parametrize("more", [{"Gateway": "fd07::1%eth0"}, {"AuxiliaryAddresses": {"one": "fd07::9%eth0"}}])
def test_the_addresses_of_a_network_have_no_zones(networks, more):
    with pytest.raises(Invalid, match="invalid address fd07::"):
        make(networks, EnableIPv6=True, **subnet("fd07::/64", **more))


def test_an_address_outside_of_a_network_is_told_before_anything_is_taken(networks):
    network = make(networks, EnableIPv6=True, IPAM={"Config": [{"Subnet": "10.1.0.0/24"}, {"Subnet": "fd01::/64"}]})
    inside = {"IPv4Address": "10.1.0.9", "IPv6Address": "FD01:0::9"}
    assert joining.outside(network, inside) == joining.outside(network, None) == []
    assert joining.outside(network, {"IPv4Address": "10.2.0.9", "IPv6Address": "FD02:0::9"}) == [
        "no configured subnet contains IP address 10.2.0.9",
        "no configured subnet contains IP address fd02::9",
    ]
    assert len(joining.outside(replace(network, ipv6=False), inside)) == 1
    assert networks.status(network)["10.1.0.0/24"]["IPsInUse"] == 3


def test_a_join_that_fails_takes_nothing(networks, opened):
    make(networks, "a", **subnet("10.1.0.0/24"))
    make(networks, "b", **subnet("10.2.0.0/30"))
    networks.join(ONE, {"b": endpoint()})
    before = networks.status(networks.find("a"))
    with pytest.raises(EngineError) as caught:
        networks.join(TWO, {"a": endpoint(), "b": endpoint()})
    network = networks.find("b")
    assert str(caught.value) == f"no available IPv4 addresses on this network's address pools: b ({network.id})"
    assert networks.status(networks.find("a")) == before
    assert networks.endpoints(container_id=TWO) == [] == opened().endpoints(container_id=TWO)


def test_a_database_that_fails_takes_the_addresses_back(networks, monkeypatch):
    make(networks, **subnet("10.1.0.0/24"))
    before = networks.status(networks.find("net"))
    monkeypatch.setattr(networks, "_add", lambda made: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        networks.join(ONE, {"net": endpoint()})
    assert networks.status(networks.find("net")) == before


def test_nobody_is_twice_in_a_network(networks):
    make(networks)
    networks.join(ONE, {"net": endpoint()})
    with pytest.raises(Forbidden) as caught:
        networks.join(ONE, {"net": endpoint(DNSNames=["web"])})
    assert str(caught.value) == "endpoint with name web already exists in network net"
    with pytest.raises(Forbidden):
        networks.join(TWO, {"net": endpoint(), networks.find("net").id: endpoint()})
    assert networks.endpoints(container_id=TWO) == []


def test_an_update_stays_and_one_of_nobody_is_passed_over(networks, opened):
    (found,) = networks.join(ONE, {"bridge": endpoint()})
    changed = replace(found, interface="eth7", ports=(Published(1, "udp", "::", 2),), names=("new",))
    networks.update(changed)
    assert networks.endpoints() == [changed] == opened().endpoints()
    networks.leave([found])
    networks.update(changed)
    networks.leave([changed])
    assert networks.endpoints() == [] == opened().endpoints()


def test_endpoints_are_told_by_network_and_by_container(networks):
    make(networks)
    both = networks.join(ONE, {"net": endpoint(), "bridge": endpoint()})
    (second,) = networks.join(TWO, {"net": endpoint()})
    net = networks.find("net").id
    assert networks.endpoints(net) == [both[0], second]
    assert networks.endpoints(container_id=ONE) == list(both)
    assert networks.endpoints(net, TWO) == [second] and networks.endpoints(networks.find("bridge").id, TWO) == []
    assert networks.endpoints() == [*both, second]


def test_after_a_crash_the_rows_of_what_does_not_run_are_told(networks, opened):
    kept = networks.join(ONE, {"bridge": endpoint()})
    lost = networks.join(TWO, {"bridge": endpoint()})
    again = opened()
    assert tuple(again.adopt({ONE})) == lost
    again.leave(lost)
    assert again.join("3" * 64, {"bridge": endpoint()})[0].ipv4 == lost[0].ipv4
    assert again.endpoints(container_id=ONE) == list(kept)


def test_a_network_in_use_is_not_removed(networks):
    network = make(networks)
    joined = networks.join(ONE, {"net": endpoint(DNSNames=["web"])}) + networks.join(TWO, {"net": endpoint()})
    with pytest.raises(Forbidden) as caught:
        remove(networks, network)
    assert str(caught.value) == (
        "error while removing network: network net has active endpoints"
        f' (name:"web" id:"{joined[0].id[:12]}", name:"{TWO[:12]}" id:"{joined[1].id[:12]}")'
    )
    networks.leave(joined)
    remove(networks, network)
    with pytest.raises(NotFound):
        remove(networks, network)


def test_nobody_joins_a_network_that_is_going(networks, opened):
    network = make(networks)
    with networks.removing(network):
        with pytest.raises(NotFound):
            networks.join(ONE, {"net": endpoint()})
        with pytest.raises(NotFound):
            remove(networks, network)
        assert network in opened().all()  # what a daemon that dies here leaves
    assert network not in opened().all()


def test_whoever_dismantles_a_network_is_told_which_stay(networks):
    """A device may be common to several; two that go at once do not wait for each other."""
    one, two, three = (make(networks, name) for name in ("one", "two", "three"))
    with networks.removing(one) as first, networks.removing(two) as second:
        assert two in first and three in first and one not in first
        assert three in second and not {one.id, two.id} & {network.id for network in second}


def test_a_removal_that_fails_leaves_the_network_as_it_was(networks):
    network = make(networks)
    with pytest.raises(OSError, match="busy"), networks.removing(network):
        raise OSError("busy")
    networks.join(ONE, {"net": endpoint()})
    assert networks.find("net") == network


def test_the_bus_hears_of_networks_but_not_of_configurations_that_go(opened):
    events = Events()
    networks = opened(events)
    network, config = make(networks), make(networks, "config", ConfigOnly=True)
    remove(networks, network)
    remove(networks, config)
    past, subscription = events.subscribe()
    subscription.close()
    told = [(event.kind, event.action, event.actor, event.attributes) for event in past]
    assert told == [
        ("network", "create", network.id, {"name": "net", "type": "bridge"}),
        ("network", "create", config.id, {"name": "config", "type": "null"}),
        ("network", "destroy", network.id, {"name": "net", "type": "bridge"}),
    ]


def test_a_network_is_found_by_id_name_and_prefix(networks):
    network = make(networks)
    for reference in (network.id, "net", network.id[:12], network.id[:3]):
        assert networks.find(reference) == network
    for reference in ("", "nope", network.id + "0", "NET"):
        with pytest.raises(NotFound, match=f"network {reference} not found"):
            networks.find(reference)


def test_a_prefix_of_several_is_refused(networks, monkeypatch):
    for name, rest in (("first", b"\x01"), ("second", b"\x02")):
        monkeypatch.setattr("os.urandom", lambda count, rest=rest: b"\xab" * 4 + rest * (count - 4))
        first = make(networks, name)
    with pytest.raises(Invalid) as caught:
        networks.find(first.id[:8])
    assert str(caught.value) == "network abababab is ambiguous (2 matches found based on ID prefix)"


def test_a_configuration_is_no_network_to_join(networks):
    config = make(networks, ConfigOnly=True, **subnet("fd00::/64", Gateway="fd11::1"))
    assert networks.status(config) == {}
    with pytest.raises(Forbidden, match="cannot create endpoint on configuration-only network"):
        networks.join(ONE, {"net": endpoint()})


def test_threads_that_join_at_once_get_different_addresses(networks):
    make(networks, **subnet("10.1.0.0/24"))
    failures: list[Exception] = []

    def come_and_go(worker: int) -> None:
        try:
            for turn in range(20):
                joined = networks.join(f"{worker:063x}{turn % 2}", {"net": endpoint()})
                here = [each.ipv4 for each in networks.endpoints()]
                assert len(set(here)) == len(here)
                networks.leave(joined)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=come_and_go, args=(worker,)) for worker in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and networks.status(networks.find("net"))["10.1.0.0/24"]["IPsInUse"] == 3


def test_two_creates_of_one_name_make_one_network(networks):
    results: list[object] = []

    def create() -> None:
        try:
            results.append(make(networks))
        except Conflict as error:
            results.append(str(error))

    threads = [threading.Thread(target=create) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results.count("network with name net already exists") == 5
