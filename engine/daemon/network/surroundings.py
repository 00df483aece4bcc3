"""Lists the subnets that the host can reach already, so that the engine's own choice of a subnet avoids them.

Runs in the daemon's request threads. It asks the kernel over netlink and reads /etc/resolv.conf, and changes nothing. A
subnet that a client names is not compared with these: that is the client's responsibility.
"""

import contextlib
from collections.abc import Iterable

from engine.daemon.network.addresses import BITS, Subnet, parse_address
from engine.daemon.network.devices import idle_bridges, mark
from engine.daemon.network.record import Network
from engine.dataclass import dataclass
from engine.errors import SystemFailure
from engine.kernel import reasons
from engine.kernel.netlink import addresses, links
from engine.kernel.netlink.socket import Netlink
from engine.sandbox import resolvconf

_LARGEST = 65536


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the host can reach.

    near: subnets on a link of the host, and its name servers; far: subnets behind a gateway, without the default route
    devices: the names of the host's links; idle: those of `near` that only bridges without containers have, which
        another engine made: it makes them again when it needs them
    """

    near: tuple[Subnet, ...] = ()
    far: tuple[Subnet, ...] = ()
    devices: frozenset[str] = frozenset()
    idle: tuple[Subnet, ...] = ()


def look(own: Iterable[Network]) -> Surroundings:
    """The host's surroundings now, without links that bear the mark of a network in `own`. Raises SystemFailure.

    The mark decides and not the name: another engine on this host may use the same names.
    """
    marks = {mark(network) for network in own}
    try:
        with Netlink() as netlink:
            every = links.every(netlink)
            here, routes = addresses.addresses(netlink), addresses.routes(netlink)
    except OSError as error:
        raise SystemFailure(f"the host's addresses and routes cannot be listed: {reasons.whole(error)}") from error
    ours = {link.index for link in every if link.alias in marks}
    near = [_around(each.address, each.prefix) for each in here if each.link not in ours]
    near += [_around(each.destination, each.prefix) for each in routes if _leads(each, ours) and not each.gateway]
    far = [_around(each.destination, each.prefix) for each in routes if _leads(each, ours) and each.gateway]
    devices = frozenset(link.name for link in every if link.index not in ours)
    unused = idle_bridges(every, ours)
    idle = [_around(each.address, each.prefix) for each in here if each.link in unused]
    return Surroundings((*near, *_name_servers()), tuple(far), devices, tuple(idle))


def _leads(route: addresses.Route, ours: set[int]) -> bool:
    return bool(route.destination and route.prefix) and route.link not in ours


def _around(address: str, prefix: int) -> Subnet:
    version, number = parse_address(address)
    return Subnet.around(version, number, prefix)


def _name_servers() -> list[Subnet]:
    try:
        with open(resolvconf.HOST, encoding="utf-8", errors="replace") as file:
            text = file.read(_LARGEST)
    except FileNotFoundError:  # the file need not exist
        return []
    found = []
    for server in resolvconf.nameservers(text):
        with contextlib.suppress(ValueError):  # an address with a zone is link-local: nothing to avoid
            version, number = parse_address(server)
            found.append(Subnet(version, number, BITS[version]))
    return found
