"""Makes the record of a new endpoint: allocates its addresses, and chooses gateways, MAC address and interface names.

Runs in the daemon's request threads under the lock of `networks.Networks`. It takes addresses from the network's pools
and changes nothing else. It is loaded at the first use of any network.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Mapping

from engine.daemon.network import gateways
from engine.daemon.network.addresses import Subnet, canonical, parse_address, show_address
from engine.daemon.network.drivers import endpointoptions, options
from engine.daemon.network.drivers.endpointoptions import IFNAME
from engine.daemon.network.ipam import Addresses, Space
from engine.daemon.network.record import AskedEndpoint, Endpoint, IPAMConfig, Network
from engine.errors import EngineError, Forbidden, Invalid

# Auxiliary addresses with these names are the containers' gateway in place of the bridge (--default-gateway).
GATEWAYS = {4: "DefaultGatewayIPv4", 6: "DefaultGatewayIPv6"}

_MAC = re.compile(r"[0-9a-f]{12}")
LINK_LOCAL = {4: Subnet.parse("169.254.0.0/16"), 6: Subnet.parse("fe80::/10")}
_OUTSIDE = "no configured subnet contains IP address {}"
_LOCAL, _MULTICAST = 0x02, 0x01  # bits of a MAC address's first byte


def make(
    network: Network,
    addresses: Addresses,
    container_id: str,
    settings: AskedEndpoint,
    beside: Iterable[Endpoint],
    reserved: Iterable[str] = (),
    *,
    ipv6: bool = True,
    assigned: Mapping[int, tuple[str, int]] | None = None,
) -> Endpoint:
    """The endpoint's record. Its addresses are taken from `addresses`; when this raises, none is.

    settings: complete EndpointSettings; beside: the container's other endpoints
    reserved: names of interfaces that other endpoints of the container ask for
    ipv6: whether the container takes an address of IPv6; if not, one that was asked for is passed over, as by docker
    assigned: by version of IP, the address and prefix length that a plugin has given, in place of `addresses`
    Raises Invalid, Forbidden, EngineError in docker's words.
    """
    priority, names = settings["GwPriority"], tuple(settings.get("DNSNames") or ())
    given = dict(settings["DriverOpts"] or {})
    ipv6 = ipv6 and not endpointoptions.without_ipv6(given)
    if not network.wired:
        # This endpoint has no row. Each daemon that finds its container makes it again, so its id is derived from fixed
        # values and is the same each time.
        identity = hashlib.sha256(f"{network.id} {container_id}".encode()).hexdigest()
        return Endpoint(identity, network.id, container_id, names=names, priority=priority, driver_opts=given)
    mac = mac_address(settings["MacAddress"]) if settings["MacAddress"] or not network.outsourced else ""
    interface = _interface(network, given, {each.interface for each in beside}, set(reserved))
    ipam = settings["IPAMConfig"] or {}
    link_local = _link_local(ipam.get("LinkLocalIPs") or ())
    wanted = {4: ipam.get("IPv4Address") or "", 6: ipam.get("IPv6Address") or "" if ipv6 else ""}
    taken: dict[int, tuple[str, int, str]] = {}  # address, prefix length, the pool's subnet
    try:
        for version, enabled in ((4, network.ipv4), (6, network.ipv6 and ipv6)):
            if assigned is not None:
                pool = next((pool.subnet for pool in network.pools if (":" in pool.subnet) == (version == 6)), "")
                if version in assigned:
                    taken[version] = *assigned[version], pool
            elif enabled and addresses.of(version):
                address, space = _address(network, addresses, version, wanted[version])
                taken[version] = address, space.subnet.bits, str(space.subnet)
            elif wanted[version]:
                raise _refused(wanted[version])
    except EngineError:
        if assigned is None:
            addresses.release(*(address for address, *_ in taken.values()))
        raise
    address4, prefix4, gateway4 = _placed(network, 4, taken)
    address6, prefix6, gateway6 = _placed(network, 6, taken)
    return Endpoint(
        id=os.urandom(32).hex(),
        network=network.id,
        container=container_id,
        mac=mac,
        ipv4=address4,
        prefix4=prefix4,
        gateway4=gateway4,
        ipv6=address6,
        prefix6=prefix6,
        gateway6=gateway6,
        interface=interface,
        host_interface=f"veth{os.urandom(4).hex()[:7]}" if network.driver == "bridge" else "",
        priority=priority,
        names=names,
        driver_opts=given,
        link_local=link_local,
    )


def interfaces_asked_for(wanted: Iterable[AskedEndpoint]) -> set[str]:
    """The interface names that a container's EndpointSettings ask for; no other endpoint of it may get one of them."""
    asked = ((settings["DriverOpts"] or {}).get(IFNAME) for settings in wanted)
    return {name for name in asked if name}


