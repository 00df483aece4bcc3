"""Network links, over rtnetlink(7): for now, bringing one up.

Acts in the network namespace of the calling thread. A link is named by its index; `lo` is always 1.
"""

import struct

from engine.kernel.netlink.socket import Netlink

LOOPBACK = 1
_SETLINK = 19
_UP = 0x1
_LINK = struct.Struct("=BxHiII")


def set_up(netlink: Netlink, index: int) -> None:
    """Bring the link up; for `lo` the kernel adds 127.0.0.1/8 and ::1 by itself. Raises OSError."""
    netlink.request(_SETLINK, 0, _LINK.pack(0, 0, index, _UP, _UP))
