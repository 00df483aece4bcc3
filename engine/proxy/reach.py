"""Sockets towards containers: from the client's own address, where the container's answers come back here, else from
the bridge's.

The Python version of `_muxer/proxy/reach.c`. The first kind needs CAP_NET_RAW, and what
`engine.daemon.network.returning` has made in this network (IP_TRANSPARENT, ip(7)).
"""

import errno
import os
import socket

_CONNECT_TRIES = 3  # SYNs that are sent again: about 15 seconds (tcp(7), TCP_SYNCNT)
_TRANSPARENT = {socket.AF_INET: (socket.IPPROTO_IP, 19), socket.AF_INET6: (socket.IPPROTO_IPV6, 75)}
# A dummy (RFC 7600), and one that discards (RFC 6666).
_NOBODY = {socket.AF_INET: "192.0.0.8", socket.AF_INET6: "100::"}
_LINK_LOCAL, _MAPPED = ("fe8", "fe9", "fea", "feb"), "::ffff:"

Address = tuple[str, int] | tuple[str, int, int, int]


def reach(transparent: bool, kind: int, client: Address, target: tuple[str, int]) -> socket.socket:
    """Begin a connection to a container. Raises OSError.

    transparent: whether it may come from the client's address; kind: `SOCK_STREAM` or `SOCK_DGRAM`
    """
    family = _family(target[0])
    if transparent and _family(client[0]) == family and _is_outside(family, client[0]):
        # Its port may lead there already, or be taken. Then it is another one.
        for port in (client[1], 0):
            try:
                return _begin(family, kind, (client[0], port), target)
            except OSError:
                continue
    return _begin(family, kind, None, target)


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _is_outside(family: socket.AddressFamily, client: str) -> bool:
    """Whether containers send what is for this address to their gateway, as they do for addresses outside.

    It is neither this host's own, nor in a subnet in which a container would look for it itself. Then the way there is
    the same as to an address that nobody has, or there is no way to both.
    """
    if client.startswith(_LINK_LOCAL) or client.startswith(_MAPPED):
        return False
    return _source(family, client) == _source(family, _NOBODY[family])


def _source(family: socket.AddressFamily, other: str) -> str:
    """From which address this host would send to the other one; empty for no way. Nothing is sent."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as asking:
            asking.connect((other, 9))
            return str(asking.getsockname()[0])
    except OSError:
        return ""


def _begin(
    family: socket.AddressFamily, kind: int, source: tuple[str, int] | None, target: tuple[str, int]
) -> socket.socket:
    """Begin a connection, from an address that need not be this host's, or from any of its own. Raises OSError."""
    made = socket.socket(family, kind | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        if kind == socket.SOCK_STREAM:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_SYNCNT, _CONNECT_TRIES)
        if source is not None:
            made.setsockopt(*_TRANSPARENT[family], 1)
            # A client may use one port for several connections. Of datagrams each socket must have a port of its own,
            # or the answers would not be told apart.
            if kind == socket.SOCK_STREAM:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(source)
        refused = made.connect_ex(target)
        if refused not in (0, errno.EINPROGRESS):
            raise OSError(refused, os.strerror(refused))
    except BaseException:
        made.close()
        raise
    return made
