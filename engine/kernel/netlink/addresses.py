"""Adds, removes and lists IP addresses, routes and neighbours of network links over rtnetlink(7).

The functions that return a `Request` are pure; those that take a socket act in its network namespace. Addresses are
text, links are interface indices. Numbers: linux/if_addr.h, linux/rtnetlink.h, linux/neighbour.h.
"""

import errno
import socket
import struct
import time

from engine.dataclass import dataclass
from engine.kernel.netlink import message
from engine.kernel.netlink.message import Message, Request
from engine.kernel.netlink.socket import Netlink, Refused

_NEWADDR, _DELADDR, _GETADDR = 20, 21, 22
_NEWROUTE, _GETROUTE = 24, 26
_NEWNEIGH = 28
_ADDR = struct.Struct("=BBBBI")
_ROUTE = struct.Struct("=BBBBBBBBI")
_NEIGH = struct.Struct("=BxxxiHBB")
_LOCAL = 2
_BROADCAST = 4
_PERMANENT = 0x80
_NO_DAD = 0x02
_FLAGS = 8
_DESTINATION = 1
_OUT = 4
_GATEWAY = 5
_TABLE = 15
_MAIN = 254
_BOOT = 3  # RTPROT_BOOT: the origin that iproute2 and dockerd give to their routes
_UNIVERSE = 0
_ON_LINK = 253
_UNICAST = 1
_TO_US = 2
_STALE = 0x04
_NEIGH_ADDRESS = 1
_NEIGH_MAC = 2


@dataclass(frozen=True, slots=True)
class Address:
    """An IP address of a link, with the length of its prefix; link: its index."""

    link: int
    address: str
    prefix: int


@dataclass(frozen=True, slots=True)
class Route:
    """A route of the main table. destination: empty for a default route; gateway: empty for a directly
    connected net.
    """

    destination: str
    prefix: int
    link: int
    gateway: str
    ipv6: bool


def add(link: int, address: str, prefix: int) -> Request:
    """Give a link a permanent address, which is usable at once: IPv6 duplicate address detection (DAD) is skipped.

    It is no failure when the link has the address already.
    """
    packed = _packed(address)
    body = _ADDR.pack(_family(packed), prefix, _NO_DAD | _PERMANENT if len(packed) > 4 else _PERMANENT, _UNIVERSE, link)
    body += message.attribute(_LOCAL, packed) + message.attribute(_DESTINATION, packed)
    if len(packed) == 4 and prefix < 31:
        hosts = (1 << 32 - prefix) - 1
        body += message.attribute(_BROADCAST, (int.from_bytes(packed, "big") | hosts).to_bytes(4, "big"))
    return _NEWADDR, message.CREATE | message.REPLACE, body


def remove(link: int, address: str, prefix: int) -> Request:
    """Take an address from a link."""
    packed = _packed(address)
    return _DELADDR, 0, _ADDR.pack(_family(packed), prefix, 0, 0, link) + message.attribute(_LOCAL, packed)


def settle(netlink: Netlink, address: str, seconds: float = 0.05) -> None:
    """Wait until a new IPv6 address of a link that is up can be reached, at most `seconds`.

    A kernel worker makes the route to the address and joins the multicast group in which neighbours ask for it.
    """
    question = _ROUTE.pack(socket.AF_INET6, 128, 0, 0, 0, 0, 0, 0, 0) + message.attribute(
        _DESTINATION, _packed(address)
    )
    end = time.monotonic() + seconds
    while True:
        try:
            (answer,) = netlink.ask(_GETROUTE, question)
            if _ROUTE.unpack_from(answer.payload, 0)[7] == _TO_US:
                return
        except Refused as error:
            if error.errno != errno.ENETUNREACH:  # not even the route to its net exists yet
                raise
        if time.monotonic() > end:
            return
        time.sleep(0.0005)  # polled, because the kernel sends no event for this


def addresses(netlink: Netlink) -> list[Address]:
    """All addresses of all links in the socket's network namespace. Raises Refused."""
    found = []
    for answer in netlink.dump(_GETADDR, _ADDR.pack(0, 0, 0, 0, 0)):
        _, prefix, _, _, link = _ADDR.unpack_from(answer.payload, 0)
        values = message.attributes(answer.payload, _ADDR.size)
        packed = values.get(_LOCAL) or values.get(_DESTINATION)
        if packed:
            found.append(Address(link, _written(packed), prefix))
    return found


def route(
    link: int, gateway: str = "", *, ipv6: bool = False, replaces: bool = True, subnet: tuple[str, int] = ("", 0)
) -> Request:
    """Make a default route, or that to a subnet: to a gateway, or without one simply out of a link.

    replaces: an existing route; if not, the kernel refuses where there is one (EEXIST)
    ipv6: the family, where no address tells it; subnet: its address and prefix length
    """
    family = socket.AF_INET6 if ipv6 or ":" in gateway + subnet[0] else socket.AF_INET
    scope = _UNIVERSE if gateway or family == socket.AF_INET6 else _ON_LINK
    body = _ROUTE.pack(family, subnet[1], 0, 0, _MAIN, _BOOT, scope, _UNICAST, 0)
    if subnet[0]:
        body += message.attribute(_DESTINATION, _packed(subnet[0]))
    if gateway:
        body += message.attribute(_GATEWAY, _packed(gateway))
    flag = message.REPLACE if replaces else message.EXCLUSIVE
    return _NEWROUTE, message.CREATE | flag, body + message.u32(_OUT, link)


def routes(netlink: Netlink) -> list[Route]:
    """The routes of the main table, both families. Routes with several gateways are left out: their nets are no link's
    own.
    """
    found = []
    for answer in netlink.dump(_GETROUTE, _ROUTE.pack(0, 0, 0, 0, 0, 0, 0, 0, 0)):
        one = _read(answer)
        if one is not None:
            found.append(one)
    return found


def neighbour(link: int, address: str, mac: str) -> Request:
    """Enter a neighbour's MAC address as a stale entry: the kernel uses it at once and then verifies it."""
    packed = _packed(address)
    body = _NEIGH.pack(_family(packed), link, _STALE, 0, 0) + message.attribute(_NEIGH_ADDRESS, packed)
    body += message.attribute(_NEIGH_MAC, bytes.fromhex(mac.replace(":", "")))
    return _NEWNEIGH, message.CREATE | message.REPLACE, body


def _read(answer: Message) -> Route | None:
    family, prefix, _, _, table, _, _, kind, _ = _ROUTE.unpack_from(answer.payload, 0)
    values = message.attributes(answer.payload, _ROUTE.size)
    if _TABLE in values:
        table = _number(values[_TABLE])
    if table != _MAIN or kind != _UNICAST or _OUT not in values:
        return None
    return Route(
        _written(values[_DESTINATION]) if _DESTINATION in values else "",
        prefix,
        _number(values[_OUT]),
        _written(values[_GATEWAY]) if _GATEWAY in values else "",
        family == socket.AF_INET6,
    )


def _number(value: bytes) -> int:
    number: int = struct.unpack("=I", value)[0]
    return number


def _packed(address: str) -> bytes:
    return socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)


def _written(packed: bytes) -> str:
    return socket.inet_ntop(_family(packed), packed)


def _family(packed: bytes) -> int:
    return socket.AF_INET6 if len(packed) > 4 else socket.AF_INET
