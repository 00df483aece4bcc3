"""The driver `bridge`: options and checks of networks with a bridge on the host and a veth pair into each container.

Pure; `devices` and `plugging` make the links in the kernel. The options for the firewall and for published ports are
named and checked here too.
"""

from collections.abc import Iterable

from engine import literals
from engine.daemon.network.addresses import Subnet
from engine.daemon.network.drivers import options
from engine.daemon.network.record import Network
from engine.errors import Forbidden, Invalid, SystemFailure

NAME = "com.docker.network.bridge.name"
INHIBIT_IPV4 = "com.docker.network.bridge.inhibit_ipv4"
GATEWAY_MODES = {4: "com.docker.network.bridge.gateway_mode_ipv4", 6: "com.docker.network.bridge.gateway_mode_ipv6"}
DEFAULT_BRIDGE = "com.docker.network.bridge.default_bridge"
ICC = "com.docker.network.bridge.enable_icc"
MASQUERADE = "com.docker.network.bridge.enable_ip_masquerade"
TRUSTED = "com.docker.network.bridge.trusted_host_interfaces"
HOST_BINDING = "com.docker.network.bridge.host_binding_ipv4"
HOST_ADDRESSES = {
    4: ("com.docker.network.host_ipv4", "com.docker.network.bridge.host_ipv4"),
    6: ("com.docker.network.host_ipv6",),
}

OPTIONS: dict[str, options.Kind] = {
    NAME: options.words,
    options.MTU: literals.integer,
    "com.docker.network.enable_ipv4": literals.boolean,
    "com.docker.network.enable_ipv6": literals.boolean,
    MASQUERADE: literals.boolean,
    GATEWAY_MODES[4]: options.gateway_mode,
    GATEWAY_MODES[6]: options.gateway_mode,
    ICC: literals.boolean,
    TRUSTED: options.interfaces,
    INHIBIT_IPV4: literals.boolean,
    DEFAULT_BRIDGE: literals.boolean,
    HOST_BINDING: options.address,
    options.PREFIX: options.words,
    **dict.fromkeys(HOST_ADDRESSES[4], options.address4),
    **dict.fromkeys(HOST_ADDRESSES[6], options.address6),
}
LINK_LOCAL = Subnet.parse("fe80::/64")
_MULTICAST = "ff"


def check(network: Network, others: Iterable[Network]) -> None:
    """Raise docker's refusal of a network that is not possible: Invalid, Forbidden, SystemFailure.

    others: all existing networks
    """
    given = network.options
    options.check(OPTIONS, given)
    options.check_announcements(given)
    if "isolated" in (given.get(mode) for mode in GATEWAY_MODES.values()) and not network.internal:
        raise SystemFailure("gateway mode 'isolated' can only be used for an internal network")
    if not network.ipv4 and not network.ipv6:
        raise Invalid("IPv4 or IPv6 must be enabled")
    options.check_mtu(given)
    options.check_name(device(network))
    options.check_name(options.prefix_of(given) + "0")
    _check_pools(network)
    for other in others:
        if other.id != network.id and other.driver == "bridge" and other.device == device(network):
            raise Forbidden(
                f"cannot create network {network.id} ({device(network)}): conflicts with network {other.id}"
                f" ({other.device}): networks have same bridge name"
            )


def device(network: Network) -> str:
    """The name of the bridge: as the options say, or else made of the network's id."""
    return network.options.get(NAME) or f"br-{network.id[:12]}"


def mode(network: Network, version: int) -> str:
    """How containers are reached from outside over IPv4 or IPv6: `nat`, `nat-unprotected`, `routed` or `isolated`."""
    return network.options.get(GATEWAY_MODES[version]) or "nat"


def trusted(network: Network) -> tuple[str, ...]:
    """The host's interfaces from which published ports are reached at the containers' own addresses too."""
    return options.interfaces(network.options.get(TRUSTED, ""))


def gateways(network: Network) -> tuple[bool, bool]:
    """Whether an address of the IPv4 pool, and of the IPv6 pool, is kept for the bridge or a router in its place."""
    given = network.options
    inhibited = options.switched_on(given, INHIBIT_IPV4) and network.internal
    isolated4, isolated6 = (mode(network, version) == "isolated" for version in (4, 6))
    return not (isolated4 or inhibited), not isolated6


def addresses(network: Network) -> list[tuple[str, int]]:
    """The addresses of the bridge itself: (address, prefix length)."""
    kept = gateways(network)
    inhibited = options.switched_on(network.options, INHIBIT_IPV4)
    found = []
    for pool in network.pools:
        ipv6 = ":" in pool.subnet
        enabled = network.ipv6 if ipv6 else network.ipv4 and not inhibited
        if pool.gateway and enabled and kept[ipv6]:
            found.append((pool.gateway, int(pool.subnet.partition("/")[2])))
    return found


def _check_pools(network: Network) -> None:
    families = [":" in pool.subnet for pool in network.pools]
    if families.count(True) > 1 or families.count(False) > 1:
        raise Forbidden("bridge driver doesn't support multiple subnets")
    for pool in network.pools:
        if pool.subnet != str(LINK_LOCAL) and Subnet.parse(pool.subnet).overlaps(LINK_LOCAL):
            raise Invalid(f"'{pool.subnet}' clashes with the Link-Local prefix 'fe80::/64'")
        if ":" in pool.subnet and pool.subnet.startswith(_MULTICAST):
            raise Invalid(f"multicast subnet '{pool.subnet}' is not allowed")
