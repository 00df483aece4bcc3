"""What the drivers refuse, in docker's words, and what they call their devices."""

import pytest

from engine.daemon.network.drivers import bridge, choice, host, ipvlan, macvlan, null, options, parents
from engine.daemon.network.record import LOCAL, Network, Pool
from engine.dataclass import replace
from engine.errors import EngineError, Forbidden, Invalid, NotFound, SystemFailure

BRIDGE = Network("ab" * 32, "web", "bridge", 0, pools=(Pool("10.9.0.0/24", gateway="10.9.0.1"),))
PREFIX = "com.docker.network.bridge"
ICC = f"{PREFIX}.enable_icc"
MTU = "com.docker.network.driver.mtu"
PARSE_BOOL = 'strconv.ParseBool: parsing "x": invalid syntax'


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"options": {ICC: "x"}}, Invalid, f"failed to parse {ICC} value: x ({PARSE_BOOL})"),
        (
            {"options": {MTU: "x"}},
            Invalid,
            f'failed to parse {MTU} value: x (strconv.Atoi: parsing "x": invalid syntax)',
        ),
        ({"options": {MTU: "-1"}}, Invalid, "invalid MTU number: -1"),
        ({"options": {MTU: "70000"}}, Invalid, "invalid MTU number: 70000"),
        (
            {"options": {f"{PREFIX}.host_binding_ipv4": "x"}},
            Invalid,
            f"failed to parse {PREFIX}.host_binding_ipv4 value: x (nil ip)",
        ),
        (
            {"options": {f"{PREFIX}.gateway_mode_ipv4": "x"}},
            Invalid,
            f"failed to parse {PREFIX}.gateway_mode_ipv4 value: x (unknown gateway mode x)",
        ),
        (
            {"options": {f"{PREFIX}.gateway_mode_ipv6": "isolated"}},
            SystemFailure,
            "gateway mode 'isolated' can only be used for an internal network",
        ),
        (
            {"options": {"com.docker.network.host_ipv4": "::1"}},
            Invalid,
            "failed to parse com.docker.network.host_ipv4 value: ::1 (not an IPv4 address)",
        ),
        (
            {"options": {f"{PREFIX}.host_ipv4": "x"}},
            Invalid,
            f"failed to parse {PREFIX}.host_ipv4 value: x (nil ip)",
        ),
        (
            {"options": {"com.docker.network.host_ipv6": "1.2.3.4"}},
            Invalid,
            "failed to parse com.docker.network.host_ipv6 value: 1.2.3.4 (not an IPv6 address)",
        ),
        ({"ipv4": False}, Invalid, "IPv4 or IPv6 must be enabled"),
        ({"pools": BRIDGE.pools * 2}, Forbidden, "bridge driver doesn't support multiple subnets"),
        ({"pools": (Pool("fe80::/80"),)}, Invalid, "'fe80::/80' clashes with the Link-Local prefix 'fe80::/64'"),
        ({"pools": (Pool("fe80::/10"),)}, Invalid, "'fe80::/10' clashes with the Link-Local prefix 'fe80::/64'"),
        (
            {"options": {"com.docker.network.advertise_addr_ms": "99"}},
            SystemFailure,
            "com.docker.network.advertise_addr_ms must be in the range 100 to 2000",
        ),
        (
            {"options": {"com.docker.network.advertise_addr_ms": "x"}},
            SystemFailure,
            'value for option com.docker.network.advertise_addr_ms "x" must be integer milliseconds',
        ),
        (
            {"options": {"com.docker.network.advertise_addr_nmsgs": "4"}},
            SystemFailure,
            "com.docker.network.advertise_addr_nmsgs must be in the range 0 to 3",
        ),
        (
            {"options": {"com.docker.network.advertise_addr_nmsgs": "x"}},
            SystemFailure,
            'value for option com.docker.network.advertise_addr_nmsgs "x" must be an integer',
        ),
        ({"pools": (Pool("ff02::/64"),)}, Invalid, "multicast subnet 'ff02::/64' is not allowed"),
        (
            {"options": {f"{PREFIX}.name": "a b"}},
            Invalid,
            'invalid name of a network interface: "a b": 1 to 15 bytes without space, / : or %, and not lo',
        ),
    ],
)
def test_a_bridge_that_cannot_be_is_refused(changes: dict, kind: type[EngineError], words: str) -> None:
    with pytest.raises(kind) as refused:
        bridge.check(replace(BRIDGE, **changes), [])
    assert str(refused.value) == words


@pytest.mark.parametrize("subnet", ["fe80::/64", "fe80:1234::/64", "fe81::/64"])
def test_a_subnet_of_link_local_addresses_beside_the_usual_one_is_taken(subnet: str) -> None:
    bridge.check(replace(BRIDGE, pools=(Pool(subnet),)), [])


@pytest.mark.parametrize("text", ["1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False"])
def test_options_are_read_as_go_reads_them(text: str) -> None:
    given = {ICC: text, MTU: "+1400", "nonsense": "x"}
    bridge.check(replace(BRIDGE, options=given), [BRIDGE])


def test_two_networks_have_two_bridges() -> None:
    named = {f"{PREFIX}.name": "mine"}
    other = replace(BRIDGE, id="cd" * 32, device="mine", options=named)
    with pytest.raises(Forbidden, match="networks have same bridge name"):
        bridge.check(replace(BRIDGE, options=named), [other])


