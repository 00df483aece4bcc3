"""The predefined networks: what the daemon's settings and the host make of the default one, start after start."""

import pytest

from engine.daemon.network import builtin
from engine.daemon.network.addresses import Subnet, parse_address
from engine.daemon.network.record import Pool
from engine.daemon.network.surroundings import Surroundings
from engine.errors import Conflict, Invalid, SystemFailure
from tests.unit.network.made import endpoint, subnet
from tests.unit.network.test_pools import subnets

ONE = "1" * 64


def bridge(networks):
    """The default network."""
    return networks.find("bridge")


def test_the_three_keep_their_ids(opened):
    first = {network.name: network for network in opened().all()}
    assert {network.name: network for network in opened().all()} == first
    assert {name: network.driver for name, network in first.items()} == {
        "bridge": "bridge",
        "host": "host",
        "none": "null",
    }
    assert first["bridge"].pools == (Pool("172.17.0.0/16", gateway="172.17.0.1"),)


def test_nothing_is_settled_before_somebody_asks(opened, monkeypatch):
    networks = opened()
    assert networks._settled is False and networks.endpoints() == []
    assert len(networks.all()) == 3 and networks._settled is True


@pytest.mark.parametrize(
    ("settings", "pool"),
    [
        ({"bip": "10.5.0.1/24"}, Pool("10.5.0.0/24", gateway="10.5.0.1")),
        ({"bip": "10.5.7.9/16"}, Pool("10.5.0.0/16", gateway="10.5.7.9")),
        ({"bip": "10.5.0.1/16", "fixed_cidr": "10.5.4.0/24"}, Pool("10.5.0.0/16", "10.5.4.0/24", "10.5.0.1")),
        ({"fixed_cidr": "10.5.4.0/24"}, Pool("10.5.4.0/24", "10.5.4.0/24", "10.5.4.1")),
        (
            {"bip": "10.5.0.1/16", "default_gateway": "10.5.0.254"},
            Pool("10.5.0.0/16", gateway="10.5.0.1", aux={"DefaultGatewayIPv4": "10.5.0.254"}),
        ),
        ({"default_address_pools": ("10.44.0.0/16,24",)}, Pool("10.44.0.0/24", gateway="10.44.0.1")),
    ],
)
def test_the_settings_say_what_the_default_network_is(opened, settings, pool):
    assert bridge(opened(**settings)).pools == (pool,)


def test_the_options_are_what_the_settings_say(opened):
    options = bridge(opened(icc=False, ip_masq=False, ip="127.0.0.1", mtu="1400")).options
    assert options == {
        "com.docker.network.bridge.default_bridge": "true",
        "com.docker.network.bridge.enable_icc": "false",
        "com.docker.network.bridge.enable_ip_masquerade": "false",
        "com.docker.network.bridge.host_binding_ipv4": "127.0.0.1",
        "com.docker.network.bridge.name": "engine0",
        "com.docker.network.driver.mtu": "1400",
    }


def test_default_network_options_are_for_networks_that_clients_make(opened):
    networks = opened(default_network_opts=("bridge=com.docker.network.driver.mtu=1234", "macvlan=x=y"))
    assert bridge(networks).options["com.docker.network.driver.mtu"] == "1500"
    network = networks.create({"Name": "net"})
    assert network.options == {"com.docker.network.driver.mtu": "1234"}
    other = networks.create({"Name": "other", "Options": {"com.docker.network.driver.mtu": "9"}})
    assert other.options == {"com.docker.network.driver.mtu": "9"}


def test_the_containers_gateway_may_be_another_than_the_bridge(opened):
    networks = opened(bip="10.5.0.1/16", default_gateway="10.5.0.2")
    (found,) = networks.join(ONE, {"bridge": endpoint()})
    assert (found.ipv4, found.gateway4) == ("10.5.0.3", "10.5.0.2")


def test_ipv6_is_there_when_it_is_asked_for(opened):
    assert bridge(opened()).ipv6 is False
    network = bridge(opened(ipv6=True))
    assert network.ipv6 is True and network.pools[1].subnet.startswith("fd") and len(network.pools) == 2
    network = bridge(opened(ipv6=True, bip6="fd09::1/64", fixed_cidr_v6="fd09::1:0/112"))
    assert network.pools[1] == Pool("fd09::/64", "fd09::1:0/112", "fd09::1")


