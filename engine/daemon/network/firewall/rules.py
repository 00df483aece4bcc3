"""The chains, rules and set elements that one network, and one container's endpoint, add to the engine's table.

Pure. The same network always gives the same result, so what was added can be removed by asking for it again. `table`
describes the sets, and the chains that lead here.

A network has three chains of its own, named after its device. `from` sees what comes in from the bridge, before
connection tracking. `to` sees what is forwarded into the bridge and belongs to no accepted connection. `out` sees the
first packet of each connection that a container of the network opens.
"""

import socket
from collections.abc import Iterable, Iterator

from engine.daemon.network.drivers import bridge
from engine.daemon.network.drivers.options import switched_on
from engine.daemon.network.firewall import table
from engine.daemon.network.firewall.table import LOOPBACK, named
from engine.daemon.network.record import Endpoint, Network, Pool, Published
from engine.dataclass import dataclass
from engine.kernel.netlink import nftexpressions as nft
from engine.kernel.netlink.nftables import Element, padded

PROTOCOLS = {"tcp": 6, "udp": 17, "sctp": 132}
ANYWHERE = {"0.0.0.0": nft.IPV4, "::": nft.IPV6}
_VERSION = {nft.IPV4: 4, nft.IPV6: 6}
LOOPBACK_ADDRESS = "::1"
PROXIED = ("::", LOOPBACK_ADDRESS)
"""Addresses of the host where the userland proxy listens too, for what no rule can lead to a container."""


@dataclass(frozen=True, slots=True)
class Openings:
    """What the daemon's settings let into every bridge network that is not internal.

    direct: published ports are reached at the containers' own addresses too, from everywhere
    mark: the firewall mark of packets that may come in, and its mask; None for none
    """

    direct: bool = False
    mark: tuple[int, int] | None = None


_CLOSED = Openings()


def open_within(network: Network) -> bool:
    """Whether the network's containers may reach each other (enable_icc)."""
    return switched_on(network.options, bridge.ICC, otherwise=True)


def packed(address: str) -> bytes:
    """An address as 4 or 16 bytes."""
    return socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)


def family_of(address: str) -> int:
    """The address family of an address in text form."""
    return nft.IPV6 if ":" in address else nft.IPV4


