"""Makes the records of the three predefined networks: `bridge`, out of the daemon's settings, `host` and `none`.

Runs in a request's thread, and changes neither the database nor the kernel. It is called at the first use of any
network after the daemon's start, again when the first container joins `bridge`, and at each use for as long as `bridge`
cannot be had.
"""

import itertools
import logging
import os
import socket
import time
from collections.abc import Iterable

from engine.daemon.network import pools
from engine.daemon.network.addresses import Subnet, parse_address, show_address
from engine.daemon.network.drivers import bridge
from engine.daemon.network.drivers.options import MTU
from engine.daemon.network.ipam import Space
from engine.daemon.network.joining import GATEWAYS
from engine.daemon.network.record import DEFAULT, Network, Pool
from engine.daemon.network.surroundings import Surroundings
from engine.dataclass import replace
from engine.errors import Conflict, EngineError, Invalid, SystemFailure
from engine.kernel import reasons
from engine.kernel.netlink import addresses
from engine.kernel.netlink.socket import Netlink
from engine.settings.every import Settings

log = logging.getLogger(__name__)

_DEVICE = "engine"  # followed by a number, as several engines may share a host
_DOCKERDS = "docker0"
_DRIVERS = {"host": "host", "none": "null"}


def networks(
    known: Iterable[Network], in_use: set[str], around: Surroundings, settings: Settings, engine_id: str
) -> tuple[list[Network], EngineError | None]:
    """The predefined networks as they are to be from now on, and the error that keeps `bridge` from its settings.

    known: all existing networks; in_use: the ids of those with endpoints, which are not changed
    The error is Invalid where the settings contradict each other or no subnet is free, Conflict where the settings want
    addresses of another network, SystemFailure where the bridge that they name does not exist. With an error the
    network stays as it was.
    """
    before = {network.name: network for network in known if network.builtin}
    wanted = [before.get(name) or _new(name, driver) for name, driver in _DRIVERS.items()]
    if settings.bridge == "none":
        return wanted, None
    old = before.get(DEFAULT)
    try:
        others = [network for network in known if network.name != DEFAULT]
        wanted.append(old if old and old.id in in_use else _bridge(old, others, around, settings, engine_id))
    except EngineError as error:
        return ([*wanted, old] if old else wanted), error
    return wanted, None


def _new(name: str, driver: str) -> Network:
    return Network(id=os.urandom(32).hex(), name=name, driver=driver, created_ns=time.time_ns())


def _bridge(
    old: Network | None, others: Iterable[Network], around: Surroundings, settings: Settings, engine_id: str
) -> Network:
    others = list(others)
    device = settings.bridge or _device(old, {network.device for network in others}, around, settings)
    taken = [Subnet.parse(pool.subnet) for network in others if not network.config_only for pool in network.pools]
    found = []
    for version in (4, 6) if settings.ipv6 else (4,):
        own, fixed, gateway = _asked(version, settings)
        if not own and settings.bridge:
            own = preferred(_addresses_of(device, version, fixed), fixed)
        elif not own:
            own = _previous(version, device, fixed, old, taken, around)
        found.append(_pool(version, (own, fixed, gateway), taken, around, settings, engine_id))
    return replace(
        old or _new(DEFAULT, "bridge"),
        device=device,
        ipv6=settings.ipv6,
        pools=tuple(found),
        options=_options(device, settings),
    )


def _device(old: Network | None, others: set[str], around: Surroundings, settings: Settings) -> str:
    """`docker0` for a daemon of dockerd's name, whoever made that.

    Otherwise, and where another network has it, the previous device's name, if it is an `engineN` that nothing else
    has; else the first free `engineN`. others: the devices of other networks
    """
    if settings.as_dockerd and _DOCKERDS not in others:
        return _DOCKERDS
    taken = others | around.devices
    if old is not None and old.device.startswith(_DEVICE) and old.device not in taken:
        return old.device
    return next(name for name in (f"{_DEVICE}{number}" for number in itertools.count()) if name not in taken)


def _options(device: str, settings: Settings) -> dict[str, str]:
    """The options of `bridge`, in the order in which dockerd shows them.

    The setting --default-network-opt does not count here: it is for networks that clients create.
    """
    return {
        bridge.DEFAULT_BRIDGE: "true",
        bridge.ICC: _word(settings.icc),
        bridge.MASQUERADE: _word(settings.ip_masq),
        bridge.HOST_BINDING: settings.ip,
        bridge.NAME: device,
        MTU: settings.mtu,
    }


def _word(value: bool) -> str:
    return "true" if value else "false"


def _asked(version: int, settings: Settings) -> tuple[str, str, str]:
    """The bridge's own address with its prefix length, the containers' range, their gateway; each empty for none."""
    if version == 4:
        return settings.bip, settings.fixed_cidr, settings.default_gateway
    return settings.bip6, settings.fixed_cidr_v6, settings.default_gateway_v6