@pytest.mark.parametrize(
    ("changed", "pool"),
    [
        ({"fixed_cidr": "10.6.0.0/24"}, Pool("10.6.0.0/24", "10.6.0.0/24", "10.6.0.1")),
        ({"bip": "10.6.0.9/24"}, Pool("10.6.0.0/24", "", "10.6.0.9")),
        ({"bip": "10.6.0.9/24", "fixed_cidr": "10.6.0.0/24"}, Pool("10.6.0.0/24", "10.6.0.0/24", "10.6.0.9")),
        ({"bip": "10.6.0.9/20", "fixed_cidr": "10.6.1.0/24"}, Pool("10.6.0.0/20", "10.6.1.0/24", "10.6.0.9")),
        ({"ipv6": True, "fixed_cidr_v6": "fd09::/64"}, Pool("fd09::/64", "fd09::/64", "fd09::1")),
        ({"ipv6": True, "bip6": "fd09::9/64", "fixed_cidr_v6": "fd09::/80"}, Pool("fd09::/64", "fd09::/80", "fd09::9")),
    ],
)
def test_the_range_of_the_containers_is_shown_beside_the_subnet(opened, changed, pool):
    """As dockerd shows it, also where it is all of the subnet."""
    networks = opened(**changed)
    assert bridge(networks).pools[-1] == pool
    (found,) = networks.join(ONE, {"bridge": endpoint()})
    assert parse_address(found.ipv6 or found.ipv4)[1] in Subnet.parse(pool.ip_range or pool.subnet)


def test_new_settings_change_the_network_and_not_its_id(opened):
    before = bridge(opened())
    after = bridge(opened(bip="10.5.0.1/24"))
    assert (after.id, after.created_ns) == (before.id, before.created_ns)
    assert bridge(opened(bip="10.5.0.1/24")) == after


def test_a_network_with_endpoints_stays_what_it_is(opened):
    networks = opened()
    before, joined = bridge(networks), networks.join(ONE, {"bridge": endpoint()})
    again = opened(bip="10.5.0.1/24")
    assert bridge(again) == before
    again.leave(joined)
    assert bridge(opened(bip="10.5.0.1/24")).pools[0].subnet == "10.5.0.0/24"


def test_a_subnet_that_the_host_reaches_is_avoided_even_later(opened, around):
    """Another engine's docker0 on the same host, or a VPN that comes up."""
    around(Surroundings(near=subnets("172.17.0.0/16")))
    assert bridge(opened()).pools[0].subnet == "172.18.0.0/16"
    around(Surroundings())
    assert bridge(opened()).pools[0].subnet == "172.18.0.0/16"  # no reason to move
    around(Surroundings(far=subnets("172.18.0.0/15")))
    assert bridge(opened()).pools[0].subnet == "172.17.0.0/16"


def test_engines_that_share_a_host_have_bridges_of_their_own(opened, around):
    """And one that a network of the engine's own has is taken too."""
    around(Surroundings(devices=frozenset({"engine0", "eth0"})))
    networks = opened()
    assert bridge(networks).device == "engine1"
    assert bridge(networks).options["com.docker.network.bridge.name"] == "engine1"
    around(Surroundings())
    assert bridge(opened()).device == "engine1"
    networks.create({"Name": "net", "Options": {"com.docker.network.bridge.name": "engine0"}})
    around(Surroundings(devices=frozenset({"engine1"})))
    assert bridge(opened()).device == "engine2"


def test_the_first_container_finds_out_what_has_changed_since_the_first_look(opened, around):
    """Another engine may have been quicker; afterwards nothing moves any more."""
    networks = opened()
    assert (bridge(networks).device, networks.status(bridge(networks)).keys()) == ("engine0", {"172.17.0.0/16"})
    around(Surroundings(near=subnets("172.17.0.0/16"), devices=frozenset({"engine0"})))
    (found,) = networks.join(ONE, {"bridge": endpoint()})
    assert (bridge(networks).device, found.ipv4) == ("engine1", "172.18.0.2")
    around(Surroundings(near=subnets("172.18.0.0/16"), devices=frozenset({"engine1"})))
    (found,) = networks.join("2" * 64, {"bridge": endpoint()})
    assert (bridge(networks).device, found.ipv4) == ("engine1", "172.18.0.3")


