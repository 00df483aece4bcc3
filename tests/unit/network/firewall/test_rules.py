"""What a network and an endpoint add to the table."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.daemon.network.firewall import rules, table
from engine.daemon.network.record import Endpoint, Network, Pool, Published
from engine.dataclass import replace
from engine.kernel.netlink import nftexpressions as nft
from engine.kernel.netlink.nftables import Element

NETWORK = Network(
    id="ab" * 32,
    name="web",
    driver="bridge",
    created_ns=0,
    device="br-web",
    ipv6=True,
    pools=(Pool("172.18.0.0/16", gateway="172.18.0.1"), Pool("fd00:a::/64", gateway="fd00:a::1")),
)
ENDPOINT = Endpoint("1" * 64, NETWORK.id, "2" * 64, ipv4="172.18.0.2", ipv6="fd00:a::2")
DEVICE = b"br-web".ljust(16, b"\0")
BRIDGE = "com.docker.network.bridge."


def published(*ports: Published) -> list[Element]:
    """The elements of an endpoint with these ports."""
    return rules.port_elements(NETWORK, replace(ENDPOINT, ports=ports))


def test_a_port_of_any_address_leads_to_the_container() -> None:
    """Protocol and port are the key, the container's address and port what it leads to; IPv6 in a map of its own."""
    assert published(Published(80, "tcp", "0.0.0.0", 8080)) == [
        Element("everywhere4", b"\x06\0\0\0\x1f\x90\0\0", b"\xac\x12\0\x02\0\x50\0\0")
    ]
    address = bytes.fromhex("fd00000a000000000000000000000002")
    assert published(Published(53, "udp", "::", 53)) == [
        Element("proxied6", b"\x11\0\0\0\0\x35\0\0"),
        Element("everywhere6", b"\x11\0\0\0\0\x35\0\0", address + b"\0\x35\0\0"),
    ]


def test_a_port_of_one_address_is_looked_up_with_it() -> None:
    assert published(Published(80, "sctp", "192.0.2.1", 81)) == [
        Element("published4", b"\x84\0\0\0\xc0\0\x02\x01\0\x51\0\0", b"\xac\x12\0\x02\0\x50\0\0")
    ]


@pytest.mark.parametrize(
    ("address", "opened"),
    [("0.0.0.0", ["opened4"]), ("::", ["opened6"]), ("", ["opened4", "opened6"])],
    ids=["4", "6", "of an earlier release"],
)
def test_a_port_of_a_routed_network_is_only_opened(address: str, opened: list[str]) -> None:
    """By the container's address of that version: nothing of the host's leads to it."""
    found = published(Published(80, "tcp", address, 0))
    assert [element.of for element in found] == opened
    assert not any(element.data for element in found)


def test_a_port_of_a_family_that_the_container_lacks_is_the_proxys() -> None:
    """And so is ::1: the rules lead nowhere, and know the port as one that an internal network may not have."""
    lacking = replace(ENDPOINT, ipv6="", ports=(Published(80, "tcp", "::", 80),))
    assert rules.port_elements(NETWORK, lacking) == [Element("proxied6", b"\x06\0\0\0\0\x50\0\0")]
    assert published(Published(81, "tcp", "::1", 81)) == [Element("proxied6", b"\x06\0\0\0\0\x51\0\0")]


def test_a_network_is_found_by_its_device_and_its_subnets() -> None:
    """Ranges begin at the subnet's first address and end before the one behind its last."""
    elements = rules.network_elements(NETWORK)
    assert [element for element in elements if element.of == "sources4"] == [
        Element("sources4", bytes((172, 18, 0, 0)), verdict=nft.goto("out-br-web")),
        Element("sources4", bytes((172, 19, 0, 0)), end=True),
    ]
    assert Element(table.WITHIN, DEVICE + DEVICE, verdict=nft.ACCEPT) in elements
    assert Element(table.INTERNAL, DEVICE) not in elements
    assert Element(table.INTERNAL, DEVICE) in rules.network_elements(replace(NETWORK, internal=True))


def test_a_range_up_to_the_last_address_has_no_end() -> None:
    whole = replace(NETWORK, pools=(Pool("128.0.0.0/1"),))
    assert [element.end for element in rules.network_elements(whole) if element.of == "sources4"] == [False]


@pytest.mark.parametrize("said", ["false", "0", "False"])
def test_a_network_closed_within_is_not_let_past_tracking(said: str) -> None:
    """What is not tracked cannot be told from an answer, so nothing of it may be."""
    closed = replace(NETWORK, options={BRIDGE + "enable_icc": said})
    assert Element(table.WITHIN, DEVICE + DEVICE, verdict=nft.goto("closed")) in rules.network_elements(closed)
    assert not any(nft.DO_NOT_TRACK in rule for rule in rules.chains(closed)["from-br-web"])
    assert sum(nft.DO_NOT_TRACK in rule for rule in rules.chains(NETWORK)["from-br-web"]) == 2


