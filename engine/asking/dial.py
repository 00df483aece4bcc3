"""Connects to a program outside of the engine by TCP, UDP or a Unix socket, within a time.

Used by the processes that send a container's lines elsewhere, and by the daemon's threads that call plugins. The caller
owns the socket that it gets. Failures are told in the words of Go's net package, as dockerd tells them.
"""

import contextlib
import socket
import time

from engine.errors import SystemFailure
from engine.kernel import reasons

_KINDS = {
    "tcp": (socket.AF_UNSPEC, socket.SOCK_STREAM),
    "udp": (socket.AF_UNSPEC, socket.SOCK_DGRAM),
    "unix": (socket.AF_UNIX, socket.SOCK_STREAM),
    "unixgram": (socket.AF_UNIX, socket.SOCK_DGRAM),
}

_BLOCK = 64 * 1024

_Address = str | tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
"""What connect(2) takes: a path, or what getaddrinfo(3) has found."""


def dial(kind: str, place: str, seconds: float) -> socket.socket:
    """A blocking socket that is connected to this place.

    kind: tcp, udp, unix (a stream) or unixgram; place: HOST:PORT, with an IPv6 address in brackets, or a path
    seconds: for all addresses of the host together; looking up its name has the resolver's own limit
    Raises SystemFailure.
    """
    family, sort = _KINDS[kind]
    if "\0" in place:
        raise SystemFailure(f"dial {kind}: lookup {place}: no such host")
    try:
        if family == socket.AF_UNIX:
            return _connected(family, sort, place, seconds)
        addresses = _looked_up(kind, place, sort)
    except OSError as error:
        raise SystemFailure(f"dial {kind} {place}: {_words(error)}") from error
    last = time.monotonic() + seconds
    failure = OSError("no address")
    for found, address in addresses:
        try:
            return _connected(found, sort, address, max(last - time.monotonic(), 0.001))
        except OSError as error:
            failure = error
    raise SystemFailure(f"dial {kind} {place}: {_words(failure)}") from failure


def leave(connection: socket.socket, seconds: float) -> None:
    """End a stream so that its peer can read all that was sent to it, and close it.

    A connection that is closed while something is unread in it (a ticket of TLS, which nobody asked for) is reset, and
    with that the peer may lose what it has not read yet. So what comes is read, until the peer closes or the time is
    over.
    """
    last = time.monotonic() + seconds
    with connection, contextlib.suppress(OSError):  # the peer has gone
        connection.shutdown(socket.SHUT_WR)
        while (left := last - time.monotonic()) > 0:
            connection.settimeout(left)
            if not connection.recv(_BLOCK):
                return


def _looked_up(kind: str, place: str, sort: int) -> list[tuple[int, _Address]]:
    host, _, port = place.rpartition(":")
    try:
        # As bytes: a text would be encoded by `encodings.idna`, which a long-lived process may not find on disk any
        # more.
        found = socket.getaddrinfo(host.strip("[]").encode() or b"localhost", port, 0, sort)
    except socket.gaierror as error:
        raise SystemFailure(f"dial {kind}: lookup {host}: no such host") from error
    return [(family, address) for family, _, _, _, address in found]


def _connected(family: int, sort: int, address: _Address, seconds: float) -> socket.socket:
    made = socket.socket(family, sort | socket.SOCK_CLOEXEC)
    try:
        made.settimeout(seconds)
        made.connect(address)
        made.settimeout(None)
    except BaseException:
        made.close()
        raise
    return made


def _words(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "i/o timeout"
    return f"connect: {reasons.of(error)}"
