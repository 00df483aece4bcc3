"""Chooses the endpoints of a container whose gateways its default routes lead to, for IPv4 and IPv6 separately.

Pure. The two may be in different networks.
"""

from collections.abc import Iterable

from engine.daemon.network.record import Endpoint, Network, Pair

_ROUTED_MODES = ("l3", "l3s")


def choose_gateways(pairs: Iterable[Pair]) -> tuple[Endpoint | None, Endpoint | None]:
    """The endpoints of the IPv4 and the IPv6 default route, None for none.

    The endpoint with the highest GwPriority is chosen; of several the one whose network's name sorts first.
    """
    ordered = sorted(pairs, key=lambda pair: (-pair[1].priority, pair[0].name))
    outside = [pair for pair in ordered if not pair[0].internal]
    ipv4 = (end for network, end in outside if end.ipv4 and (end.gateway4 or without_gateway(network)))
    ipv6 = (end for network, end in outside if end.ipv6 and (end.gateway6 or without_gateway(network)))
    return next(ipv4, None), next(ipv6, None)


def without_gateway(network: Network) -> bool:
    """Whether the default route needs no gateway, as the parent link routes the packets itself (ipvlan's l3 modes)."""
    return network.driver == "ipvlan" and network.options.get("ipvlan_mode") in _ROUTED_MODES
