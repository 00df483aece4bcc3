"""nf_tables rules that lead port 53 of 127.0.0.11 in a container's network to the ports of the resolver's sockets.

A container may want port 53 of all its addresses for a server of its own, so the resolver's sockets have any port. Two
chains of nf_tables rewrite the port number of what the container's programs send to port 53, and of the answers. No
connection is tracked for this: only the number is rewritten. Queries are rewritten last before they are delivered, and
answers first when they are sent, so that the container's own nf_tables rules and connection tracking see port 53 only.

The table ends with the container's network namespace. It is of the family `ip`, so its messages are not those of
`kernel.netlink.nftables`, which are for `inet`.
"""

import errno
import socket
import struct

from engine.kernel.netlink import message
from engine.kernel.netlink import nftexpressions as nft
from engine.kernel.netlink.message import Request, be32, nested, text
from engine.kernel.netlink.socket import Netlink
from engine.sandbox.resolvconf import RESOLVER

PORT = 53
TABLE = "engine-dns"

NETLINK_NETFILTER = 12
_BATCH_BEGIN, _BATCH_END = 0x10, 0x11
_NFTABLES = 10
NEW_TABLE, DELETE_TABLE, NEW_CHAIN, GET_CHAIN, NEW_RULE, DELETE_RULE = (
    _NFTABLES << 8 | kind for kind in (0, 2, 3, 4, 6, 8)
)
INPUT, _OUTPUT = 1, 3
_FIRST, _LAST = -300, 300
_TRANSPORT = 2
_CHECKSUMS = {socket.IPPROTO_UDP: 6, socket.IPPROTO_TCP: 16}  # where the checksum is in the header
# Chain, its hook and priority, the expression that loads the resolver's address, the port's place in the transport
# header.
_WAYS = (
    ("queries", INPUT, _LAST, nft.destination(nft.IPV4), 2),
    ("answers", _OUTPUT, _FIRST, nft.source(nft.IPV4), 0),
)


def redirect(ports: dict[int, int]) -> Netlink:
    """Lead each protocol's port 53 of the resolver's address to this port, in the network of the calling thread.

    Rules that exist already are replaced. Returns the netlink socket, which the caller owns: the kernel makes a process
    that closes such a socket wait until no processor uses the old rules, and later nobody has to wait for that. Raises
    OSError.
    """
    netlink = Netlink(NETLINK_NETFILTER)
    try:
        try:
            netlink.send(requests(ports), acknowledged=-2)
        except OSError as error:
            if error.errno != errno.EEXIST:
                raise
            # The rules of an earlier resolver, which has died, exist already.
            netlink.send(requests(ports, anew=True), acknowledged=-2)
    except BaseException:
        netlink.close()
        raise
    return netlink


def requests(ports: dict[int, int], *, anew: bool = False) -> list[Request]:
    """The transaction. Its last message that the kernel acknowledges is the one before the end.

    anew: an existing table is deleted first; without it, the kernel refuses the transaction if there is one
    """
    made = []
    if anew:
        made.append(request(DELETE_TABLE, table(TABLE)))
    made.append(request(NEW_TABLE, table(TABLE), flags=message.EXCLUSIVE))
    made += [chain(TABLE, name, place, priority) for name, place, priority, *_ in _WAYS]
    for name, _, _, address, place in _WAYS:
        own = address + nft.compare(socket.inet_aton(RESOLVER))
        for protocol, port in ports.items():
            seen, put = (PORT, port) if name == "queries" else (port, PORT)
            asked = nft.meta("l4proto") + nft.compare(bytes((protocol,)))
            asked += nft.payload(_TRANSPORT, place, 2) + nft.compare(_port(seen))
            changed = nft.load(_port(put)) + nft.rewrite(place, 2, _CHECKSUMS[protocol])
            made.append(rule(TABLE, name, own, asked, changed))
    return batch(made)


def batch(requests: list[Request]) -> list[Request]:
    """One transaction of these requests."""
    return [(_BATCH_BEGIN, 0, _family(0, _NFTABLES)), *requests, (_BATCH_END, 0, _family(0, _NFTABLES))]


def table(name: str) -> bytes:
    """The attribute that names a table."""
    return text(1, name)


def chain(of: str, name: str, hook: int, priority: int, kind: str = "filter") -> Request:
    """A chain that the kernel asks at this hook."""
    place = nested(4, be32(1, hook), be32(2, priority & 0xFFFFFFFF))
    return request(NEW_CHAIN, table(of), text(3, name), place, text(7, kind))


def rule(of: str, name: str, *expressions: bytes, first: bool = False, protocol: int = 0) -> Request:
    """A rule at the end of a chain, or at its beginning. protocol: that of iptables' matches, 0 where there is none"""
    compatible = [nested(5, be32(1, protocol), be32(2, 0))] if protocol else []
    flags = 0 if first else message.APPEND
    return request(NEW_RULE, table(of), text(2, name), nested(4, *expressions), *compatible, flags=flags)


def request(kind: int, *attributes: bytes, flags: int = 0) -> Request:
    """A request for the family `ip`."""
    flags |= message.CREATE if kind in (NEW_TABLE, NEW_CHAIN, NEW_RULE) else 0
    return kind, flags, _family(nft.IPV4, 0) + b"".join(attributes)


def _family(family: int, resource: int) -> bytes:
    """Packs struct nfgenmsg."""
    return struct.pack(">BBH", family, 0, resource)


def _port(number: int) -> bytes:
    return number.to_bytes(2, "big")
