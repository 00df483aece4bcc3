"""One netlink conversation with the kernel: send a request, wait for its acknowledgement.

Blocking; the kernel answers rtnetlink requests before sendto returns, so nobody waits. A socket belongs to the network
namespace that it was made in.
"""

import os
import socket

from engine.kernel.netlink import message

_LARGEST = 16384


class Netlink:
    """A netlink socket of one protocol; a context manager."""

    def __init__(self, protocol: int = socket.NETLINK_ROUTE) -> None:
        """Raises OSError, as socket(2)."""
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
        self._sequence = 0

    def __enter__(self) -> "Netlink":
        """The socket itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self._socket.close()

    def request(self, kind: int, flags: int, payload: bytes) -> None:
        """Send one message and raise OSError with the errno of the kernel's answer, unless that is success."""
        self._sequence += 1
        flags |= message.REQUEST | message.ACKNOWLEDGE
        self._socket.sendto(message.encode(kind, flags, self._sequence, payload), (0, 0))
        answer = None
        while answer is None:
            answer = message.acknowledged(self._socket.recv(_LARGEST), self._sequence)
        if answer:
            raise OSError(answer, os.strerror(answer))
