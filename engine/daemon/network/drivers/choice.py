"""Finds a network driver's module by its name, with docker's error texts for names of swarm drivers and unknown ones.

Runs in the daemon's request threads. A driver's module is imported when a network of that driver is first used.
`devices` and `plugging` make the links in the kernel for all drivers.
"""

from collections.abc import Iterable
from typing import Protocol

from engine.daemon.network.record import Network
from engine.errors import Forbidden, NotFound
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # each is loaded with the first network of its own
    from engine.daemon.network.drivers import bridge, host, ipvlan, macvlan, null
else:
    bridge = late("engine.daemon.network.drivers.bridge")
    host = late("engine.daemon.network.drivers.host")
    ipvlan = late("engine.daemon.network.drivers.ipvlan")
    macvlan = late("engine.daemon.network.drivers.macvlan")
    null = late("engine.daemon.network.drivers.null")

_SWARM = ("overlay",)
NO_MANAGER = (
    'This node is not a swarm manager. Use "docker swarm init" or "docker swarm join" to connect this node to swarm'
    " and try again."
)
"""docker's words for what only a swarm has."""


class Driver(Protocol):
    """The functions that every driver's module has."""

    def check(self, network: Network, others: Iterable[Network], /) -> None:
        """Raise docker's refusal of a network that is not possible. others: all existing networks"""

    def device(self, network: Network, /) -> str:
        """The name of the network's link on the host; empty for none."""

    def gateways(self, network: Network, /) -> tuple[bool, bool]:
        """Whether an IPv4 pool, and an IPv6 pool, gets a gateway from the daemon where the client named none."""


def find(name: str) -> Driver:
    """The driver's module. Raises NotFound for an unknown name, Forbidden for a driver of a swarm."""
    if name == "bridge":
        return bridge
    if name == "host":
        return host
    if name == "ipvlan":
        return ipvlan
    if name == "macvlan":
        return macvlan
    if name == "null":
        return null
    check_local(name)
    raise NotFound(f'plugin "{name}" not found')


def check_local(name: str) -> None:
    """Raise Forbidden for the name of a swarm's driver."""
    if name in _SWARM:
        raise Forbidden(NO_MANAGER)
