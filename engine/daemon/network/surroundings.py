"""What the host can reach already: the subnets that no network of the engine is to cover by its own choice.

Runs in the daemon's request threads; asks the kernel over netlink, reads /etc/resolv.conf, changes nothing. A subnet
that a client names is the client's to answer for: only choices of the daemon's own look here.
"""

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass

from engine.daemon.network.addresses import BITS, Subnet, parse_address
from engine.daemon.network.devices import mark
from engine.daemon.network.record import Network
from engine.errors import SystemFailure
from engine.kernel.netlink import addresses, links
from engine.kernel.netlink.socket import Netlink
from engine.sandbox import resolvconf

_LARGEST = 65536


@dataclass(frozen=True, slots=True)
class Surroundings:
    """near: on a link of the host's, and its name servers; far: behind a gateway, the default route not among them.

    devices: the names of the host's links
    """

    near: tuple[Subnet, ...] = ()
    far: tuple[Subnet, ...] = ()
    devices: frozenset[str] = frozenset()


def look(own: Iterable[Network]) -> Surroundings:
    """What is there now, but for what bears the mark of one of our networks. Raises SystemFailure.

    The name of a link says nothing: there may be another engine on this host.
    """
    marks = {mark(network) for network in own}
    try:
        with Netlink() as netlink:
            every = links.every(netlink)
            here, routes = addresses.addresses(netlink), addresses.routes(netlink)
    except OSError as error:
        raise SystemFailure(f"the host's addresses and routes cannot be listed: {error}") from error
    ours = {link.index for link in every if link.alias in marks}
    near = [_around(each.address, each.prefix) for each in here if each.link not in ours]
    near += [_around(each.destination, each.prefix) for each in routes if _leads(each, ours) and not each.gateway]
    far = [_around(each.destination, each.prefix) for each in routes if _leads(each, ours) and each.gateway]
    devices = frozenset(link.name for link in every if link.index not in ours)
    return Surroundings((*near, *_name_servers()), tuple(far), devices)


def _leads(route: addresses.Route, ours: set[int]) -> bool:
    return bool(route.destination and route.prefix) and route.link not in ours


def _around(address: str, prefix: int) -> Subnet:
    version, number = parse_address(address)
    return Subnet.around(version, number, prefix)


def _name_servers() -> list[Subnet]:
    try:
        with open(resolvconf.HOST, encoding="utf-8", errors="replace") as file:
            text = file.read(_LARGEST)
    except FileNotFoundError:  # many a host has none
        return []
    found = []
    for server in resolvconf.nameservers(text):
        with contextlib.suppress(ValueError):  # one with a zone is on a link, whatever is on it
            version, number = parse_address(server)
            found.append(Subnet(version, number, BITS[version]))
    return found