def test_networks_of_clients_avoid_what_the_host_reaches_too(opened, around):
    networks = opened()
    around(Surroundings(near=subnets("172.18.0.0/24")))
    assert networks.create({"Name": "net"}).pools[0].subnet == "172.19.0.0/16"
    asked = networks.create({"Name": "asked", **subnet("172.18.0.0/24")})
    assert asked.pools[0].subnet == "172.18.0.0/24"  # who names a subnet answers for it


def test_the_default_network_may_not_cover_another(opened):
    """Which has an end when the other goes; meanwhile all but the default network is there."""
    first = opened()
    before, other = bridge(first), first.create({"Name": "net", **subnet("10.5.0.0/24")})
    networks = opened(bip="10.5.0.1/16")
    for reference in ("bridge", before.id):
        with pytest.raises(Conflict, match=r"subnet 10.5.0.0/16 overlaps 10.5.0.0/24"):
            networks.find(reference)
    assert {network.name for network in networks.all()} == {"host", "none", "net"}
    with networks.removing(other):
        pass
    assert (bridge(networks).id, bridge(networks).pools[0].subnet) == (before.id, "10.5.0.0/16")


def test_without_a_default_bridge_there_is_no_such_network(opened):
    opened().all()
    assert {network.name for network in opened(bridge="none").all()} == {"host", "none"}
    assert {network.name for network in opened().all()} == {"host", "none", "bridge"}


def test_a_bridge_that_is_to_be_there_already_is_said_to_be_missing(opened):
    with pytest.raises(SystemFailure, match="bridge device with non default name nobr0 must be created manually"):
        bridge(opened(bridge="nobr0"))


@pytest.mark.parametrize(
    ("given", "fixed", "wanted"),
    [
        ([], "", ""),
        ([], "10.6.0.0/24", ""),
        (["10.6.160.88/20", "10.6.176.88/20", "10.6.192.88/20"], "", "10.6.160.88/20"),
        (["10.6.160.88/20", "10.6.176.88/20", "10.6.192.88/20"], "10.6.176.0/24", "10.6.176.88/20"),
        (["10.6.160.88/20", "10.6.176.88/20", "10.6.192.88/20"], "10.6.177.0/24", "10.6.176.88/20"),
        (["10.6.160.88/24", "10.6.177.88/24"], "10.6.176.0/20", "10.6.177.88/24"),
        (["10.6.160.88/20", "10.6.192.88/20"], "10.6.176.0/24", "10.6.160.88/20"),
        (["fd09::1/64", "fd0a::1/64"], "fd0a::/80", "fd0a::1/64"),
    ],
)
def test_of_several_addresses_of_a_given_bridge_one_is_chosen(given, fixed, wanted):
    """The cases of dockerd's own test of a bridge with several addresses."""
    assert builtin.preferred(given, fixed) == wanted


def bridges(monkeypatch, **addresses):
    """What the host's bridges have: name → addresses."""
    monkeypatch.setattr(builtin, "_links", addresses.keys)
    monkeypatch.setattr(
        builtin,
        "_addresses_of",
        lambda device, version, fixed: [each for each in addresses[device] if (":" in each) == (version == 6)],
    )


