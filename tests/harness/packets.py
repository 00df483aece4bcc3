"""Frames as an attacker makes them, byte by byte, put on a wire past all that the kernel would check.

Run by the test process. `Wire` sends from an interface of a network that the test names (see `hosts`): a container's,
as one with CAP_NET_RAW can, a neighbour's of the daemon's machine, or the machine's own.
"""

import socket
import struct

from tests.harness.hosts import Inside
from tests.harness.namespaces import Namespaces

IPV4, IPV6 = 0x0800, 0x86DD
ALL_NODES = "ff02::1"
_TCP, _UDP, _ICMPV6 = 6, 17, 58
_ADVERTISEMENT = 134


class Wire:
    """A raw socket on one interface; a context manager. mac: the interface's own address"""

    def __init__(self, place: Namespaces | Inside, interface: str = "eth0") -> None:
        self._socket = place.socket(socket.SOCK_RAW, socket.AF_PACKET)
        self._socket.bind((interface, 0))
        self.mac: bytes = self._socket.getsockname()[4]

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, mac: str | bytes, packet: bytes) -> None:
        """Put an IP packet on the wire for this station."""
        kind = IPV6 if packet[0] >> 4 == 6 else IPV4
        station = mac if isinstance(mac, bytes) else bytes.fromhex(mac.replace(":", ""))
        self._socket.send(station + self.mac + kind.to_bytes(2, "big") + packet)


def _sum(data: bytes) -> int:
    data += bytes(len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _ipv4(source: str, destination: str, protocol: int, payload: bytes) -> bytes:
    addresses = socket.inet_aton(source) + socket.inet_aton(destination)
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), 1, 0, 64, protocol, 0) + addresses
    return head[:10] + struct.pack(">H", _sum(head)) + head[12:] + payload


def _ipv6(source: str, destination: str, protocol: int, payload: bytes) -> bytes:
    addresses = b"".join(socket.inet_pton(socket.AF_INET6, each) for each in (source, destination))
    return struct.pack(">IHBB", 6 << 28, len(payload), protocol, 255) + addresses + payload


def udp(source: tuple[str, int], destination: tuple[str, int], data: bytes) -> bytes:
    """A datagram, whoever it says it is from."""
    head = struct.pack(">HHHH", source[1], destination[1], 8 + len(data), 0)  # without a sum, as IPv4 allows
    return _ipv4(source[0], destination[0], _UDP, head + data)


def syn(source: tuple[str, int], destination: tuple[str, int]) -> bytes:
    """The first packet of a TCP connection, whoever it says it is from."""
    head = struct.pack(">HHIIBBHHH", source[1], destination[1], 1, 0, 5 << 4, 2, 64240, 0, 0)
    addresses = socket.inet_aton(source[0]) + socket.inet_aton(destination[0])
    total = _sum(addresses + struct.pack(">BBH", 0, _TCP, len(head)) + head)
    return _ipv4(source[0], destination[0], _TCP, head[:16] + struct.pack(">H", total) + head[18:])


def router_advertisement(source: str, prefix: str) -> bytes:
    """A router that offers itself, and addresses of its own, to everybody on the link. source: a link-local address"""
    option = struct.pack(">BBBBIII", 3, 4, 64, 0xC0, 3600, 3600, 0) + socket.inet_pton(socket.AF_INET6, prefix)
    body = struct.pack(">BBHBBHII", _ADVERTISEMENT, 0, 0, 64, 0, 1800, 0, 0) + option
    addresses = b"".join(socket.inet_pton(socket.AF_INET6, each) for each in (source, ALL_NODES))
    total = _sum(addresses + struct.pack(">II", len(body), _ICMPV6) + body)
    return _ipv6(source, ALL_NODES, _ICMPV6, body[:2] + struct.pack(">H", total) + body[4:])
