"""A network's device on the host (a bridge, or the parent link of macvlan and ipvlan): made, completed and removed.

Runs in the daemon's request threads, one at a time for each network (see `wiring`). A device that the engine made
carries its mark, the alias `engine:<id of the network>`. A device that something else made is used as it is and never
removed.
"""

import logging
import os
from collections.abc import Iterable

from engine.daemon.network.addresses import Subnet, parse_address
from engine.daemon.network.drivers import bridge, options, parents
from engine.daemon.network.record import Endpoint, Network
from engine.dataclass import replace
from engine.errors import SystemFailure
from engine.kernel import modprobe, reasons
from engine.kernel.netlink import addresses, links
from engine.kernel.netlink.links import Link
from engine.kernel.netlink.socket import Netlink

log = logging.getLogger(__name__)

_MARK = "engine:"
_SYSCTLS = "/proc/sys/net/ipv6/conf"
_LOCAL_MAC = 0x02


def stands(network: Network) -> bool:
    """Whether the network's device exists, and is up if it is a bridge; this costs one ioctl."""
    with Netlink() as netlink:
        if network.driver == "bridge":
            return links.is_up(netlink, network.device)
        return bool(links.index_of(netlink, network.device))


def make(network: Network) -> bool:
    """Make the network's device, or complete an existing one; True when it did not exist.

    Raises SystemFailure, and Invalid for a parent link that cannot be used.
    """
    modprobe.stand_in(modprobe.LINKS.get(network.driver, ()))
    try:
        with Netlink() as netlink:
            if network.driver == "bridge":
                return _make_bridge(netlink, network)
            return parents.make(netlink, network, mark(network))
    except OSError as error:
        raise SystemFailure(f"the interface {network.device} cannot be made: {reasons.of(error)}") from error


def attach(network: Network, endpoints: Iterable[Endpoint]) -> bool:
    """Make the host's ends of running containers' veth pairs ports of a bridge that was made anew.

    Returns whether there are any such ends. Raises SystemFailure.
    """
    try:
        with Netlink() as netlink:
            master = links.index_of(netlink, network.device)
            there = {link.name: link for link in links.every(netlink)}
            ends = [there[end.host_interface] for end in endpoints if end.host_interface in there]
            requests = [links.change(end.index, master=master, up=True) for end in ends if end.master != master]
            if requests:
                netlink.send(requests)
            return bool(ends)
    except OSError as error:
        raise SystemFailure(f"containers cannot be attached to {network.device} again: {reasons.of(error)}") from error


def remove(network: Network, others: Iterable[Network]) -> None:
    """Remove the device, if the engine made it for this network. Raises SystemFailure.

    A device that another network uses too (a VLAN) is kept and gets that network's mark.
    """
    heirs = [other for other in others if other.device == network.device and other.id != network.id]
    try:
        with Netlink() as netlink:
            found = links.find(netlink, network.device)
            if found is None or found.alias != mark(network):
                return
            if heirs:
                netlink.send((links.change(found.index, alias=mark(heirs[0])),))
            else:
                links.discard(netlink, network.device)
    except OSError as error:
        raise SystemFailure(f"the interface {network.device} cannot be removed: {reasons.of(error)}") from error


def marked() -> set[str]:
    """The ids of the networks, of whatever engine, for which the links of this host were made. Raises SystemFailure."""
    try:
        with Netlink() as netlink:
            aliases = [link.alias for link in links.every(netlink)]
    except OSError as error:
        raise SystemFailure(f"the host's interfaces cannot be listed: {reasons.of(error)}") from error
    return {alias.removeprefix(_MARK) for alias in aliases if alias.startswith(_MARK)}


def mark(network: Network) -> str:
    """The alias that marks a link which the engine made for this network."""
    return _MARK + network.id


def belongs_to_another(network: Network, found: Link) -> bool:
    """Whether a link was made for another network, by another daemon on this host or by an earlier one."""
    return found.alias.startswith(_MARK) and found.alias != mark(network)


def idle_bridges(present: Iterable[Link], ours: Iterable[int]) -> set[int]:
    """The indexes of bridges that another engine made, and that have no container.

    present: all links of the host; ours: the indexes of this engine's own
    """
    every = list(present)
    marked = {link.index for link in every if link.kind == "bridge" and link.alias.startswith(_MARK)}
    return marked - {link.master for link in every} - set(ours)


