"""Which driver a network has: the names that there are, and docker's words for those that there are not.

Runs in the daemon's request threads. A driver is a module, which is imported when somebody asks for it. What is made in
the kernel for it is in `devices` and `plugging`.
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
    """What every driver's module has."""

    def check(self, network: Network, others: Iterable[Network], /) -> None:
        """Raise docker's refusal of a network that cannot be. others: all networks that there are"""

    def device(self, network: Network, /) -> str:
        """The name of the link on the host; empty for none."""

    def gateways(self, network: Network, /) -> tuple[bool, bool]:
        """Whether an IPv4, an IPv6 pool has a gateway that nobody asked for."""


_DRIVERS: dict[str, Driver] = {"bridge": bridge, "host": host, "ipvlan": ipvlan, "macvlan": macvlan, "null": null}
LOCAL = tuple(_DRIVERS)


def find(name: str) -> Driver:
    """The driver's module. Raises NotFound, Forbidden for a driver of a swarm."""
    found = _DRIVERS.get(name)
    if found is None:
        check_local(name)
        raise NotFound(f'plugin "{name}" not found')
    return found


def check_local(name: str) -> None:
    """Raise Forbidden for a driver of a swarm."""
    if name in _SWARM:
        raise Forbidden(NO_MANAGER)
