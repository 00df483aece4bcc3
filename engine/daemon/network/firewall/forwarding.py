"""What the engine switches on in the host's kernel for its networks, and what keeps that from opening more than them.

Runs in the daemon's threads, under the firewall's lock; /proc/sys/net is the daemon's own network's. A host that did
not forward before goes on not to: what its interfaces of that moment would now send to each other is dropped by a guard
in the engine's table. What comes later and is made to forward (another engine's bridge, a tunnel) is left alone, and so
is a host that forwarded already. Nothing else of the host's settings is changed, and with the last network forwarding
goes off again, unless somebody has come since who may count on it.
"""

import logging
import os
import re
import socket
import sys
from collections.abc import Collection, Iterable

from engine.daemon.network.firewall.table import named
from engine.errors import Unavailable
from engine.kernel.netlink import nftables
from engine.kernel.netlink import nftexpressions as nft
from engine.kernel.netlink.message import Request
from engine.kernel.netlink.nftables import INTERFACE, INTERFACE_INDEX, Element, Set
from engine.kernel.netlink.socket import Netlink

log = logging.getLogger(__name__)

_ROOT = "/proc/sys/net"
_SWITCH = {nft.IPV4: "ipv4/ip_forward", nft.IPV6: "ipv6/conf/all/forwarding"}
_NEWCOMERS = "newcomers"
_KINDS = ("bridge", "tun", "veth", "wireguard")
_HOST_END = re.compile(r"veth[0-9a-f]{7}")


def _read(name: str) -> str:
    with open(os.path.join(_ROOT, name)) as file:
        return file.read().strip()


def _write(name: str, value: str) -> None:
    with open(os.path.join(_ROOT, name), "w") as file:
        file.write(value)


def is_on(family: int) -> bool:
    """Whether the host forwards; a kernel without IPv6 never does. Raises OSError."""
    try:
        return _read(_SWITCH[family]) != "0"
    except FileNotFoundError:
        return False


def switch_on(family: int) -> None:
    """Have the host forward. Raises OSError."""
    if family == nft.IPV6:
        _keep_advertised()
    _write(_SWITCH[family], "1")


def _keep_advertised() -> None:
    """A host that forwards forgets what routers have told it, unless told to listen all the same (accept_ra 2)."""
    for name in os.listdir(os.path.join(_ROOT, "ipv6/conf")):
        try:
            if _read(f"ipv6/conf/{name}/accept_ra") == "1" and _read(f"ipv6/conf/{name}/forwarding") == "0":
                _write(f"ipv6/conf/{name}/accept_ra", "2")
        except FileNotFoundError:  # an interface that goes away meanwhile
            continue


def switch_off(family: int, before: Collection[int], devices: Collection[str]) -> None:
    """End what `switch_on` has begun, if nothing has come since but what is an engine's own. Raises OSError."""
    for index, name in socket.if_nameindex():
        if index not in before and name not in devices and not _HOST_END.fullmatch(name):
            log.info("the host goes on to forward: %s has come since the engine switched that on", name)
            return
    _write(_SWITCH[family], "0")


def interfaces() -> list[int]:
    """The host's interfaces as they are now, by index; ports of bridges have no part in forwarding."""
    return [index for index, name in socket.if_nameindex() if not _HOST_END.fullmatch(name)]


def kinds(table: str) -> list[Request]:
    """The set of the kinds of interface that may forward when they came after the engine's switch."""
    elements = [Element(_NEWCOMERS, kind.encode().ljust(16, b"\0")) for kind in _KINDS]
    declared = nftables.new_set(table, Set(_NEWCOMERS, (INTERFACE,)), 100)
    return [declared, *nftables.new_elements(table, elements)]


def guard(table: str, family: int, before: Iterable[int]) -> list[Request]:
    """Drop what would be forwarded between interfaces that are not the engine's; at the end of `forward`."""
    own, known = named("guard", family), named("before", family)
    requests = [
        nftables.new_set(table, Set(known, (INTERFACE_INDEX,)), 100 + family),
        *nftables.new_elements(table, [Element(known, index.to_bytes(4, sys.byteorder)) for index in before]),
        nftables.new_chain(table, own),
    ]
    for kind, interface in (("iifkind", "iif"), ("oifkind", "oif")):
        new = nft.meta(kind) + nft.lookup(_NEWCOMERS) + nft.meta(interface) + nft.lookup(known, absent=True)
        requests.append(nftables.new_rule(table, own, new + nft.decide(nft.ACCEPT)))
    requests.append(nftables.new_rule(table, own, nft.decide(nft.DROP)))
    requests.append(nftables.new_rule(table, "forward", nft.family(family) + nft.decide(nft.goto(own))))
    return requests


def guarded(netlink: Netlink, table: str, family: int) -> list[int] | None:
    """What an earlier daemon's guard has for the interfaces of its moment; None: it did not switch. Raises OSError."""
    found = nftables.keys(netlink, table, named("before", family))
    return None if found is None else [int.from_bytes(key, sys.byteorder) for key in found]


def let_loopback_in(device: str) -> None:
    """Let the host's 127.0.0.1 talk to the containers of a bridge. Raises OSError."""
    _write(f"ipv4/conf/{device}/route_localnet", "1")


def filter_bridged(families: Iterable[int]) -> None:
    """Have what is bridged pass the firewall: for networks closed within. Raises Unavailable, OSError."""
    for family in families:
        name = "bridge/bridge-nf-call-ip6tables" if family == nft.IPV6 else "bridge/bridge-nf-call-iptables"
        try:
            if _read(name) == "0":
                _write(name, "1")
        except FileNotFoundError as error:
            raise Unavailable(
                f"cannot restrict inter-container communication: {_ROOT}/{name} is not there: "
                "load the kernel's module br_netfilter"
            ) from error
