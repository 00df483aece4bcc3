"""The host's sysctls that the engine sets for its networks (forwarding, ...), and the rules that guard other traffic.

Runs in the daemon's threads, under the firewall's lock; /proc/sys/net is that of the daemon's own network namespace. A
host that did not forward before still does not forward for others: the guard, a chain in the engine's table, drops what
the interfaces of that moment would now send to each other. Interfaces that come later and are made to forward (another
engine's bridge, a tunnel) are left alone, and so is a host that forwarded already. No other setting of the host is
changed. With the last network forwarding is switched off again, unless an interface has come since that may need it.
"""

import logging
import os
import re
import socket
import sys
from collections.abc import Collection, Iterable

from engine.daemon.network.firewall.table import named
from engine.errors import Unavailable
from engine.kernel import modprobe, reasons
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
    """Whether the host forwards packets of this family; a kernel without IPv6 never does. Raises OSError."""
    try:
        return _read(_SWITCH[family]) != "0"
    except FileNotFoundError:
        return False


def switch_on(family: int) -> None:
    """Switch the host's forwarding on. Raises OSError."""
    if family == nft.IPV6:
        _keep_advertised()
    _write(_SWITCH[family], "1")


def _keep_advertised() -> None:
    """Set accept_ra to 2, or a host that forwards would ignore the routes that routers advertise to it."""
    for name in os.listdir(os.path.join(_ROOT, "ipv6/conf")):
        try:
            if _read(f"ipv6/conf/{name}/accept_ra") == "1" and _read(f"ipv6/conf/{name}/forwarding") == "0":
                _write(f"ipv6/conf/{name}/accept_ra", "2")
        except FileNotFoundError:  # an interface that goes away meanwhile
            continue


def switch_off(family: int, before: Collection[int], devices: Collection[str]) -> None:
    """Switch forwarding off, if no interface has come since `switch_on` but the engine's own. Raises OSError.

    before: indexes of the interfaces of that moment; devices: names of the engine's bridges
    """
    for index, name in socket.if_nameindex():
        if index not in before and name not in devices and not _HOST_END.fullmatch(name):
            log.info("IP forwarding stays on: the interface %s was added since the engine switched it on", name)
            return
    _write(_SWITCH[family], "0")


def interfaces() -> list[int]:
    """The indexes of the host's interfaces now, without the engine's veth ends.

    Those are ports of bridges, which take no part in forwarding.
    """
    return [index for index, name in socket.if_nameindex() if not _HOST_END.fullmatch(name)]


def kinds(table: str) -> list[Request]:
    """The set of the kinds of interface that may forward when they were made after the engine's switch."""
    elements = [Element(_NEWCOMERS, kind.encode().ljust(16, b"\0")) for kind in _KINDS]
    declared = nftables.new_set(table, Set(_NEWCOMERS, (INTERFACE,)), 100)
    return [declared, *nftables.new_elements(table, elements)]


def guard(table: str, family: int, before: Iterable[int]) -> list[Request]:
    """The requests for the guard: a chain at the end of `forward` that drops what other interfaces send to each other.

    Other interfaces are those that are not the engine's. before: indexes of the interfaces of the moment of the switch
    """
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
    """The indexes in an earlier daemon's guard; None where it has not switched forwarding on. Raises OSError."""
    found = nftables.keys(netlink, table, named("before", family))
    return None if found is None else [int.from_bytes(key, sys.byteorder) for key in found]


def let_loopback_in(device: str) -> None:
    """Let packets from the host's 127.0.0.1 reach the containers of a bridge (route_localnet). Raises OSError."""
    _write(f"ipv4/conf/{device}/route_localnet", "1")


def filter_bridged(families: Iterable[int]) -> None:
    """Make bridged packets pass the firewall, as networks with icc off need it. Raises Unavailable, OSError."""
    for family in families:
        name = "bridge/bridge-nf-call-ip6tables" if family == nft.IPV6 else "bridge/bridge-nf-call-iptables"
        try:
            if not os.path.exists(f"{_ROOT}/{name}"):
                modprobe.load("br_netfilter")
            if _read(name) == "0":
                _write(name, "1")
        except (FileNotFoundError, Unavailable) as error:
            raise Unavailable(
                f"cannot restrict inter-container communication: {_ROOT}/{name} does not exist: {reasons.whole(error)}"
            ) from error
