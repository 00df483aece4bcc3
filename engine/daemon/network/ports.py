"""The host's ports that containers publish: chosen, and held by sockets, so that nobody else can take them.

Runs in the daemon's threads, under a lock of its own that is held over nothing but bind(2). A socket receives nothing
and serves nobody: the firewall leads what comes to its port elsewhere, and it is what makes two that want one port
learn of it. The sockets die with the daemon; the next one binds them again.
"""

import threading
from collections.abc import Iterable

from engine.daemon.network.record import Network, PortRequest, Published
from engine.errors import NotBuilt


class Ports:
    """The ports that a daemon's containers hold."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def reserve(self, container_id: str, network: Network, wanted: Iterable[PortRequest]) -> tuple[Published, ...]:
        """Hold a port of the host for each that is wanted, all or none; in the order of `wanted`, IPv4's first.

        Nothing for a network that publishes nothing (internal, or not a bridge). In a routed network the ports are the
        container's own: `host_port` 0, and nothing is held. Raises Conflict in docker's words where a port is taken.
        """
        raise NotBuilt("published ports")

    def release(self, container_id: str) -> None:
        """Let go of all that the container holds."""
        raise NotBuilt("published ports")

    def adopt(self, container_id: str, published: Iterable[Published]) -> None:
        """Hold again what a container that runs has published; one that somebody else has meanwhile is logged."""
        raise NotBuilt("published ports")
