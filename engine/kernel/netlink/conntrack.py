"""Deletes connections from the kernel's connection tracking (conntrack) over nfnetlink, by destination port or by
address.

Acts in the network namespace of the socket. A datagram of a tracked connection passes no rule of address translation.
So the connections of a port or an address must be forgotten when its owner changes. Each request makes the kernel walk
through all tracked connections, so it is only for the few cases that need it. Layout: linux/netfilter/nfnetlink*.h.
"""

import errno
import socket
from collections.abc import Sequence

from engine.kernel.netlink.message import Request, attribute, be16, nested, u8, u32
from engine.kernel.netlink.socket import Netlink, Refused

_DELETE = 1 << 8 | 2
_ORIGINAL, _REPLY, _FILTER = 1, 2, 25
_ADDRESSES, _PROTOCOL = 1, 2
_SOURCE = {4: (socket.AF_INET, 1), 16: (socket.AF_INET6, 3)}
# Which parts of a connection are compared (CTA_FILTER): numbers internal to the kernel (nf_internals.h), since Linux
# 5.8.
_BY_SOURCE, _BY_PROTOCOL, _BY_PORT = 1 << 0, 1 << 3, 1 << 5


def to_port(family: int, protocol: int, port: int) -> Request:
    """Forget the connections that were first sent to this port, whatever address they were translated to."""
    numbers = nested(_PROTOCOL, u8(1, protocol), be16(3, port))
    return _forget(family, nested(_ORIGINAL, numbers), _BY_PROTOCOL | _BY_PORT, 0)


def answered_by(address: bytes) -> Request:
    """Forget the connections that were translated to this address."""
    family, kind = _SOURCE[len(address)]
    return _forget(family, nested(_REPLY, nested(_ADDRESSES, attribute(kind, address))), 0, _BY_SOURCE)


def _forget(family: int, tuple_: bytes, original: int, reply: int) -> Request:
    chosen = nested(_FILTER, u32(1, original), u32(2, reply))
    return _DELETE, 0, bytes((family, 0, 0, 0)) + tuple_ + chosen


def forget(netlink: Netlink, requests: Sequence[Request]) -> None:
    """Have the kernel carry out these requests. netlink: a socket of the protocol `nftables.NETFILTER`. Raises OSError.

    Linux before 5.8 forgets only single connections and refuses these requests; there the connections time out by
    themselves.
    """
    for request in requests:
        try:
            netlink.send((request,))
        except Refused as error:
            if error.errno not in (errno.ENOENT, errno.EINVAL, errno.EOPNOTSUPP):
                raise