@pytest.mark.parametrize(
    ("given", "changed", "pools"),
    [
        ([], {}, [Pool("172.17.0.0/16", "", "172.17.0.1")]),
        (["10.6.176.88/24"], {}, [Pool("10.6.176.0/24", "", "10.6.176.88")]),
        (
            ["10.6.176.88/20", "fd09::8888/56"],
            {"fixed_cidr": "10.6.176.0/24", "fixed_cidr_v6": "fd09::/64", "ipv6": True},
            [Pool("10.6.176.0/20", "10.6.176.0/24", "10.6.176.88"), Pool("fd09::/56", "fd09::/64", "fd09::8888")],
        ),
        (
            ["10.6.176.88/20"],
            {"fixed_cidr": "10.6.176.0/24", "bip": "10.6.176.99/24"},
            [Pool("10.6.176.0/24", "10.6.176.0/24", "10.6.176.99")],
        ),
        (
            ["10.6.176.88/24", "fd09::8888/64"],
            {"fixed_cidr": "10.6.176.0/20", "fixed_cidr_v6": "fd09::/56", "ipv6": True},
            [Pool("10.6.176.0/20", "10.6.176.0/20", "10.6.176.88"), Pool("fd09::/56", "fd09::/56", "fd09::8888")],
        ),
        (["10.6.176.88/24"], {"fixed_cidr": "10.6.177.0/24"}, [Pool("10.6.177.0/24", "10.6.177.0/24", "10.6.177.1")]),
    ],
)
def test_a_daemon_of_dockerds_name_takes_over_a_docker0_that_is_there(opened, monkeypatch, given, changed, pools):
    """The cases of dockerd's own test; an engine of another name has a bridge of its own beside it."""
    bridges(monkeypatch, **({"docker0": given} if given else {}))
    found = bridge(opened(as_dockerd=True, **changed))
    assert (found.device, list(found.pools)) == ("docker0", pools)
    assert found.options["com.docker.network.bridge.name"] == "docker0"
    assert bridge(opened()).device == "engine0"


def test_a_docker0_with_the_addresses_of_another_network_of_ours_keeps_them_from_nobody(opened, monkeypatch):
    opened().create({"Name": "net", **subnet("10.6.0.0/24")})
    bridges(monkeypatch, docker0=["10.6.0.1/24"])
    assert bridge(opened(as_dockerd=True)).pools[0].subnet == "172.17.0.0/16"


@pytest.mark.parametrize(
    ("before", "after", "pool"),
    [
        ({"default_address_pools": ("10.44.0.0/16,24",)}, {}, Pool("10.44.0.0/24", "", "10.44.0.1")),
        (
            {"default_address_pools": ("10.44.0.0/16,24",)},
            {"default_address_pools": ("10.45.0.0/16,24",)},
            Pool("10.44.0.0/24", "", "10.44.0.1"),
        ),
        ({"bip": "10.5.0.9/24"}, {}, Pool("10.5.0.0/24", "", "10.5.0.9")),
        ({"bip": "10.5.0.9/20"}, {"fixed_cidr": "10.5.1.0/24"}, Pool("10.5.0.0/20", "10.5.1.0/24", "10.5.0.9")),
        ({"bip": "10.5.0.9/24"}, {"fixed_cidr": "10.6.1.0/24"}, Pool("10.6.1.0/24", "10.6.1.0/24", "10.6.1.1")),
    ],
)
def test_the_subnet_stays_when_the_pools_change(opened, before, after, pool):
    """As that of dockerd does, whose bridge keeps its address; so does one that a setting has named once."""
    bridge(opened(**before))
    assert bridge(opened(**after)).pools == (pool,)


@pytest.mark.parametrize("fixed", ["10.6.0.0/16", "10.7.0.0/24"])
def test_a_range_outside_of_a_given_bridge_is_passed_over_with_a_warning(opened, monkeypatch, caplog, fixed):
    monkeypatch.setattr(builtin, "_addresses_of", lambda device, version, fixed: ["10.6.1.1/24"])
    assert bridge(opened(bridge="br9", fixed_cidr=fixed)).pools == (Pool("10.6.1.0/24", "", "10.6.1.1"),)
    assert f"fixed-cidr={fixed} is outside any subnet implied by addresses on the user-managed" in caplog.text


def test_a_range_of_ipv6_outside_of_a_given_bridge_is_refused_in_words(opened, monkeypatch):
    monkeypatch.setattr(
        builtin, "_addresses_of", lambda device, version, fixed: ["fd09::1/64"] if version == 6 else ["10.6.1.1/24"]
    )
    with pytest.raises(
        Invalid, match=r"^fixed-cidr-v6=fd0a::/80 is outside any subnet implied by addresses on the user"
    ):
        bridge(opened(bridge="br9", ipv6=True, fixed_cidr_v6="fd0a::/80"))
