"""Has packets with a firewall mark delivered to this host, whatever their destination is, over rtnetlink(7).

Pure. A rule of routing leads such packets to a table in which every address is this host's own (ip-rule(8); the way of
tproxy.rst in the kernel's documentation). Numbers: linux/fib_rules.h, linux/rtnetlink.h.
"""

import struct

from engine.kernel.netlink import message
from engine.kernel.netlink.message import Request

_NEWROUTE, _NEWRULE = 24, 32
_HEAD = struct.Struct("=BBBBBBBBI")  # of both: struct fib_rule_hdr, struct rtmsg
_LOOPBACK = 1  # the index that every network's loopback interface has
_BOOT = 3
_HOST = 254
_LOCAL = 2
_TO_TABLE = 1
_OUT, _MARK, _TABLE = 4, 10, 15


def take_marked(family: int, mark: int, table: int) -> list[Request]:
    """Deliver what has this mark here. family: AF_INET or AF_INET6; table: a number that no other routes use.

    The kernel refuses the second request (EEXIST) where it was made before; then it is in force already.
    """
    local = _HEAD.pack(family, 0, 0, 0, 0, _BOOT, _HOST, _LOCAL, 0)
    route = local + message.u32(_OUT, _LOOPBACK) + message.u32(_TABLE, table)
    rule = _HEAD.pack(family, 0, 0, 0, 0, 0, 0, _TO_TABLE, 0) + message.u32(_MARK, mark) + message.u32(_TABLE, table)
    return [
        (_NEWROUTE, message.CREATE | message.REPLACE, route),
        (_NEWRULE, message.CREATE | message.EXCLUSIVE, rule),
    ]