def _make_room(netlink: Netlink, network: Network) -> None:
    """Remove idle bridges of engines that have this network's addresses, which were chosen in spite of them.

    One of this engine's own is that of the network under another name, as the daemon's own name says it.
    """
    every = list(links.every(netlink))
    idle = idle_bridges(every, ())
    subnets = [Subnet.parse(pool.subnet) for pool in network.pools]
    for each in addresses.addresses(netlink):
        around = Subnet.around(*parse_address(each.address), each.prefix)
        if each.link in idle and any(around.overlaps(own) for own in subnets):
            name = next(link.name for link in every if link.index == each.link)
            log.info("removing the idle bridge %s of another engine: network %s has its addresses", name, network.name)
            links.discard(netlink, name)
            idle.remove(each.link)


def _make_bridge(netlink: Netlink, network: Network) -> bool:
    mtu = options.mtu_of(network.options)
    found = links.find(netlink, network.device)
    made = found is None
    if found is None:
        _make_room(netlink, network)
        found = _new_bridge(netlink, network, mtu)
    found = _own_bridge(netlink, network, found)
    if made or found.alias == mark(network):
        _keep_apart(network)
    requests = []
    if mtu and found.mtu != mtu:
        requests.append(links.change(found.index, mtu=mtu))
    there = {(each.address, each.prefix) for each in addresses.addresses(netlink) if each.link == found.index}
    wanted = set(bridge.addresses(network))
    own6 = {address for address, _ in wanted if ":" in address}  # the length of its prefix says little once it is there
    if network.builtin and found.alias == mark(network):
        # The default network gets other addresses, while no container is in it, when the host now reaches its subnet
        # elsewhere.
        stale = {pair for pair in there - wanted if not _of_every_link(pair[0]) and pair[0] not in own6}
        requests += [addresses.remove(found.index, address, bits) for address, bits in sorted(stale)]
    known = {address for address, _ in there}
    missing = (pair for pair in wanted - there if not (pair[0] in own6 and pair[0] in known))
    requests += [addresses.add(found.index, address, bits) for address, bits in sorted(missing)]
    if not found.up:
        requests.append(links.change(found.index, up=True))
    if requests:
        netlink.send(requests)
    return made


def _of_every_link(address: str) -> bool:
    """Whether it is an address that the kernel gives to every link."""
    version, number = parse_address(address)
    return version == 6 and number in bridge.LINK_LOCAL


def _new_bridge(netlink: Netlink, network: Network, mtu: int) -> Link:
    """Make a bridge, down, with the network's mark."""
    mac = bytes((_LOCAL_MAC,)) + os.urandom(5)
    netlink.send(links.bridge(network.device, mac.hex(":"), mtu, mark(network)))
    found = links.find(netlink, network.device)
    if found is None:
        raise SystemFailure(f"the bridge {network.device} was removed while it was made")
    return found


def _own_bridge(netlink: Netlink, network: Network, found: Link) -> Link:
    """The bridge that was found, which the default network takes over from an engine that has left it behind empty."""
    if found.kind != "bridge":
        raise SystemFailure(f"the interface {network.device} exists and is not a bridge")
    if not belongs_to_another(network, found):
        return found
    if not network.builtin or found.index not in idle_bridges(links.every(netlink), ()):
        other = found.alias.removeprefix(_MARK)
        raise SystemFailure(f"the bridge {network.device} belongs to another network: {other[:12]}")
    netlink.send((links.change(found.index, alias=mark(network)),))
    return replace(found, alias=mark(network))


def _keep_apart(network: Network) -> None:
    """Keep containers from becoming the host's router, and from reaching the host by IPv6 where the network has none.

    The first is CVE-2020-13401.
    """
    _set(network.device, "accept_ra", "0")
    _set(network.device, "disable_ipv6", "0" if network.ipv6 else "1")


def _set(device: str, name: str, value: str) -> None:
    try:
        with open(f"{_SYSCTLS}/{device}/{name}", "wb", buffering=0) as file:
            file.write(value.encode())
    except FileNotFoundError:
        pass  # a kernel without IPv6; it refuses the address of a network that wants IPv6
