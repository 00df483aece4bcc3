"""Wait until a client has read the response head of a hijacked connection, before anything else is sent on it.

Runs in the daemon's request threads, which must hold no lock meanwhile, since the client decides how long it takes. The
monitor delays its own output in the same manner (see `engine.monitor.clients`).
"""

import fcntl
import socket
import struct
import time

_SIOCOUTQ = 0x5411  # how much of what was sent the other side has not read yet (unix(7))
_SECONDS = 10.0
_FIRST_LOOK, _LONGEST_LOOK = 0.0005, 0.02  # seconds


def await_read(connection: socket.socket) -> None:
    """Wait until the client has read the head, for 10 seconds at most.

    The docker SDK for Python throws away what it reads along with the head. There is no event for "it was read", so
    this polls.
    """
    if connection.family != socket.AF_UNIX:
        return  # for a TCP socket the kernel knows what has arrived, not what was read
    look, end = _FIRST_LOOK, time.monotonic() + _SECONDS
    while struct.unpack("i", fcntl.ioctl(connection, _SIOCOUTQ, bytes(4)))[0] and time.monotonic() < end:
        time.sleep(look)
        look = min(look * 1.25, _LONGEST_LOOK)
