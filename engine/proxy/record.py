"""What is served: the runs of containers, and for each the sockets of the host that lead there.

One thread. `orders` changes these; `stream` and `datagram` count what they carry for them.
"""

import socket

from engine.dataclass import dataclass, field


class Carried:
    """A connection, or a client of a UDP port, that ends with what it belongs to."""

    def abort(self) -> None:
        """End it at once."""
        raise TypeError(f"{type(self).__name__} does not say how it ends")


@dataclass(eq=False, slots=True)
class Owner:
    """A run of a container.

    container, run: its id, and the start time of its process 1; serial: higher than that of each earlier owner
    pidfd: of process 1; streams: how many connections it has; flows: its UDP clients, the longest silent first
    """

    container: str
    run: int
    serial: int
    pidfd: int
    leads: "list[Lead]" = field(default_factory=list)
    streams: int = 0
    flows: dict[Carried, None] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Lead:
    """A socket of the host, and where it leads to. protocol: `tcp` or `udp`; paused: no connection is accepted now"""

    owner: Owner
    protocol: str
    socket: socket.socket
    address: str
    port: int
    streams: dict[Carried, None] = field(default_factory=dict)
    paused: bool = False

    @property
    def family(self) -> int:
        """The family of the container's address."""
        return socket.AF_INET6 if ":" in self.address else socket.AF_INET
