"""Decides at which of the host's addresses a port is published, and which published ports the userland proxy carries.

Pure. The rules of the firewall carry what comes to an address of the host over IPv4 to a container's IPv4 address, and
the same for IPv6. That needs no process, and is all that most ports need. The proxy (`--userland-proxy`) carries the
rest:

- what comes to `::1`, because the kernel accepts no answer to that address from a bridge, and what comes to a
  link-local address, because the kernel forwards nothing from such a one;
- what comes over IPv6 for a container that has only an IPv4 address, and the other way round;
- everything of a family for which there are no rules (`--iptables=false`, or a kernel without nf_tables);
- everything for a daemon that lives in another network than the host's.
"""

from collections.abc import Collection, Mapping

from engine.daemon.network.addresses import parse_address
from engine.daemon.network.drivers import bridge
from engine.daemon.network.record import Endpoint, Network, PortRequest, Published
from engine.errors import Unavailable
from engine.kernel import outside

ANY = {4: "0.0.0.0", 6: "::"}
LOOPBACK6 = "::1"
PROXIED = ("tcp", "udp")
"""The protocols that the proxy speaks."""
_MAPPED = ("nat", "nat-unprotected")
_BY_PROXY = "proxied"


def version_of(address: str) -> int:
    """4 or 6."""
    return 6 if ":" in address else 4


def order_of(address: str) -> tuple[int, int]:
    """What sorts the host's addresses as docker does; an empty one is that of any."""
    return parse_address((address or ANY[4]).partition("%")[0])


def overlap(one: str, other: str) -> bool:
    """Whether what comes to a port of the host's one address may come to that of the other."""
    version = version_of(one)
    return version == version_of(other) and (one == other or ANY[version] in (one, other))


def ways(network: Network, rules: Mapping[int, bool], proxy: bool) -> dict[int, str]:
    """By version of IP, how what comes to the host's addresses reaches containers of the network; empty: not at all.

    A gateway mode of the network, or `proxied` where only the proxy can. rules, proxy: what the daemon may use
    """
    has = {4: network.ipv4, 6: network.ipv6}
    found = {}
    for version, other in ((4, 6), (6, 4)):
        mode = bridge.mode(network, version)
        if has[version]:
            found[version] = mode if rules[version] else _BY_PROXY if proxy and mode in _MAPPED else ""
        else:
            found[version] = _BY_PROXY if proxy and has[other] and bridge.mode(network, other) in _MAPPED else ""
    return found


def addresses(
    network: Network, versions: Collection[int], rules: Mapping[int, bool], proxy: bool, request: PortRequest
) -> list[tuple[str, bool]]:
    """The addresses to bind a port at, each with whether that must succeed. Raises Unavailable where none is possible.

    versions: those of IP that are to be published through this network; empty where it is no request for one of them
    IPv6 may fail where the client did not ask for it, as the host may have none. Without an address in the request it
    is the network's `host_binding_ipv4`. Where that is any address of one family, any address of the other family is
    added, as docker does; but of IPv4 only for a network that has IPv4.
    """
    allowed = proxy
    proxy = proxy and request.protocol in PROXIED
    how = ways(network, rules, proxy)
    if request.host_ip:
        version = version_of(request.host_ip)
        if version not in versions:
            return []
        if not how[version] or (request.host_ip == LOOPBACK6 and not proxy):
            raise _impossible(network, request, request.host_ip, rules, allowed)
        return [(request.host_ip, True)] if how[version] in (*_MAPPED, _BY_PROXY) else []
    default = network.options.get(bridge.HOST_BINDING) or ANY[4]
    named = [*ANY.values()] if default in ANY.values() else [default]
    # All of them are judged, whichever are wanted now: a port that a start leaves out is never missing later.
    if not any(version_of(address) in versions for address in named):
        return []
    if not any(how[version_of(address)] for address in named) or (default == LOOPBACK6 and not proxy):
        raise _impossible(network, request, default, rules, allowed)
    mapped = [address for address in named if how[version_of(address)] in (*_MAPPED, _BY_PROXY)]
    if not network.ipv4 and len(mapped) > 1:
        mapped.remove(ANY[4])
    wanted = (address for address in mapped if version_of(address) in versions)
    return [(address, address != ANY[6] or not network.ipv4) for address in wanted]


def routed(network: Network, versions: Collection[int], rules: Mapping[int, bool], request: PortRequest) -> list[str]:
    """Any address of each of these versions of IP over which the network routes: the port is the container's own.

    An address of the host in the request says no more there than which version is meant.
    """
    how = ways(network, rules, False)
    meant = (ANY[version] for version in sorted(versions) if how[version] == "routed")
    return [any_ for any_ in meant if version_of(request.host_ip or any_) == version_of(any_)]


def proxied(endpoint: Endpoint, ruled: Collection[int]) -> list[tuple[Published, str]]:
    """The published ports that the proxy is to carry, each with the container's address that it leads to.

    ruled: the versions of IP for which the firewall has rules
    """
    found = []
    for port in endpoint.ports:
        if not port.host_port or port.protocol not in PROXIED:
            continue
        version = version_of(port.host_ip)
        own, other = (endpoint.ipv6, endpoint.ipv4) if version == 6 else (endpoint.ipv4, endpoint.ipv6)
        if (not own or version not in ruled or port.host_ip in (ANY[6], LOOPBACK6)) and (own or other):
            found.append((port, own or other))
    return found


def _impossible(
    network: Network, request: PortRequest, address: str, rules: Mapping[int, bool], allowed: bool
) -> Unavailable:
    version = version_of(address)
    has = network.ipv6 if version == 6 else network.ipv4
    option = "ip6tables" if version == 6 else "iptables"
    if not has:
        reason = f"network {network.name} has no IPv{version}"
    elif not rules[version]:
        reason = f"the daemon runs with --{option}=false" if outside.is_here() else "no rule leads there from outside"
    else:
        reason = "the kernel does not forward connections to that address"
    if request.protocol not in PROXIED:
        way = f"the userland proxy does not carry {request.protocol.upper()}"
    elif allowed:
        way = "its gateway mode leaves nothing to the userland proxy"
    else:
        way = "the daemon runs with --userland-proxy=false"
    return Unavailable(
        f"port {request.container_port}/{request.protocol} cannot be published on {address}: {reason}, and {way}"
    )
