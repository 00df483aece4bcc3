"""Binds the sockets that hold the host's published ports, and readies those whose traffic the userland proxy carries.

Runs in the daemon's threads; nothing here waits. A socket whose port the firewall's rules carry is only there so that
no other program takes the port.
"""

import errno
import socket

from engine.daemon.network.publishing import version_of
from engine.kernel import outside, reasons

_KINDS = {
    "tcp": (socket.SOCK_STREAM, socket.IPPROTO_TCP),
    "udp": (socket.SOCK_DGRAM, socket.IPPROTO_UDP),
    "sctp": (socket.SOCK_STREAM, 132),
}
_BACKLOG = 4096  # the kernel takes no more than net.core.somaxconn
_RECEIVED = 1 << 20  # bytes of datagrams; the kernel takes no more than net.core.rmem_max
NO_SUCH_FAMILY = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
"""The errors of bind(2) on a host without IPv6."""

Place = tuple[str, str, int]
"""Protocol, address and port of the host."""


def with_port(address: str, port: int) -> str:
    """`ADDRESS:PORT`, with an IPv6 address in brackets."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def in_use(place: Place, error: OSError) -> str:
    """Docker's words for a place that could not be bound."""
    protocol, address, port = place
    return f"failed to bind host port {with_port(address, port)}/{protocol}: {reasons.of(error)}"


def bound(place: Place) -> socket.socket | None:
    """A socket that holds the port. Raises OSError, mostly EADDRINUSE.

    None for SCTP where the kernel has no such sockets: then no program of the host can have that port.
    """
    protocol, address, port = place
    try:
        return _bind(protocol, address, port, again=False)
    except OSError as error:
        if protocol == "sctp" and error.errno in (errno.EPROTONOSUPPORT, errno.ESOCKTNOSUPPORT):
            return None
        if protocol != "tcp" or error.errno != errno.EADDRINUSE:
            raise
    # Perhaps only old connections of that port are in TIME_WAIT, which SO_REUSEADDR ignores.
    return _bind(protocol, address, port, again=True)


def _bind(protocol: str, address: str, port: int, *, again: bool) -> socket.socket:
    kind, number = _KINDS[protocol]
    family = socket.AF_INET6 if version_of(address) == 6 else socket.AF_INET
    made = outside.call(lambda: socket.socket(family, kind | socket.SOCK_CLOEXEC, number))
    try:
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if again:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if protocol == "udp":
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 0)  # mostly nothing is ever read from it
        made.bind((address, port))
        if again:
            # Only a listening socket keeps out other programs that set SO_REUSEADDR.
            made.listen(0)
    except BaseException:
        made.close()
        raise
    return made


def ready(place: Place, sock: socket.socket) -> None:
    """Make a bound socket one that the proxy can serve. Raises OSError."""
    if place[0] == "udp":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVED)
        return
    # Set only now: bind(2) has seen to it that nobody has the port. The connections inherit it, and so they do not keep
    # the port from the next container.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.listen(_BACKLOG)
