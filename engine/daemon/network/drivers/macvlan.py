"""The driver `macvlan`: each container has a MAC address of its own on the network of one of the host's links.

What is made of this in the kernel is in `parents` and `plugging`; it runs in the daemon's request threads.
"""

from collections.abc import Iterable

from engine import literals
from engine.daemon.network.drivers import options, parents
from engine.daemon.network.record import Network
from engine.errors import Invalid

MODE = "macvlan_mode"
MODES = ("bridge", "private", "passthru", "vepa")
OPTIONS: dict[str, options.Kind] = {parents.OPTION: options.words, MODE: options.words, options.MTU: literals.integer}
_PREFIX = "dm-"


def check(network: Network, others: Iterable[Network]) -> None:
    """Raise docker's refusal of a network that cannot be: Invalid."""
    options.check(OPTIONS, network.options)
    options.check_mtu(network.options)
    if mode(network) not in MODES:
        raise Invalid(
            f"requested macvlan mode '{mode(network)}' is not valid, 'bridge' mode is the macvlan driver default"
        )
    parent = device(network)
    for other in others:
        if other.id == network.id or other.driver != "macvlan" or other.device != parent:
            continue
        if mode(network) == "passthru":
            raise Invalid(
                f"cannot use mode passthru, macvlan network {other.id} is already using parent interface {parent}"
            )
        if mode(other) == "passthru":
            raise Invalid(f"macvlan network {other.id} is already using parent interface {parent} in mode passthru")
    parents.check(network, "macvlan")


def device(network: Network) -> str:
    """The name of the link that the containers' ones are made of."""
    return parents.device(network, _PREFIX)


def mode(network: Network) -> str:
    """How the containers' links speak to each other."""
    return network.options.get(MODE) or "bridge"


def gateways(_: Network) -> tuple[bool, bool]:
    """Nothing of a pool is kept for a gateway that nobody asked for: the gateway is a router out there."""
    return False, False
