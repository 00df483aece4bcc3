"""Which network is a container's way out."""

import pytest

from engine.daemon.network.gateways import choose_gateways, published_through
from engine.daemon.network.record import Endpoint, Network
from engine.dataclass import replace

ALPHA = Network("a" * 64, "alpha", "bridge", 0)
OMEGA = Network("b" * 64, "omega", "bridge", 0)
FOUR = Endpoint("1", "", "", ipv4="10.0.0.2", gateway4="10.0.0.1")
BOTH = replace(FOUR, id="2", ipv6="fd00::2", gateway6="fd00::1")
SIX = replace(BOTH, id="3", ipv4="", gateway4="")
IPVLAN = Network("c" * 64, "zeta", "ipvlan", 0, options={"ipvlan_mode": "l3s"})


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([], (None, None)),
        ([(OMEGA, BOTH), (ALPHA, FOUR)], ("2", "2")),
        ([(OMEGA, BOTH), (ALPHA, replace(FOUR, priority=1))], ("1", "2")),
        ([(OMEGA, FOUR), (ALPHA, replace(SIX, id="2"))], ("1", "2")),
        ([(OMEGA, replace(BOTH, priority=1)), (ALPHA, FOUR)], ("2", "2")),
        ([(OMEGA, BOTH), (ALPHA, replace(FOUR, priority=-1))], ("2", "2")),
        ([(replace(ALPHA, internal=True), replace(FOUR, priority=9)), (OMEGA, BOTH)], ("2", "2")),
        ([(ALPHA, replace(FOUR, gateway4="")), (OMEGA, BOTH)], ("2", "2")),
        ([(ALPHA, Endpoint("3", "", ""))], (None, None)),
        ([(IPVLAN, replace(BOTH, gateway4="", gateway6=""))], ("2", "2")),
        ([(replace(IPVLAN, options={}), replace(BOTH, gateway4="", gateway6=""))], (None, None)),
    ],
)
def test_the_highest_priority_then_more_versions_of_ip_then_the_first_name_of_those_that_lead_out(
    pairs: list[tuple[Network, Endpoint]], expected: tuple[str | None, str | None]
) -> None:
    assert tuple(end and end.id for end in choose_gateways(pairs)) == expected


ROUTED = {f"com.docker.network.bridge.gateway_mode_ipv{version}": "routed" for version in (4, 6)}


@pytest.mark.parametrize(
    ("pairs", "through"),
    [
        ([(ALPHA, FOUR)], [{4, 6}]),
        ([(ALPHA, SIX)], [{4, 6}]),
        ([(ALPHA, FOUR), (OMEGA, SIX)], [{4}, {6}]),
        ([(ALPHA, FOUR), (OMEGA, BOTH)], [None, {4, 6}]),
        ([(ALPHA, FOUR), (replace(OMEGA, ipv6=True, options=ROUTED), BOTH)], [None, {4, 6}]),
        ([(ALPHA, replace(FOUR, priority=1)), (replace(OMEGA, options=ROUTED), FOUR)], [{4, 6}, {4}]),
        ([(ALPHA, FOUR), (IPVLAN, replace(SIX, gateway6=""))], [{4}, None]),
        ([(IPVLAN, replace(BOTH, gateway4="", gateway6="")), (ALPHA, FOUR)], [None, None]),
        ([(replace(ALPHA, internal=True), FOUR), (OMEGA, SIX)], [None, {4, 6}]),
    ],
)
def test_ports_follow_the_default_routes_and_what_is_routed(
    pairs: list[tuple[Network, Endpoint]], through: list[set[int] | None]
) -> None:
    found = published_through(pairs)
    assert [found.get(network.id) for network, _ in pairs] == through