def test_a_network_lets_in_what_its_mode_says() -> None:
    """Each family its own: by default what was led there; and in the end, nothing."""
    led = nft.status(nft.DESTINATION_CHANGED)
    plain = rules.chains(NETWORK)["to-br-web"]
    assert [led in rule for rule in plain] == [True, True, False]
    mixed = replace(NETWORK, options={BRIDGE + "gateway_mode_ipv6": "routed"})
    assert [led in rule for rule in rules.chains(mixed)["to-br-web"]] == [True, False, False, False]
    isolated = replace(NETWORK, options={BRIDGE + "gateway_mode_ipv4": "isolated"})
    assert [led in rule for rule in rules.chains(isolated)["to-br-web"]] == [True, False]
    assert rules.chains(replace(NETWORK, internal=True))["to-br-web"] == [nft.decide(nft.DROP)]
    for network in (NETWORK, mixed, isolated):
        assert rules.chains(network)["to-br-web"][-1] == nft.decide(nft.DROP)


def test_direct_routing_opens_published_ports_at_the_containers_own_addresses() -> None:
    """Where a network's addresses are translated; what else its mode lets in stays as it is."""
    direct = rules.Openings(direct=True)
    ports = replace(ENDPOINT, ports=(Published(80, "tcp", "0.0.0.0", 8080),))
    before, after = (rules.port_elements(NETWORK, ports, each) for each in (rules.Openings(), direct))
    assert {each.of for each in set(after) - set(before)} == {"opened4", "opened6"}
    plain, opened = (rules.chains(NETWORK, each)["to-br-web"] for each in (rules.Openings(), direct))
    added = [rule for rule in opened if rule not in plain]
    assert [name in rule for rule in added for name in (b"opened4", b"opened6")] == [True, False, False, True]
    assert not any(nft.meta("iifname") in rule for rule in added)
    assert opened[-1] == nft.decide(nft.DROP)
    isolated = replace(NETWORK, options={BRIDGE + f"gateway_mode_ipv{version}": "isolated" for version in (4, 6)})
    assert rules.chains(isolated, direct) == rules.chains(isolated)


def test_a_firewall_mark_lets_packets_into_all_networks_that_are_not_internal() -> None:
    marked = rules.Openings(mark=(1, 3))
    assert rules.chains(NETWORK, marked)["to-br-web"][0] == nft.marked(1, 3) + nft.decide(nft.ACCEPT)
    assert rules.chains(replace(NETWORK, internal=True), marked)["to-br-web"] == [nft.decide(nft.DROP)]


def test_a_network_is_masqueraded_unless_it_says_no() -> None:
    def hidden(**options: str) -> list[bool]:
        network = replace(NETWORK, options={BRIDGE + key: value for key, value in options.items()})
        return [nft.MASQUERADE in rule for rule in rules.chains(network)["out-br-web"][2:]]

    assert hidden() == [True, True]
    assert hidden(enable_ip_masquerade="false") == []
    assert hidden(gateway_mode_ipv6="routed") == [True]
    assert hidden(gateway_mode_ipv4="nat-unprotected") == [True, True]
    assert hidden(host_ipv4="192.0.2.1") == [False, True]


def test_a_link_opens_the_ports_that_it_names() -> None:
    """From the one to the other, by both families; ports that are named twice once."""
    other = replace(ENDPOINT, id="3" * 64, ipv4="172.18.0.3", ipv6="")
    assert rules.link_elements(ENDPOINT, other, [(80, "tcp"), (80, "tcp")]) == [
        Element("links4", b"\xac\x12\0\x02\x06\0\0\0\xac\x12\0\x03\0\x50\0\0")
    ]


@given(
    ports=st.lists(
        st.builds(
            Published,
            st.integers(1, 65535),
            st.sampled_from(list(rules.PROTOCOLS)),
            st.sampled_from(["0.0.0.0", "::", "127.0.0.1", "192.0.2.7", "2001:db8::1", "::1", ""]),
            st.integers(0, 65535),
        ),
        max_size=20,
    )
)
def test_what_was_added_can_be_taken_out_by_asking_again(ports: list[Published]) -> None:
    """The same elements each time, none of them twice, and each key as long as its map has them."""
    ports = [port if port.host_ip else replace(port, host_port=0) for port in ports]
    found = published(*ports)
    assert found == published(*ports)
    assert len(set(found)) == len(found)
    lengths = {"published4": 12, "published6": 24, "everywhere4": 8, "everywhere6": 8, "opened4": 12, "opened6": 24}
    lengths |= {"proxied4": 8, "proxied6": 8}
    assert all(len(element.key) == lengths[element.of] for element in found)
