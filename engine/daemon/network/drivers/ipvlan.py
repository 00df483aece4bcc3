"""The driver `ipvlan`: options and checks of networks whose containers share the MAC address of a link of the host.

Runs in the daemon's request threads. Each container has IP addresses of its own. `parents` and `plugging` make the
links in the kernel.
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
    """Raise docker's refusal of a network that is not possible: Invalid."""
    options.check(OPTIONS, network.options)
    options.check_mtu(network.options)
    if mode(network) not in MODES:
        raise Invalid(f"requested ipvlan mode '{mode(network)}' is not valid, 'l2' mode is the ipvlan driver default")
    if flag(network) not in FLAGS:
        raise Invalid(f"requested ipvlan flag '{flag(network)}' is not valid, 'bridge' is the ipvlan driver default")
    parent = device(network)
    for other in others:
        # The mode belongs to the parent link: a second network would change it for the first one.
        if other.id != network.id and other.driver == "ipvlan" and other.device == parent:
            raise Invalid(f"network {_PREFIX}{other.id[:12]} is already using parent interface {parent}")
    parents.check(network, "ipvlan")


def device(network: Network) -> str:
    """The name of the parent link, on which the containers' links are made."""
    return parents.device(network, _PREFIX)


def mode(network: Network) -> str:
    """Whether the parent link switches frames (l2) or routes packets (l3; l3s: also through the host's netfilter)."""
    return network.options.get(MODE) or "l2"


def flag(network: Network) -> str:
    """Whether the containers' links reach each other: `bridge`, `private` or `vepa`."""
    return network.options.get(FLAG) or "bridge"


def gateways(_: Network) -> tuple[bool, bool]:
    """False for both families: no address is kept for a gateway, as the gateway is a router outside the host."""
    return False, False
