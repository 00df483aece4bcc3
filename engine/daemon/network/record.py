"""A network, an endpoint and a published port as the daemon knows them: plain data that belongs to no verb.

Owned by `networks.Networks`; the store keeps it, everybody reads it. Addresses are text in their canonical form, so
that an idle daemon needs nothing to read them with. A `Network` never changes; an `Endpoint` is there while its
container runs (or is about to) and is replaced, never changed, once others know it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Pool:
    """One entry of IPAM.Config: a subnet in CIDR form, and of it the range that addresses are taken from (or empty).

    gateway: the bridge's own address in it, without a prefix length; empty: none
    aux: name → address that nobody is given
    """

    subnet: str
    ip_range: str = ""
    gateway: str = ""
    aux: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Network:
    """One network.

    id: 64 hex digits; driver: `bridge`, `host`, `null`, `macvlan` or `ipvlan`; ipv4, ipv6: EnableIPv4, EnableIPv6
    pools: IPv4's first; options, labels: as the client gave them
    device: the bridge's or parent's interface on the host; empty for `host` and `null`
    config_from: the name of the network that lent its configuration; config_only: that is all it is for
    """

    id: str
    name: str
    driver: str
    created_ns: int
    device: str = ""
    scope: str = "local"
    ipv4: bool = True
    ipv6: bool = False
    internal: bool = False
    attachable: bool = False
    ingress: bool = False
    config_only: bool = False
    config_from: str = ""
    ipam_driver: str = "default"
    ipam_options: dict[str, str] | None = None
    pools: tuple[Pool, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def builtin(self) -> bool:
        """One of the three that are always there: `bridge`, `host`, `none`."""
        return self.name in BUILTIN

    @property
    def user_defined(self) -> bool:
        """One whose containers find each other by name."""
        return not self.builtin

    @property
    def wired(self) -> bool:
        """One in which a container has an interface and addresses: any but those of the drivers `host` and `null`."""
        return self.driver not in ("host", "null")


@dataclass(frozen=True, slots=True)
class Published:
    """A port of a container that is reached at one of the host's: as the firewall has it.

    protocol: `tcp`, `udp` or `sctp`; host_ip: `0.0.0.0` or `::` for any of that family
    """

    container_port: int
    protocol: str
    host_ip: str
    host_port: int


@dataclass(frozen=True, slots=True)
class PortRequest:
    """What a container asks of the host for one of its ports, or none (first 0): any port that is free.

    host_ip: empty for what the network or the daemon has for it; first, last: the range that the port is taken from
    """

    container_port: int
    protocol: str
    host_ip: str = ""
    first: int = 0
    last: int = 0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One container's place in one network, for one run of it.

    id: 64 hex digits; network, container: their ids
    interface: its name in the container (`eth0`), empty until it is there; host_interface: of its other end
        (`veth...`), empty where there is none
    mac: `aa:bb:cc:dd:ee:ff`; ipv4, ipv6: addresses without prefix length, empty for none; prefix4, prefix6: bits
    gateway4, gateway6: empty for none; priority: GwPriority, the highest one is the container's default route
    names: what the resolver answers to in this network (container name, short id, aliases, ...), first come first shown
    ports: what is published through this network; only one endpoint of a container has any
    link_local: further addresses of the interface (IPAMConfig.LinkLocalIPs), that nobody else is kept from using
    """

    id: str
    network: str
    container: str
    mac: str = ""
    ipv4: str = ""
    prefix4: int = 0
    gateway4: str = ""
    ipv6: str = ""
    prefix6: int = 0
    gateway6: str = ""
    interface: str = ""
    host_interface: str = ""
    priority: int = 0
    names: tuple[str, ...] = ()
    driver_opts: dict[str, str] = field(default_factory=dict)
    ports: tuple[Published, ...] = ()
    link_local: tuple[str, ...] = ()


Pair = tuple[Network, Endpoint]
"""An endpoint and the network that it is in."""

Links = Mapping[str, Mapping[str, str]]
"""By a network's id, the aliases that one container alone may ask for, with the names behind them."""

Run = tuple[Sequence[Pair], int, int, Mapping[str, Any], Links]
"""One run of a container: its endpoints, its process 1 and when that began, its HostConfig, its links."""

DEFAULT = "bridge"
"""The name of the network that a container is in when nobody says another."""
BUILTIN = (DEFAULT, "host", "none")


def has_resolver(pairs: Iterable[Pair]) -> bool:
    """Whether the names of one with these endpoints are the resolver's to answer."""
    return any(network.user_defined and network.wired for network, _ in pairs)
