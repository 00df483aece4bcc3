"""Which of a container's networks is its way out: whose gateway its default routes lead to.

Pure. IPv4 and IPv6 are chosen apart: a container may leave by different networks.
"""

from collections.abc import Iterable

from engine.daemon.network.record import Endpoint, Network, Pair

_ROUTED_MODES = ("l3", "l3s")


def choose_gateways(pairs: Iterable[Pair]) -> tuple[Endpoint | None, Endpoint | None]:
    """The endpoints that the default routes of IPv4 and IPv6 lead out by: the highest GwPriority, then the name."""
    ordered = sorted(pairs, key=lambda pair: (-pair[1].priority, pair[0].name))
    outside = [pair for pair in ordered if not pair[0].internal]
    ipv4 = (end for network, end in outside if end.ipv4 and (end.gateway4 or without_gateway(network)))
    ipv6 = (end for network, end in outside if end.ipv6 and (end.gateway6 or without_gateway(network)))
    return next(ipv4, None), next(ipv6, None)


def without_gateway(network: Network) -> bool:
    """Whether packets leave by the interface alone: the host's link routes them (ipvlan's l3 modes)."""
    return network.driver == "ipvlan" and network.options.get("ipvlan_mode") in _ROUTED_MODES
