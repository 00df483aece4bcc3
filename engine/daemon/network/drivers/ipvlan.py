"""The driver `ipvlan`: containers have addresses of their own, behind the MAC address of one of the host's links.

What is made of this in the kernel is in `parents` and `plugging`; it runs in the daemon's request threads.
"""

from collections.abc import Iterable

from engine import literals
from engine.daemon.network.drivers import options, parents
from engine.daemon.network.record import Network
from engine.errors import Invalid

MODE = "ipvlan_mode"
FLAG = "ipvlan_flag"
MODES = ("l2", "l3", "l3s")
FLAGS = ("bridge", "private", "vepa")
OPTIONS: dict[str, options.Kind] = {
    parents.OPTION: options.words,
    MODE: options.words,
    FLAG: options.words,
    options.MTU: literals.integer,
}
_PREFIX = "di-"


def check(network: Network, others: Iterable[Network]) -> None:
    """Raise docker's refusal of a network that cannot be: Invalid."""
    options.check(OPTIONS, network.options)
    options.check_mtu(network.options)
    if mode(network) not in MODES:
        raise Invalid(f"requested ipvlan mode '{mode(network)}' is not valid, 'l2' mode is the ipvlan driver default")
    if flag(network) not in FLAGS:
        raise Invalid(f"requested ipvlan flag '{flag(network)}' is not valid, 'bridge' is the ipvlan driver default")
    parent = device(network)
    for other in others:
        # The mode is the parent's: a second network would change it for the first.
        if other.id != network.id and other.driver == "ipvlan" and other.device == parent:
            raise Invalid(f"network {_PREFIX}{other.id[:12]} is already using parent interface {parent}")
    parents.check(network, "ipvlan")


def device(network: Network) -> str:
    """The name of the link that the containers' ones are made of."""
    return parents.device(network, _PREFIX)


def mode(network: Network) -> str:
    """Whether the host's link switches frames (l2) or routes packets (l3, l3s: with the host's netfilter)."""
    return network.options.get(MODE) or "l2"


def flag(network: Network) -> str:
    """How the containers' links speak to each other."""
    return network.options.get(FLAG) or "bridge"


def gateways(_: Network) -> tuple[bool, bool]:
    """Nothing of a pool is kept for a gateway that nobody asked for: the gateway is a router out there."""
    return False, False