def _previous(
    version: int, device: str, fixed: str, old: Network | None, taken: list[Subnet], around: Surroundings
) -> str:
    """The address with prefix length that the engine's own bridge has or had, if it may stay; else empty.

    That is an address of a `docker0` that is there, or that of the network as it was. As with dockerd it stays when the
    address pools change, and a range of containers outside of it puts an end to it, or enlarges its subnet.
    """
    there = _addresses_of(device, version, fixed) if device == _DOCKERDS and device in _links() else []
    given = [each for each in there if not _overlaps(each, taken)]
    if not given and old is not None:
        had = (f"{pool.gateway}/{pool.subnet.partition('/')[2]}" for pool in old.pools if pool.gateway)
        busy = [*taken, *around.near, *around.far]
        given = [each for each in had if (":" in each) == (version == 6) and not _overlaps(each, busy)]
    found = preferred(given, fixed)
    if not found or not fixed:
        return found
    inner, outer = Subnet.parse(fixed), Subnet.parse(found)
    if inner.first not in outer:
        return ""
    return f"{found.partition('/')[0]}/{min(inner.bits, outer.bits)}"


def _overlaps(text: str, others: Iterable[Subnet]) -> bool:
    subnet = Subnet.parse(text)
    return any(subnet.overlaps(other) for other in others)


def _links() -> set[str]:
    """The names of the host's links."""
    return {name for _, name in socket.if_nameindex()}


def preferred(given: list[str], fixed: str) -> str:
    """The address of an existing bridge that the network goes by, as dockerd chooses it; empty where it has none.

    given: its addresses with their prefix lengths; fixed: the containers' range, empty for none. It is the first whose
    subnet holds the range's beginning, else the first within the range, else the first.
    """
    if fixed:
        within = Subnet.parse(fixed)
        for each in given:
            if within.first in Subnet.parse(each):
                return each
        for each in given:
            if parse_address(each.partition("/")[0])[1] in within:
                return each
    return given[0] if given else ""


def _addresses_of(device: str, version: int, fixed: str) -> list[str]:
    """The addresses with prefix lengths of an existing bridge. fixed: the containers' range, empty for none

    Raises SystemFailure where the bridge does not exist.
    """
    try:
        index = socket.if_nametoindex(device)
        with Netlink() as netlink:
            here = [each for each in addresses.addresses(netlink) if each.link == index]
    except OSError as error:
        raise SystemFailure(
            f"bridge device with non default name {device} must be created manually: {reasons.whole(error)}"
        ) from error
    found = [(each, parse_address(each.address)) for each in here]
    # Every link has an address of this subnet, which is a network's only where the containers have theirs there.
    local = version == 6 and not (fixed and Subnet.parse(fixed).first in bridge.LINK_LOCAL)
    usable = (each for each, (of, number) in found if of == version and not (local and number in bridge.LINK_LOCAL))
    return [f"{each.address}/{each.prefix}" for each in usable]


def _pool(
    version: int,
    asked: tuple[str, str, str],
    taken: list[Subnet],
    around: Surroundings,
    settings: Settings,
    engine_id: str,
) -> Pool:
    own, fixed, gateway = asked
    inner = Subnet.parse(fixed) if fixed else None
    if own:
        subnet, address = Subnet.parse(own), own.partition("/")[0]
    elif inner is not None:
        subnet, address = inner, ""
    else:
        sources = pools.sources(settings.default_address_pools, engine_id)
        subnet, address = pools.choose(sources, version, taken, around), ""
    if inner is not None and not (inner.version == version and inner.first in subnet and inner.last in subnet):
        _pass_over(version, fixed, subnet, settings)
        inner = None
    if own or inner is not None:
        _check_overlap(subnet, taken)
    aux = {GATEWAYS[version]: gateway} if gateway else {}
    pool = Pool(str(subnet), str(inner) if inner is not None else "", address or _first(subnet), {})
    return _checked(replace(pool, aux={} if gateway == pool.gateway else aux))


def _pass_over(version: int, fixed: str, subnet: Subnet, settings: Settings) -> None:
    """Warn of a range of IPv4 outside of a given bridge's subnet, as dockerd does. Raises Invalid for all others."""
    if not settings.bridge:
        raise Invalid(f"the range {fixed} of the default network is not within {subnet}")
    words = "is outside any subnet implied by addresses on the user-managed default bridge"
    if version == 6:
        raise Invalid(f"fixed-cidr-v6={fixed} {words}")
    log.warning("fixed-cidr=%s %s; containers get addresses of all of %s", fixed, words, subnet)


def _check_overlap(subnet: Subnet, taken: list[Subnet]) -> None:
    for other in taken:
        if subnet.overlaps(other):
            raise Conflict(f"the default network's subnet {subnet} overlaps {other}, which another network has")


def _first(subnet: Subnet) -> str:
    return show_address(subnet.version, subnet.first + 1 if subnet.size > 2 else subnet.first)


def _checked(pool: Pool) -> Pool:
    try:
        Space(pool)
    except EngineError as error:
        raise Invalid(f"the addresses of the default network contradict each other: {error}") from error
    return pool
