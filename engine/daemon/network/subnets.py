"""Checks a client's IPAM.Config, and completes it to a new network's pools: subnets, ranges and gateways.

Pure; runs in the daemon's request threads. dockerd reports all errors of a configuration at once, and so does `read`.
Overlaps with other networks are found after that, by `allocated`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from engine.daemon.network import pools
from engine.daemon.network.addresses import Subnet, canonical, parse_address
from engine.daemon.network.ipam import Space
from engine.daemon.network.record import Network, Pool
from engine.daemon.network.surroundings import Surroundings
from engine.dataclass import replace
from engine.errors import EngineError, Forbidden, Invalid


class _NoSubnet(Subnet):
    """What netip has in the place of an empty subnet: nothing is in it, and its version counts as 4."""

    def __str__(self) -> str:
        return "invalid Prefix"


_NONE = _NoSubnet(4, 0, 0)
_MOST = 256
_OVERLAP = "invalid pool request: Pool overlaps with other one on this address space"


def read(config: Iterable[Mapping[str, Any] | None], ipv6: bool) -> tuple[Pool, ...]:
    """IPAM.Config as pools, IPv4's first. Raises Invalid.

    A subnet may be empty, where nothing is asked in it, or be zeros with only a length. The decoding of the body has
    checked that all texts are prefixes and addresses.
    """
    found, wrong = [], []
    config = list(config)
    if len(config) > _MOST:  # each pool is compared with each
        raise Invalid(f"invalid network config:\nmore than {_MOST} subnets")
    for entry in config:
        entry = entry or {}
        aux = {name: _plain(address) for name, address in (entry.get("AuxiliaryAddresses") or {}).items() if address}
        gateway = _plain(entry["Gateway"]) if entry.get("Gateway") else ""
        pool = Pool(entry.get("Subnet") or "", entry.get("IPRange") or "", gateway, aux)
        if ipv6 or ":" not in pool.subnet:
            wrong += _wrong(pool)
        found.append(pool)
    if wrong:
        text = wrong[0] if len(wrong) == 1 else "\n".join(f"* {each}" for each in wrong)
        raise Invalid(f"invalid network config:\n{text}")
    return tuple(sorted(found, key=lambda pool: ":" in pool.subnet))


def _plain(address: str) -> str:
    """An address in its canonical text. Raises Invalid for one with a zone, which no address of a network has."""
    try:
        return canonical(address)
    except ValueError as error:
        raise Invalid(f"invalid network config:\ninvalid address {address}: {error}") from None


def _wrong(pool: Pool) -> list[str]:
    """All errors of one entry that need no look at others."""
    subnet = Subnet.parse(pool.subnet) if pool.subnet else _NONE
    wrong = []
    if pool.subnet and _shown(pool.subnet) != str(subnet):
        wrong.append(f"invalid subnet {_shown(pool.subnet)}: it should be {subnet}")
    if pool.ip_range:
        wrong += [f"invalid ip-range {_shown(pool.ip_range)}: {each}" for each in _wrong_range(pool.ip_range, subnet)]
    if pool.gateway:
        wrong += [f"invalid gateway {pool.gateway}: {each}" for each in _wrong_address(pool.gateway, subnet)]
    for name, address in pool.aux.items():
        wrong += [f"invalid auxiliary address {name}: {each}" for each in _wrong_address(address, subnet)]
    return wrong


def _shown(prefix: str) -> str:
    """A prefix in canonical text, with the bits after the prefix unchanged."""
    address, _, bits = prefix.partition("/")
    return f"{canonical(address)}/{int(bits)}"


def _wrong_range(text: str, subnet: Subnet) -> list[str]:
    inner = Subnet.parse(text)
    if inner.version != subnet.version:
        return [f"parent subnet is an IPv{subnet.version} block"]
    wrong = []
    if inner.bits < subnet.bits:
        wrong.append(f"CIDR block is bigger than its parent subnet {subnet}")
    if _shown(text) != str(inner):
        wrong.append(f"it should be {inner}")
    if subnet is _NONE or not inner.overlaps(subnet):
        wrong.append(f"parent subnet {subnet} doesn't contain ip-range")
    return wrong


def _wrong_address(text: str, subnet: Subnet) -> list[str]:
    version, number = parse_address(text)
    if version != subnet.version:
        return [f"parent subnet is an IPv{subnet.version} block"]
    return [] if subnet is not _NONE and number in subnet else [f"parent subnet {subnet} doesn't contain this address"]


def allocated(
    network: Network,
    known: Iterable[Network],
    sources: Iterable[pools.Source],
    around: Surroundings,
    gateways: tuple[bool, bool],
) -> tuple[Pool, ...]:
    """The complete pools of a network: each with a subnet that overlaps no other, and with its gateway. Those that were
    asked for stand before those that are chosen here.

    gateways: whether an IPv4 pool, and an IPv6 pool, gets a gateway where the client named none
    Raises Forbidden for an overlap, Invalid where no subnet is left, EngineError for addresses that are not possible.
    """
    if network.ipam_driver == "null":
        return _without_addresses(network)
    taken = [Subnet.parse(pool.subnet) for other in known if not other.config_only for pool in other.pools]
    found: list[Pool] = []
    chosen: list[Pool] = []
    for version, enabled, needed in ((4, network.ipv4, gateways[0]), (6, network.ipv6, gateways[1])):
        asked = [pool for pool in network.pools if (":" in pool.subnet) == (version == 6)]
        for pool in (asked or [Pool("")]) if enabled else ():
            pool = _placed(pool, version, taken, sources, around)
            taken.append(Subnet.parse(pool.subnet))
            (found if asked else chosen).append(_with_gateway(pool, needed))
    return (*found, *chosen)


def _without_addresses(network: Network) -> tuple[Pool, ...]:
    if any(pool.subnet for pool in network.pools):
        raise Invalid("null ipam driver does not handle specific address pool requests")
    for version, enabled in ((4, network.ipv4), (6, network.ipv6)):
        if enabled:
            raise Invalid(f"ipv{version} pool is empty")
    return ()


def _placed(
    pool: Pool, version: int, taken: list[Subnet], sources: Iterable[pools.Source], around: Surroundings
) -> Pool:
    subnet = Subnet.parse(pool.subnet) if pool.subnet else Subnet(version, 0, 0)
    if subnet.first == 0:  # zeros: only the length counts
        if pool.ip_range:
            raise EngineError("failed to parse pool request: invalid address subpool")
        return replace(pool, subnet=str(pools.choose(sources, version, taken, around, subnet.bits)))
    if any(subnet.overlaps(other) for other in taken):
        raise Forbidden(_OVERLAP)
    inner = str(Subnet.parse(pool.ip_range)) if pool.ip_range else ""
    return replace(pool, subnet=str(subnet), ip_range=inner)


def _with_gateway(pool: Pool, needed: bool) -> Pool:
    space = Space(replace(pool, gateway="", aux={}))
    gateway = pool.gateway
    if gateway:
        try:
            space.take(gateway)
        except EngineError as error:
            raise EngineError(f"failed to allocate gateway ({gateway}): {error}") from error
    elif needed:
        gateway = space.take_lowest() or ""
        if not gateway:
            raise EngineError("failed to allocate gateway (): no available addresses on this pool")
    for name, address in pool.aux.items():
        try:
            space.take(address)
        except EngineError as error:
            raise EngineError(f"failed to allocate secondary ip address ({name}:{address}): {error}") from error
    return replace(pool, gateway=gateway)
