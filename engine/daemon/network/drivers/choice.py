"""Which driver a network has: the names that there are, and docker's words for those that there are not.

Runs in the daemon's request threads. A driver is a module with `check`, `device` and `gateways`; it is imported when
somebody asks for it. What is made in the kernel for it is in `devices` and `plugging`.
"""

import importlib
from types import ModuleType

from engine.errors import Forbidden, NotFound

LOCAL = ("bridge", "host", "ipvlan", "macvlan", "null")
_SWARM = ("overlay",)
NO_MANAGER = (
    'This node is not a swarm manager. Use "docker swarm init" or "docker swarm join" to connect this node to swarm'
    " and try again."
)
"""docker's words for what only a swarm has."""


def find(name: str) -> ModuleType:
    """The driver's module. Raises NotFound, Forbidden for a driver of a swarm."""
    if name in LOCAL:
        return importlib.import_module(f"engine.daemon.network.drivers.{name}")
    check_local(name)
    raise NotFound(f'plugin "{name}" not found')


def check_local(name: str) -> None:
    """Raise Forbidden for a driver of a swarm."""
    if name in _SWARM:
        raise Forbidden(NO_MANAGER)
