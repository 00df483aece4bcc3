"""Wait until a client has read the head of its answer, before what follows it is sent.

Runs in the daemon's request threads, which must hold no lock meanwhile: how long it takes is the client's choice. What
a monitor sends waits in the monitor, in the same manner (see `engine.monitor.clients`).
"""

import fcntl
import socket
import struct
import time

_SIOCOUTQ = 0x5411  # how much of what was sent the other side has not read yet (unix(7))
_SECONDS = 10.0
_FIRST_LOOK, _LONGEST_LOOK = 0.0005, 0.02  # seconds


def await_read(connection: socket.socket) -> None:
    """Let the client read the head, but not for ever.

    The docker SDK for Python throws away what it reads along with the head. There is no event for "it was read".
    """
    if connection.family != socket.AF_UNIX:
        return  # of a TCP socket the kernel knows what has arrived, not what was read
    look, end = _FIRST_LOOK, time.monotonic() + _SECONDS
    while struct.unpack("i", fcntl.ioctl(connection, _SIOCOUTQ, bytes(4)))[0] and time.monotonic() < end:
        time.sleep(look)
        look = min(look * 1.25, _LONGEST_LOOK)