def test_a_bridge_is_called_by_its_option_or_by_the_id() -> None:
    assert bridge.device(BRIDGE) == "br-abababababab"
    assert bridge.device(replace(BRIDGE, options={f"{PREFIX}.name": "mine"})) == "mine"
    assert options.prefix_of({}) == "eth"
    assert options.prefix_of({"com.docker.network.container_iface_prefix": "lan"}) == "lan"


@pytest.mark.parametrize(
    ("changes", "own", "kept"),
    [
        ({}, [("10.9.0.1", 24)], (True, True)),
        ({"options": {f"{PREFIX}.inhibit_ipv4": "true"}}, [], (True, True)),
        ({"options": {f"{PREFIX}.inhibit_ipv4": "true"}, "internal": True}, [], (False, True)),
        ({"options": {f"{PREFIX}.gateway_mode_ipv4": "isolated"}, "internal": True}, [], (False, True)),
    ],
)
def test_a_bridge_has_the_gateways_unless_it_is_to_have_none(
    changes: dict, own: list[tuple[str, int]], kept: tuple[bool, bool]
) -> None:
    network = replace(BRIDGE, **changes)
    assert (bridge.addresses(network), bridge.gateways(network)) == (own, kept)


def refused(driver: object, others: list[Network], **options: str) -> str:
    """Why such a network cannot be, or nothing."""
    name = driver.__name__.rpartition(".")[2]
    try:
        driver.check(Network("ab" * 32, "lan", name, 0, options=options), others)
    except Invalid as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("parent", "words"),
    [
        ("lo", "loopback interface is not a valid {} parent link"),
        ("nope", "invalid subinterface vlan name nope, example formatting is eth0.10"),
        ("nope.10", "-o parent interface was not found on the host: nope"),
        ("lo.x", "unable to parse a valid vlan id from: x (ex. eth0.10 for vlan 10)"),
        ("lo.5000", "vlan id must be between 1-4094, received: 5000"),
        (
            "lo.1.2",
            "required interface name format is: name.vlan_id, ex. eth0.10 for vlan 10, instead received lo.1.2",
        ),
        ("n" * 20, "invalid subinterface vlan name " + "n" * 20 + ", example formatting is eth0.10"),
        ("lo.7", ""),
        ("", ""),
    ],
)
@pytest.mark.parametrize("driver", [macvlan, ipvlan])
def test_a_parent_is_there_or_is_a_vlan_of_one(driver: object, parent: str, words: str) -> None:
    name = driver.__name__.rpartition(".")[2]
    assert refused(driver, [], parent=parent) == words.format(name)


def test_modes_are_those_of_docker() -> None:
    assert refused(macvlan, [], macvlan_mode="x") == (
        "requested macvlan mode 'x' is not valid, 'bridge' mode is the macvlan driver default"
    )
    assert refused(ipvlan, [], ipvlan_mode="x") == (
        "requested ipvlan mode 'x' is not valid, 'l2' mode is the ipvlan driver default"
    )
    assert refused(ipvlan, [], ipvlan_flag="x") == (
        "requested ipvlan flag 'x' is not valid, 'bridge' is the ipvlan driver default"
    )


def test_a_parent_is_shared_only_where_the_driver_can() -> None:
    other = Network("cd" * 32, "old", "macvlan", 0, device="lo.7", options={"parent": "lo.7"})
    assert refused(macvlan, [other], parent="lo.7") == ""
    assert refused(macvlan, [other], parent="lo.7", macvlan_mode="passthru") == (
        f"cannot use mode passthru, macvlan network {other.id} is already using parent interface lo.7"
    )
    alone = replace(other, options={"parent": "lo.7", "macvlan_mode": "passthru"})
    assert refused(macvlan, [alone], parent="lo.7") == (
        f"macvlan network {other.id} is already using parent interface lo.7 in mode passthru"
    )
    assert refused(ipvlan, [replace(other, driver="ipvlan")], parent="lo.7") == (
        "network di-cdcdcdcdcdcd is already using parent interface lo.7"
    )


def test_a_network_without_a_parent_gets_one_that_leads_nowhere() -> None:
    network = Network("ab" * 32, "lan", "macvlan", 0)
    assert (macvlan.device(network), ipvlan.device(network)) == ("dm-abababababab", "di-abababababab")
    assert parents.own(network) and not parents.own(replace(network, options={"parent": "eth0"}))
    assert macvlan.gateways(network) == ipvlan.gateways(network) == (False, False)


@pytest.mark.parametrize("driver", [host, null])
def test_there_is_one_network_of_the_host_and_one_of_nothing(driver: object) -> None:
    name = driver.__name__.rpartition(".")[2]
    network = Network("ab" * 32, "other", name, 0)
    with pytest.raises(Forbidden, match=f'only one instance of "{name}" network is allowed'):
        driver.check(network, [replace(network, id="cd" * 32)])
    assert (driver.device(network), driver.gateways(network)) == ("", (False, False))


def test_a_driver_is_known_or_a_plugin_that_is_not_there_or_a_swarms() -> None:
    for name in LOCAL:
        assert {"check", "device", "gateways"} <= set(vars(choice.find(name)))
    with pytest.raises(NotFound, match='plugin "nope" not found'):
        choice.find("nope")
    with pytest.raises(Forbidden, match="This node is not a swarm manager"):
        choice.find("overlay")
