"""The records of networks, endpoints, pools and published ports: dataclasses that the other modules share.

Owned by `networks.Networks`; the store saves them, and any thread reads them. Addresses are in their canonical text
form, so that an idle daemon needs no module to parse them. A `Network` never changes. An `Endpoint` exists while its
container runs, or is about to. It is replaced, and never changed, once other threads know it.
"""

from collections.abc import Iterable, Mapping, Sequence

from engine.annotating import TypedDict
from engine.dataclass import dataclass, field


class AskedDns(TypedDict):
    """The keys of a HostConfig that say which DNS servers answer, and how they are asked."""

    Dns: list[str] | None
    DnsOptions: list[str] | None
    DnsSearch: list[str] | None


class IPAMConfig(TypedDict, total=False):
    """The addresses that an endpoint asks for."""

    IPv4Address: str
    IPv6Address: str
    LinkLocalIPs: list[str]


class AskedEndpoint(TypedDict):
    """The keys of an EndpointSettings that a network obeys. DNSNames: the names that the endpoint is to have."""

    IPAMConfig: IPAMConfig | None
    DriverOpts: dict[str, str] | None
    GwPriority: int
    MacAddress: str
    DNSNames: list[str] | None


LOCAL = ("bridge", "host", "ipvlan", "macvlan", "null")
"""The drivers that are no plugins."""
IPAM_DRIVERS = ("default", "null")
"""The IPAM drivers that are no plugins."""


@dataclass(frozen=True, slots=True)
class Pool:
    """One entry of IPAM.Config: a subnet in CIDR form, and the range in it for addresses (empty: all of the subnet).

    gateway: the bridge's own address in it, without a prefix length; empty: none
    aux: name → auxiliary address, which no container is given
    """

    subnet: str
    ip_range: str = ""
    gateway: str = ""
    aux: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Network:
    """One network.

    id: 64 hex digits; driver: one of `LOCAL`, or a plugin's name; ipv4, ipv6: EnableIPv4, EnableIPv6
    pools: IPv4's first; options, labels: as the client gave them
    device: the bridge's or parent's interface on the host; empty for `host` and `null`
    config_from: name of the configuration network that its settings come from; config_only: it is a configuration
    network
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
        """Whether it is one of the three predefined networks: `bridge`, `host`, `none`."""
        return self.name in BUILTIN

    @property
    def user_defined(self) -> bool:
        """Whether its containers find each other by name."""
        return not self.builtin

    @property
    def outsourced(self) -> bool:
        """Whether its driver is a plugin."""
        return self.driver not in LOCAL

    @property
    def addressed(self) -> bool:
        """Whether the daemon itself gives out its addresses."""
        return self.ipam_driver in IPAM_DRIVERS

    @property
    def wired(self) -> bool:
        """Whether a container has an interface and addresses in it, as with any driver except `host` and `null`."""
        return self.driver not in ("host", "null")


@dataclass(frozen=True, slots=True)
class Published:
    """A port of a container that is reached at a port of the host, through the firewall or the userland proxy.

    protocol: `tcp`, `udp` or `sctp`; host_ip: `0.0.0.0` or `::` for any address of that family
    """

    container_port: int
    protocol: str
    host_ip: str
    host_port: int


@dataclass(frozen=True, slots=True)
class PortRequest:
    """What a container asks of the host for one of its ports.

    host_ip: empty for the network's or daemon's default; first, last: the range to choose from, 0 for any free port
    """

    container_port: int
    protocol: str
    host_ip: str = ""
    first: int = 0
    last: int = 0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One container's place in one network, for one run of the container.

    id: 64 hex digits; network, container: their ids
    interface: its name in the container (`eth0`), empty until it is there; host_interface: the name of the veth pair's
        host end (`veth...`), empty where there is none
    mac: `aa:bb:cc:dd:ee:ff`; ipv4, ipv6: addresses without prefix length, empty for none; prefix4, prefix6: bits
    gateway4, gateway6: empty for none; priority: GwPriority, the highest one has the container's default route
    names: what the resolver answers to in this network (container name, short id, aliases, ...), the first is shown
    ports: what is published through this network
    link_local: further addresses of the interface (IPAMConfig.LinkLocalIPs), which other containers may use too
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


SOURCE, ROUTES, LEADS = "engine.source", "engine.routes", "engine.leads"
"""In the `driver_opts` of an endpoint whose driver is a plugin: the interface's name on the host; its static routes as
JSON, each a subnet's address and prefix length, and the next hop or an empty text; and the versions of IP over which
its driver was told that it leads out, `46`, `4` or `6`."""

Pair = tuple[Network, Endpoint]
"""An endpoint and the network that it is in."""

Links = Mapping[str, Mapping[str, str]]
"""By a network's id, the aliases that one container alone may ask for, with the names behind them."""

Run = tuple[Sequence[Pair], int, int, AskedDns, Links]
"""One run of a container: its endpoints, its process 1 and when that began, its HostConfig, its links."""

DEFAULT = "bridge"
"""The name of the network that a container is in when nobody says another."""
NONE = "none"
"""The name of the network of containers that have their loopback alone."""
BUILTIN = (DEFAULT, "host", NONE)


def has_resolver(pairs: Iterable[Pair]) -> bool:
    """Whether the resolver answers the queries of a container with these endpoints."""
    return any(network.user_defined and network.wired for network, _ in pairs)
