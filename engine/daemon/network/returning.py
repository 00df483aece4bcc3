"""Has the answers of containers come back to the userland proxy when it reaches them from its clients' own addresses.

Runs in the daemon, on any thread, in a network of the daemon's own: there no other program uses the mark and the table
of routes that are taken here. A connection that a process of this network begins from an address which is not the
network's is marked. What comes back in such a connection is marked too, and routing delivers it here. A container does
not send from this network but into it, so none gets its own connections marked; with `--network host` this network is
the container's. What is made stays as long as the network.
"""

import errno
import os
import socket

from engine.kernel.netlink import nftables, policy
from engine.kernel.netlink import nftexpressions as nft
from engine.kernel.netlink.message import Request
from engine.kernel.netlink.socket import Netlink, Refused

_TABLE = "engine-clients"
_MARK = 0x656E67
_ROUTES = 0x656E67
_MANGLE = -150
_IPV6 = "/proc/net/if_inet6"


def make() -> None:
    """Have such answers come back, if it is not so already. Raises OSError where the kernel lacks a part of this."""
    with Netlink() as routes:
        for family in _families():
            for request in policy.take_marked(family, _MARK, _ROUTES):
                try:
                    routes.send((request,))
                except Refused as error:
                    if error.errno != errno.EEXIST:  # it was made before
                        raise
    with Netlink(nftables.NETFILTER) as netlink:
        nftables.commit(netlink, _rules())


def _families() -> tuple[int, ...]:
    return (socket.AF_INET, socket.AF_INET6) if os.path.exists(_IPV6) else (socket.AF_INET,)


def _rules() -> list[Request]:
    sent, back = "sent", "back"
    return [
        nftables.new_table(_TABLE),
        nftables.delete_table(_TABLE),
        nftables.new_table(_TABLE),
        nftables.new_base_chain(_TABLE, sent, "filter", nftables.OUTPUT, _MANGLE),
        nftables.new_base_chain(_TABLE, back, "filter", nftables.PREROUTING, _MANGLE),
        nftables.new_rule(_TABLE, sent, nft.sent_for_another() + nft.mark_connection(_MARK)),
        nftables.new_rule(_TABLE, back, nft.answer() + nft.connection_marked(_MARK) + nft.mark_packet(_MARK)),
    ]