def _interface(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape").ljust(16, b"\0")


def subnet(pool: Pool) -> tuple[int, bytes, bytes]:
    """The family, first address and mask of a pool."""
    address, _, bits = pool.subnet.partition("/")
    first = packed(address)
    width = len(first) * 8
    mask = ((1 << width) - (1 << width - int(bits))).to_bytes(len(first), "big")
    number = int.from_bytes(first, "big") & int.from_bytes(mask, "big")
    return family_of(address), number.to_bytes(len(first), "big"), mask


def _chain(kind: str, network: Network) -> str:
    return f"{kind}-{network.device}"


def chains(network: Network, openings: Openings = _CLOSED) -> dict[str, list[bytes]]:
    """The network's own chains: name → the expressions of each rule."""
    return {
        _chain("from", network): list(_from(network)),
        _chain("to", network): list(_to(network, openings)),
        _chain("out", network): list(_out(network)),
    }


def _from(network: Network) -> Iterator[bytes]:
    if open_within(network):
        # Traffic between containers of the bridge does not concern the host. Untracked, it costs no more than on a
        # plain bridge.
        for pool in network.pools:
            family, first, mask = subnet(pool)
            within = nft.family(family) + nft.destination(family) + nft.masked(mask) + nft.compare(first)
            if pool.gateway:
                within += nft.destination(family) + nft.compare(packed(pool.gateway), nft.DIFFERENT)
            yield within + nft.DO_NOT_TRACK + nft.decide(nft.ACCEPT)
    for family in table.FAMILIES:
        # These rules close the way to the host's loopback that `route_localnet` opens (CVE-2020-8558).
        for loaded in (nft.source(family), nft.destination(family)):
            yield nft.family(family) + loaded + LOOPBACK[family] + nft.decide(nft.DROP)


def _to(network: Network, openings: Openings) -> Iterator[bytes]:
    if not network.internal:
        if openings.mark is not None:
            yield nft.marked(*openings.mark) + nft.decide(nft.ACCEPT)
        for family in table.FAMILIES:
            how = bridge.mode(network, _VERSION[family])
            yield from _entrance(how, family)
            opened = nft.family(family) + table.destination_key(family) + nft.lookup(named("opened", family))
            for name in bridge.trusted(network) if how == "nat" else ():
                yield nft.interface("iifname", name) + opened + nft.decide(nft.ACCEPT)
            if how == "nat" and openings.direct:
                yield opened + nft.decide(nft.ACCEPT)
    yield nft.decide(nft.DROP)


def _entrance(how: str, family: int) -> Iterator[bytes]:
    seen = nft.family(family)
    if how == "nat-unprotected":
        yield seen + nft.decide(nft.ACCEPT)
    if how == "routed":
        yield seen + table.destination_key(family) + nft.lookup(named("opened", family)) + nft.decide(nft.ACCEPT)
        yield seen + nft.meta("l4proto") + nft.compare(bytes((table.ICMP[family],))) + nft.decide(nft.ACCEPT)
    if how == "nat":
        yield seen + nft.status(nft.DESTINATION_CHANGED) + nft.decide(nft.ACCEPT)


def _out(network: Network) -> Iterator[bytes]:
    # A container may reach its neighbour, or itself, by the host's address. The answer must come back the same way, so
    # the source is masqueraded.
    stays = nft.interface("oifname", network.device)
    yield stays + nft.status(nft.DESTINATION_CHANGED) + nft.MASQUERADE
    yield stays + nft.decide(nft.ACCEPT)
    if network.internal or not switched_on(network.options, bridge.MASQUERADE, otherwise=True):
        return
    for family in table.FAMILIES:
        if bridge.mode(network, _VERSION[family]) not in ("nat", "nat-unprotected"):
            continue
        named = (network.options.get(key) for key in bridge.HOST_ADDRESSES[_VERSION[family]])
        address = next(filter(None, named), "")
        changed = nft.load(packed(address)) + nft.come_from(family, 0) if address else nft.MASQUERADE
        yield nft.family(family) + changed


def network_elements(network: Network) -> list[Element]:
    """The elements that lead packets to the network's chains, and those that describe the network."""
    device = _interface(network.device)
    within = nft.ACCEPT if open_within(network) else nft.goto(table.CLOSED)
    found = [
        Element(table.BRIDGES, device),
        Element(table.WITHIN, device + device, verdict=within),
        Element(table.ARRIVING, device, verdict=nft.goto(_chain("from", network))),
        Element(table.INCOMING, device, verdict=nft.goto(_chain("to", network))),
    ]
    if network.internal:
        found.append(Element(table.INTERNAL, device))
    for pool in network.pools:
        family, first, mask = subnet(pool)
        name = named("sources", family)
        after = int.from_bytes(first, "big") + (1 << len(mask) * 8) - int.from_bytes(mask, "big")
        found.append(Element(name, first, verdict=nft.goto(_chain("out", network))))
        if after < 1 << len(mask) * 8:  # a range up to the last address of all needs no end
            found.append(Element(name, after.to_bytes(len(mask), "big"), end=True))
    return found


def port_elements(network: Network, endpoint: Endpoint, openings: Openings = _CLOSED) -> list[Element]:
    """The elements that lead the host's ports to the container, and open its ports to hosts that use its address."""
    trusting = openings.direct or bool(bridge.trusted(network))
    return list(dict.fromkeys(each for port in endpoint.ports for each in _port(endpoint, port, trusting)))


def _port(endpoint: Endpoint, port: Published, trusting: bool) -> Iterator[Element]:
    protocol, inside = bytes((PROTOCOLS[port.protocol],)), port.container_port.to_bytes(2, "big")
    if trusting or not port.host_port:  # where a network routes, no port of the host is used
        own: tuple[str, ...] = (endpoint.ipv4, endpoint.ipv6)
        if not port.host_port and port.host_ip:  # that of an earlier release means both
            own = (endpoint.ipv6,) if family_of(port.host_ip) == nft.IPV6 else (endpoint.ipv4,)
        for address in filter(None, own):
            yield Element(named("opened", family_of(address)), padded(protocol, packed(address), inside))
    if not port.host_port:
        return
    outside = port.host_port.to_bytes(2, "big")
    family = family_of(port.host_ip)
    address = endpoint.ipv6 if family == nft.IPV6 else endpoint.ipv4
    if not address or port.host_ip in PROXIED:
        yield Element(named("proxied", family), padded(protocol, outside))
    if not address or port.host_ip == LOOPBACK_ADDRESS:
        return  # no rule can lead there; the userland proxy does
    target = padded(packed(address), inside)
    if port.host_ip in ANYWHERE:
        yield Element(named("everywhere", family), padded(protocol, outside), target)
    else:
        yield Element(named("published", family), padded(protocol, packed(port.host_ip), outside), target)


def link_elements(endpoint: Endpoint, other: Endpoint, ports: Iterable[tuple[int, str]]) -> list[Element]:
    """The elements that let one container reach ports of another in a network with icc off."""
    found: dict[Element, None] = {}
    for number, protocol in ports:
        for own, others in ((endpoint.ipv4, other.ipv4), (endpoint.ipv6, other.ipv6)):
            if own and others:
                key = padded(packed(own), bytes((PROTOCOLS[protocol],)), packed(others), number.to_bytes(2, "big"))
                found[Element(named("links", family_of(own)), key)] = None
    return list(found)
