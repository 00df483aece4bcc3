"""Telling a bridge's other containers that an address has a new owner, before they ask the one who is gone.

A container gets the lowest address that is free, so often one that another has just given back; its neighbours may know
that one's MAC for half a minute yet. The frames are broadcast from the bridge itself, as the container's own link may
not be forwarding yet; the host's own table is set by `plugging`. Runs in the daemon's request threads.
"""

import errno
import socket
import struct

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
# The link has gone, is down or has no memory for it now: the neighbours will find out by themselves, only later.
_LOST = (errno.ENODEV, errno.ENXIO, errno.ENETDOWN, errno.ENOBUFS)


class Announcer:
    """One packet socket for all bridges: closing one waits for the whole machine, so it stays open."""

    def __init__(self) -> None:
        """Raises OSError."""
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)  # 0: it hears nothing

    def announce(self, bridge: str, mac: str, addresses: tuple[str, ...]) -> None:
        """Say on a bridge that these addresses are at this MAC."""
        for address in addresses:
            frame = advertisement(mac, address) if ":" in address else gratuitous_arp(mac, address)
            try:
                self._socket.sendto(frame, socket.MSG_DONTWAIT, (bridge, _IPV6 if ":" in address else _ARP))
            except OSError as error:
                if error.errno not in _LOST:
                    raise


def gratuitous_arp(mac: str, address: str) -> bytes:
    """The frame in which an IPv4 address asks for itself (RFC 5227, 3)."""
    ours = bytes.fromhex(mac.replace(":", ""))
    packed = socket.inet_pton(socket.AF_INET, address)
    return _ETHERNET.pack(_BROADCAST, ours, _ARP) + _ARP_HEAD + ours + packed + bytes(6) + packed


def advertisement(mac: str, address: str) -> bytes:
    """The frame with an unsolicited neighbour advertisement (RFC 4861, 7.2.6)."""
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
