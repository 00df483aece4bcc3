"""Chooses the endpoints of a container whose gateways its default routes lead to, for IPv4 and IPv6 separately.

Pure. The two may be in different networks. The published ports follow the default routes: what comes to the host's
addresses is led to the endpoint that has the route of the same version of IP.
"""

from collections.abc import Iterable

from engine.daemon.network.drivers import bridge
from engine.daemon.network.record import Endpoint, Network, Pair

_ROUTED_MODES = ("l3", "l3s")


def choose_gateways(pairs: Iterable[Pair]) -> tuple[Endpoint | None, Endpoint | None]:
    """The endpoints of the IPv4 and the IPv6 default route, None for none.

    As docker chooses: the one with the highest GwPriority, then one that leads out over both versions of IP, then the
    one whose network's name sorts first.
    """
    found = [(pair[1], pair[0], _leads(*pair)) for pair in pairs if not pair[0].internal]
    ordered = sorted(found, key=lambda each: (-each[0].priority, -sum(each[2]), each[1].name))
    ipv4, ipv6 = (next((each[0] for each in ordered if each[2][version]), None) for version in (0, 1))
    return ipv4, ipv6


def _leads(network: Network, endpoint: Endpoint) -> tuple[bool, bool]:
    """Whether IPv4's and IPv6's default route may lead to the endpoint."""
    bare = without_gateway(network)
    return bool(endpoint.ipv4 and (endpoint.gateway4 or bare)), bool(endpoint.ipv6 and (endpoint.gateway6 or bare))


def published_through(pairs: Iterable[Pair]) -> dict[str, frozenset[int]]:
    """By the ids of bridge networks, the versions of IP for which the container's ports are published through each.

    Those are the versions that it routes, and for the host's addresses those whose default route leads there. Where
    none leads out over one version, the network of the other has both, as the userland proxy can translate.
    """
    pairs = list(pairs)
    ipv4, ipv6 = choose_gateways(pairs)
    chosen = {4: ipv4 or ipv6, 6: ipv6 or ipv4}
    found = {}
    for network, endpoint in pairs:
        if network.driver == "bridge" and not network.internal:
            has = {4: network.ipv4, 6: network.ipv6}
            own = (each for each in chosen if has[each] and bridge.mode(network, each) == "routed")
            found[network.id] = frozenset(own) | {each for each in chosen if chosen[each] is endpoint}
    return {network_id: versions for network_id, versions in found.items() if versions}


def without_gateway(network: Network) -> bool:
    """Whether the default route needs no gateway, as the parent link routes the packets itself (ipvlan's l3 modes)."""
    return network.driver == "ipvlan" and network.options.get("ipvlan_mode") in _ROUTED_MODES
