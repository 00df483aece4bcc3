"""Opens the byte stream to a daemon, as a socket, whatever leads there: a Unix socket, TCP, TLS, or the program ssh.

Runs in the client's one thread. Whoever gets the socket may poll it and close one of its directions. So TLS and ssh are
behind a pair of sockets, and nobody else has to know them.
"""

import socket

from engine.client.door.destination import Destination
from engine.errors import Unavailable
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # most clients speak to a Unix socket
    from engine.client.door import sshpipe, tlspipe
else:
    sshpipe, tlspipe = late("engine.client.door.sshpipe"), late("engine.client.door.tlspipe")

_CONNECT_SECONDS = 30.0


def connected(place: Destination) -> socket.socket:
    """A socket that leads to the daemon; the caller closes it. Raises Unavailable."""
    try:
        return _WAYS[place.kind](place)
    except OSError as error:
        reason = error.strerror or str(error)
        raise Unavailable(f"cannot connect to the engine at {place.shown}: {reason}. Is the daemon running?") from error


def _unix(place: Destination) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        made.connect(place.path)
    except BaseException:
        made.close()
        raise
    return made


def _tcp(place: Destination) -> socket.socket:
    made = socket.create_connection((place.host, place.port), _CONNECT_SECONDS)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if place.tls is not None:
        return tlspipe.wrapped(made, place.host, place.tls)
    made.settimeout(None)
    return made


def _ssh(place: Destination) -> socket.socket:
    return sshpipe.opened(place)


_WAYS = {"unix": _unix, "tcp": _tcp, "ssh": _ssh}
