"""Gratuitous ARP and neighbour advertisements: tell an endpoint's neighbours that its addresses have its MAC address.

Runs in the daemon's request threads, and in the main thread at a daemon's start, as the words of an earlier daemon may
have been lost. A new container gets the lowest free address, which is often one that another
container has just given back. Its neighbours may remember the old container's MAC address for half a minute more, and
would send to that. The frames are broadcast from the bridge itself, as the bridge may not yet forward what the new
container's own link sends. `plugging` sets the entry in the host's own neighbour table.
"""

import errno
import socket
import struct
from collections.abc import Callable

from engine.daemon.network.drivers import options
from engine.daemon.network.record import Endpoint, Network
from engine.errors import SystemFailure
from engine.kernel import reasons

Announce = Callable[[Network, Endpoint], None]
"""`Announcer.announce`."""

_ETHERNET = struct.Struct("!6s6sH")
_ARP_HEAD = bytes.fromhex("0001 0800 06 04 0001")  # a request, by Ethernet for IPv4
_ARP = 0x0806
_IPV6 = 0x86DD
_BROADCAST = b"\xff" * 6
_ALL_NODES = socket.inet_pton(socket.AF_INET6, "ff02::1")
_ALL_NODES_MAC = bytes.fromhex("333300000001")
_ICMPV6 = 58
_HOPS = 255
_NEIGHBOUR_ADVERTISEMENT = 136
_OVERRIDE = 0x20000000
_TARGET_LINK_ADDRESS = bytes((2, 1))
# The link is gone, is down or has no memory for the frame now. The neighbours then learn the new address by themselves,
# only later.
_LOST = (errno.ENODEV, errno.ENXIO, errno.ENETDOWN, errno.ENOBUFS)


class Announcer:
    """Sends announcements on all bridges through one packet socket.

    The socket stays open for good, because closing a packet socket waits for all processors of the machine.
    """

    def __init__(self) -> None:
        """Open the socket. Raises SystemFailure."""
        try:
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)  # 0: none received
        except OSError as error:
            raise SystemFailure(f"cannot open a packet socket: {reasons.of(error)}") from error

    def announce(self, network: Network, endpoint: Endpoint) -> None:
        """Announce on the network's device that the endpoint's addresses are at its MAC address, if the network does.

        Raises SystemFailure, but not for a link that is gone.
        """
        if not options.announces(network.options):
            return
        for address in filter(None, (endpoint.ipv4, endpoint.ipv6)):
            ipv6 = ":" in address
            frame = advertisement(endpoint.mac, address) if ipv6 else gratuitous_arp(endpoint.mac, address)
            try:
                self._socket.sendto(frame, socket.MSG_DONTWAIT, (network.device, _IPV6 if ipv6 else _ARP))
            except OSError as error:
                if error.errno not in _LOST:
                    raise SystemFailure(f"{address} cannot be announced: {reasons.of(error)}") from error


def gratuitous_arp(mac: str, address: str) -> bytes:
    """The Ethernet frame of an ARP announcement, in which an IPv4 address asks for itself (RFC 5227, 3)."""
    ours = bytes.fromhex(mac.replace(":", ""))
    packed = socket.inet_pton(socket.AF_INET, address)
    return _ETHERNET.pack(_BROADCAST, ours, _ARP) + _ARP_HEAD + ours + packed + bytes(6) + packed


def advertisement(mac: str, address: str) -> bytes:
    """The Ethernet frame of an unsolicited neighbour advertisement for an IPv6 address (RFC 4861, 7.2.6)."""
    ours = bytes.fromhex(mac.replace(":", ""))
    packed = socket.inet_pton(socket.AF_INET6, address)
    body = struct.pack("!I", _OVERRIDE) + packed + _TARGET_LINK_ADDRESS + ours
    pseudo = packed + _ALL_NODES + struct.pack("!II", 4 + len(body), _ICMPV6)
    head = struct.pack("!BB", _NEIGHBOUR_ADVERTISEMENT, 0)
    checksum = _checksum(pseudo + head + bytes(2) + body)
    message = head + struct.pack("!H", checksum) + body
    packet = struct.pack("!IHBB", 6 << 28, len(message), _ICMPV6, _HOPS) + packed + _ALL_NODES + message
    return _ETHERNET.pack(_ALL_NODES_MAC, ours, _IPV6) + packet


def _checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071) of an even number of bytes."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
