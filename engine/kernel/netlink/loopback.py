"""Brings the loopback interface of a network namespace up.

This is all of rtnetlink(7) that the containers' side needs, so it is all that the spawner loads of it. Acts in the
network namespace of the calling thread.
"""

import struct

from engine.kernel.netlink.socket import Netlink

_LOOPBACK = 1
_SETLINK = 19
_UP = 0x1
_LINK = struct.Struct("=BxHiII")


def set_up() -> None:
    """Bring `lo` up; the kernel adds 127.0.0.1/8 and ::1 by itself. Raises OSError."""
    with Netlink() as netlink:
        netlink.request(_SETLINK, 0, _LINK.pack(0, 0, _LOOPBACK, _UP, _UP))
