"""What the engine does on a kernel without nf_tables: it finds that out, says so, and refuses what would be unsafe.

Run by `control`, under the firewall's lock. Networks are then bridges without a firewall, and ports are published by
the userland proxy. Forwarding is not switched on: without rules the host would forward for everybody. A network that is
nothing without its walls (internal, or with enable_icc off) is refused.
"""

import errno
import logging
from collections.abc import Iterable

from engine.daemon.network.firewall import rules
from engine.daemon.network.record import Network
from engine.errors import Unavailable
from engine.kernel import modprobe
from engine.kernel.netlink import nftables, socket

log = logging.getLogger(__name__)

SHORT = "this kernel has no nf_tables"
_WAY_OUT = (
    "load the kernel's modules nf_tables, nft_chain_nat and nft_fib_inet (modprobe), or boot a kernel that has them"
)
WORDS = (
    f"{SHORT}, so networks are bridges without a firewall: containers reach the host and their neighbours, but nothing"
    " outside; published ports go through the userland proxy; internal networks and enable_icc=false are refused; and"
    f" networks are kept apart only as long as the host does not forward. The way out: {_WAY_OUT}"
)
"""All of it, for the log and for `docker info`."""
_NO_FAMILY = (errno.EPROTONOSUPPORT, errno.EAFNOSUPPORT, errno.ESOCKTNOSUPPORT)


def works(table: str) -> bool:
    """Whether the kernel has nf_tables. table: the name of the engine's own. Raises OSError where it cannot be told."""
    modprobe.stand_in(modprobe.FIREWALL)
    try:
        with socket.Netlink(nftables.NETFILTER) as asked:
            return nftables.present(asked, table)
    except OSError as error:
        if error.errno in _NO_FAMILY:
            return False
        raise


def check(network: Network) -> None:
    """Raise Unavailable for a network that is not safe without rules."""
    if network.internal:
        what = f"network {network.name} cannot be kept internal"
    elif not rules.open_within(network):
        what = f"the containers of network {network.name} cannot be kept from each other (enable_icc=false)"
    else:
        return
    raise Unavailable(f"{what}: {SHORT}; {_WAY_OUT}")


def tell(networks: Iterable[Network]) -> None:
    """Log each network with running containers that is no longer what it promises."""
    for network in networks:
        try:
            check(network)
        except Unavailable as error:
            log.error("%s", error)
