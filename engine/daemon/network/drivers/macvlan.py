"""The driver `macvlan`: options and checks of networks whose containers have own MAC addresses on a link of the host.

Runs in the daemon's request threads. `parents` and `plugging` make the links in the kernel.
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
    """Raise docker's refusal of a network that is not possible: Invalid."""
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
    """The name of the parent link, on which the containers' links are made."""
    return parents.device(network, _PREFIX)


def mode(network: Network) -> str:
    """Whether the containers' links reach each other: `bridge`, `private`, `passthru` or `vepa`."""
    return network.options.get(MODE) or "bridge"


def gateways(_: Network) -> tuple[bool, bool]:
    """False for both families: no address is kept for a gateway, as the gateway is a router outside the host."""
    return False, False