def outside(network: Network, ipam: IPAMConfig | None) -> list[str]:
    """The addresses in an IPAMConfig that are in none of the network's subnets, as docker's error texts; takes none.

    ipam: its addresses have been checked to be addresses of the right version
    """
    wrong = []
    given = ipam or {}
    for asked, enabled in ((given.get("IPv4Address"), network.ipv4), (given.get("IPv6Address"), network.ipv6)):
        if not asked:
            continue
        version, number = parse_address(asked)
        subnets = [Subnet.parse(pool.subnet) for pool in network.pools] if enabled else []
        if not any(subnet.version == version and number in subnet for subnet in subnets):
            wrong.append(_OUTSIDE.format(show_address(version, number)))
    return wrong


def _address(network: Network, addresses: Addresses, version: int, wanted: str) -> tuple[str, Space]:
    if wanted:
        wanted = canonical(wanted)
        if not any(space.holds(wanted) for space in addresses.of(version)):
            raise _refused(wanted)
    return addresses.take(version, wanted, f"{network.name} ({network.id})")


def _refused(address: str) -> Invalid:
    return Invalid(f"invalid endpoint settings:\n{_OUTSIDE.format(address)}")


def _placed(network: Network, version: int, taken: Mapping[int, tuple[str, int, str]]) -> tuple[str, int, str]:
    """An endpoint's address, prefix length and gateway for one version of IP; empty and 0 for none."""
    if version not in taken:
        return "", 0, ""
    address, bits, subnet = taken[version]
    leads_out = not network.internal and not gateways.without_gateway(network)
    return address, bits, _gateway(network, version, subnet) if leads_out else ""


def _gateway(network: Network, version: int, subnet: str) -> str:
    pool = next(pool for pool in network.pools if pool.subnet == subnet)
    return pool.aux.get(GATEWAYS[version]) or pool.gateway


def mac_address(asked: str) -> str:
    """A MAC address in its canonical text, a random one where none is asked for. Raises Invalid."""
    if not asked:
        first, *rest = os.urandom(6)
        return ":".join(f"{byte:02x}" for byte in (first & ~_MULTICAST | _LOCAL, *rest))
    digits = asked.lower().translate({ord(mark): None for mark in ":-."})
    if not _MAC.fullmatch(digits):
        raise Invalid(f"invalid MAC address: {asked}")
    return ":".join(digits[at : at + 2] for at in range(0, len(digits), 2))


def _link_local(asked: Iterable[str]) -> tuple[str, ...]:
    found = []
    for text in asked:
        try:
            version, number = parse_address(text)
        except ValueError:  # an address with a zone
            version, number = 6, 0
        if number not in LINK_LOCAL[version]:
            raise Invalid(f"invalid link local IP address: {text}")
        found.append(show_address(version, number))
    return tuple(found)


def _interface(network: Network, given: Mapping[str, str], taken: set[str], reserved: set[str]) -> str:
    """The interface's name in the container.

    Raises Invalid for a name that the kernel does not take, Forbidden for one in use.
    """
    name = given.get(IFNAME, "")
    if name:
        options.check_name(name)
        if name in taken:
            raise Forbidden(f'the container has an interface "{name}" already')
        return name
    prefix = options.prefix_of(network.options)
    number = 0
    while f"{prefix}{number}" in taken | reserved:
        number += 1
    return f"{prefix}{number}"
