"""Makes and removes the interface of an endpoint in a container's network namespace: link, addresses, sysctls, routes.

Runs in the daemon's request threads. It works in two network namespaces, with a netlink socket for each. The thread
itself is in the container's meanwhile, as it writes kernel parameters there. A running container may change its own
interfaces at the same time: nothing here trusts what it finds in the container, and none of that affects the host.
"""

import contextlib
import errno
import json
import logging
import os
from collections.abc import Container, Iterable, Iterator, Sequence

from engine.daemon.network import gateways
from engine.daemon.network.announcing import Announce
from engine.daemon.network.drivers import endpointoptions, ipvlan, macvlan, options
from engine.daemon.network.record import ROUTES, SOURCE, Endpoint, Network, Pair
from engine.dataclass import replace
from engine.errors import SystemFailure
from engine.kernel import netns, reasons
from engine.kernel.netlink import addresses, links
from engine.kernel.netlink.message import Request
from engine.kernel.netlink.socket import Netlink, Refused

log = logging.getLogger(__name__)

_MOST_NAMES = 1024
# The link is gone meanwhile, or is no longer a port of its bridge.
_GONE = (errno.ENODEV, errno.EINVAL, errno.EOPNOTSUPP, errno.ENETDOWN)
_IPV6 = os.path.exists("/proc/net/if_inet6")
_LINK_LOCAL_BITS = {False: 16, True: 64}


def plug(
    pairs: Sequence[Pair], namespace: int, others: Sequence[Pair], announce: Announce, unheard: Container[str]
) -> tuple[Endpoint, ...]:
    """Make the interfaces of these endpoints, in their order, and then the default routes; all of it or nothing.

    others: what the container has already; unheard: ids of endpoints whose addresses no neighbour can know yet
    Returns the endpoints with the names of their interfaces. Raises SystemFailure.
    """
    done: list[Pair] = []
    before = gateways.choose_gateways(others)
    routed = False
    with _both(namespace) as (host, inside):
        try:
            for network, endpoint in pairs:
                done.append((network, _plug(host, inside, network, endpoint, namespace, _names((*others, *done)))))
            routed = True
            try:
                _route(inside, (*others, *done), before, replaces=not others)
            except OSError as error:
                raise SystemFailure(f"failed to set gateway: {reasons.of(error)}") from error
            for network, endpoint in done:
                if network.driver == "bridge" and endpoint.id not in unheard:
                    announce(network, endpoint)
            for _, endpoint in done:
                if endpoint.ipv6:
                    addresses.settle(inside, endpoint.ipv6)
        except BaseException as error:
            for network, endpoint in done:
                _undo(host, inside, network, endpoint, _names(others))
            if routed:
                _route_back(inside, others, (*others, *done))
            if isinstance(error, OSError):
                raise SystemFailure(f"the container's networks cannot be set up: {reasons.of(error)}") from error
            raise
    return tuple(endpoint for _, endpoint in done)


def unplug(network: Network, endpoint: Endpoint, namespace: int | None, others: Sequence[Pair]) -> None:
    """Remove the interface, and set the default routes for `others`, the endpoints that stay. Raises SystemFailure.

    A route that cannot be set is logged: the container may have made its gateway unreachable itself.
    namespace: None where only the host's end of the veth pair is known; the kernel removes the container's end with it
    """
    try:
        if namespace is None:
            if endpoint.host_interface:
                with Netlink() as host:
                    links.discard(host, endpoint.host_interface)
            return
        with _both(namespace) as (host, inside):
            _remove(host, inside, network, endpoint, _names(others))
            _route_back(inside, others, (*others, (network, endpoint)))
    except OSError as error:
        what = f"the interface {endpoint.interface} of network {network.name}"
        raise SystemFailure(f"{what} cannot be removed: {reasons.of(error)}") from error


def silence(endpoints: Iterable[Endpoint]) -> None:
    """Disable the bridge ports of a container that has ended, so that they pass nothing more. Raises SystemFailure."""
    try:
        with Netlink() as host:
            found = (links.index_of(host, endpoint.host_interface) for endpoint in endpoints if endpoint.host_interface)
            requests = [links.silence(index) for index in found if index]
            if requests:
                host.send(requests)
    except OSError as error:
        if error.errno not in _GONE:
            raise SystemFailure(f"the container's bridge ports cannot be disabled: {reasons.of(error)}") from error


def remaining(names: Iterable[str]) -> list[str]:
    """Those of these host's ends that still exist. Raises SystemFailure."""
    try:
        with Netlink() as host:
            return [name for name in names if links.index_of(host, name)]
    except OSError as error:
        raise SystemFailure(f"the containers' veth links cannot be listed: {reasons.of(error)}") from error


def discard(names: Iterable[str]) -> None:
    """Remove these host's ends of veth pairs, if they exist. Raises SystemFailure."""
    try:
        with Netlink() as host:
            for name in names:
                links.discard(host, name)
    except OSError as error:
        raise SystemFailure(f"the containers' veth links cannot be removed: {reasons.of(error)}") from error


@contextlib.contextmanager
def _both(namespace: int) -> Iterator[tuple[Netlink, Netlink]]:
    """Netlink sockets of the host's and of the container's network namespace, with the thread in the container's."""
    with Netlink() as host, netns.entered(namespace), Netlink() as inside:
        yield host, inside


def _names(pairs: Iterable[Pair]) -> set[str]:
    return {endpoint.interface for _, endpoint in pairs}


def _plug(
    host: Netlink, inside: Netlink, network: Network, endpoint: Endpoint, namespace: int, taken: set[str]
) -> Endpoint:
    """Make one interface, or nothing. taken: names of the interfaces of the container's other endpoints"""
    if network.outsourced and not endpoint.driver_opts.get(SOURCE):
        return endpoint  # its driver gives it no interface
    name = _free_name(inside, endpoint, taken)
    endpoint = replace(endpoint, interface=name)
    if network.outsourced:
        return _take_in(host, inside, endpoint, network, namespace)
    parent = links.index_of(host, network.device)
    if not parent:
        raise SystemFailure(f"the interface {network.device} of network {network.name} is gone")
    made = False
    try:
        host.send(_make(network, endpoint, parent, namespace))
        made = True
        if endpoint.ports and endpoint.host_interface:
            # The container may connect to its own published port. Its packets then leave the bridge by the port that
            # they came from.
            host.send((links.hairpin(links.index_of(host, endpoint.host_interface)),))
        _set_parameters(network, endpoint)
        inside.send(_configure(network, endpoint, links.index_of(inside, name)))
        if endpoint.host_interface:
            links.settle(host, endpoint.host_interface)
    except BaseException as error:
        # The first request makes the interface. Where that one was refused as the name is taken, the interface is not
        # ours.
        if made or (isinstance(error, Refused) and error.index):
            _undo(host, inside, network, endpoint, taken)
        if isinstance(error, OSError):
            raise SystemFailure(_refused(network, endpoint, error)) from error
        raise
    return endpoint


def _take_in(host: Netlink, inside: Netlink, endpoint: Endpoint, network: Network, namespace: int) -> Endpoint:
    """Move the interface that a plugin has made into the container's namespace, and configure it."""
    source = endpoint.driver_opts[SOURCE]
    index = links.index_of(host, source)
    if not index:
        raise SystemFailure(f"the interface {source} of network {network.name}, which its driver named, is not there")
    try:
        host.send((links.change(index, up=False), links.move(index, endpoint.interface, namespace, endpoint.mac)))
    except OSError as error:
        raise SystemFailure(_refused(network, endpoint, error)) from error
    try:
        index = links.index_of(inside, endpoint.interface)
        _set_parameters(network, endpoint)
        inside.send(_configure(network, endpoint, index))
        for address, bits, hop in json.loads(endpoint.driver_opts[ROUTES]):
            inside.send((addresses.route(index, hop, subnet=(address, bits)),))
    except BaseException as error:
        with contextlib.suppress(OSError):  # the first error is the one to report
            _take_out(inside, endpoint)
        if isinstance(error, OSError):
            raise SystemFailure(_refused(network, endpoint, error)) from error
        raise
    return endpoint


def _take_out(inside: Netlink, endpoint: Endpoint) -> None:
    """Remove a plugin's interface; a device of the host goes back, under the name that it had there.

    A container can make links of every kind, and no link of its making is to get to the host. It can make no device.
    """
    found = links.find(inside, endpoint.interface)
    if found is None:
        return
    if found.kind:
        links.discard(inside, found.name)
        return
    namespace = os.open(f"/proc/{os.getpid()}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        source = endpoint.driver_opts[SOURCE]
        inside.send((links.change(found.index, up=False), links.move(found.index, source, namespace)))
    finally:
        os.close(namespace)


def _free_name(inside: Netlink, endpoint: Endpoint, taken: set[str]) -> str:
    """The name that the endpoint asks for, or the next free number where the container uses that name itself.

    Raises SystemFailure where the client has fixed the name.
    """
    wanted = endpoint.interface or "eth0"
    if wanted not in taken and not links.index_of(inside, wanted):
        return wanted
    if endpointoptions.IFNAME not in endpoint.driver_opts:
        stem = wanted.rstrip("0123456789")
        for number in range(_MOST_NAMES):
            name = f"{stem}{number}"
            if name not in taken and not links.index_of(inside, name):
                return name
    raise SystemFailure(f"the container has an interface {wanted} already")


def _make(network: Network, endpoint: Endpoint, index: int, namespace: int) -> list[Request]:
    """The requests that make the interface, down, in the container's namespace. index: of the network's device"""
    mtu = options.mtu_of(network.options)
    name = endpoint.interface
    if network.driver == "macvlan":
        return [links.macvlan(name, index, macvlan.mode(network), endpoint.mac, mtu, namespace)]
    if network.driver == "ipvlan":
        return [links.ipvlan(name, index, ipvlan.mode(network), ipvlan.flag(network), mtu, namespace)]
    # The host's neighbour table may still have the MAC address of the container that had the address before.
    known = [addresses.neighbour(index, address, endpoint.mac) for address in (endpoint.ipv4, endpoint.ipv6) if address]
    pair = links.veth(endpoint.host_interface, index, mtu, name, endpoint.mac, namespace, ipv6=_IPV6)
    return [*pair, *known]


def _set_parameters(network: Network, endpoint: Endpoint) -> None:
    """Write the interface's kernel parameters before it is up; the thread is in the container's network namespace."""
    name = endpoint.interface
    wanted = [(f"net/ipv6/conf/{name}/disable_ipv6", "0" if endpoint.ipv6 else "1")]
    if endpoint.ipv6 and network.driver == "bridge":
        # The daemon sets this network's routes. A router advertisement on the bridge comes from a neighbour that lies.
        wanted.append((f"net/ipv6/conf/{name}/accept_ra", "0"))
    elif endpoint.ipv6:
        wanted.append((f"net/ipv6/conf/{name}/ndisc_notify", "1"))
    for path, value in (*wanted, *endpointoptions.sysctls(endpoint.driver_opts, name)):
        try:
            with open(f"/proc/sys/{path}", "wb", buffering=0) as file:
                file.write(value.encode())
        except FileNotFoundError:
            if value != "1" or not path.endswith("/disable_ipv6"):  # else this kernel has no IPv6 to disable
                raise


def _configure(network: Network, endpoint: Endpoint, index: int) -> list[Request]:
    """The requests that give a new interface its addresses and bring it up."""
    requests = []
    if network.driver != "bridge":
        requests.append(links.change(index, announce=True))
    if endpoint.ipv4:
        requests.append(addresses.add(index, endpoint.ipv4, endpoint.prefix4))
    if endpoint.ipv6:
        requests.append(addresses.add(index, endpoint.ipv6, endpoint.prefix6))
    for address in endpoint.link_local:
        requests.append(addresses.add(index, address, _LINK_LOCAL_BITS[":" in address]))
    return [*requests, links.change(index, up=True)]


def _route(
    inside: Netlink,
    pairs: Sequence[Pair],
    before: tuple[Endpoint | None, Endpoint | None],
    *,
    replaces: bool = True,
) -> None:
    """Set the default routes that differ from those before.

    A route that is no longer wanted went with its interface. replaces: also a route that no endpoint has had, which is
    then the container's own; without it the kernel refuses (EEXIST). Raises OSError.
    """
    bare = {endpoint.id for network, endpoint in pairs if gateways.without_gateway(network)}
    requests = []
    for ipv6, (chosen, earlier) in enumerate(zip(gateways.choose_gateways(pairs), before, strict=True)):
        if chosen is None or (earlier is not None and earlier.id == chosen.id):
            continue
        gateway = chosen.gateway6 if ipv6 else chosen.gateway4
        index = links.index_of(inside, chosen.interface)
        replaced = replaces or earlier is not None
        where = "" if chosen.id in bare else gateway
        requests.append(addresses.route(index, where, ipv6=bool(ipv6), replaces=replaced))
    if requests:
        inside.send(requests)


def _route_back(inside: Netlink, pairs: Sequence[Pair], before: Iterable[Pair]) -> None:
    """Set the default routes for the endpoints that stay. before: those that there were"""
    try:
        _route(inside, pairs, gateways.choose_gateways(before))
    except OSError as error:
        log.warning("the default route of container %s could not be moved: %s", pairs[0][1].container, error)


def _undo(host: Netlink, inside: Netlink, network: Network, endpoint: Endpoint, staying: set[str]) -> None:
    with contextlib.suppress(OSError):  # the first error is the one to report
        _remove(host, inside, network, endpoint, staying)


def _remove(host: Netlink, inside: Netlink, network: Network, endpoint: Endpoint, staying: set[str]) -> None:
    """Remove the interface. staying: names of the interfaces of the container's other endpoints"""
    if network.outsourced:
        if endpoint.driver_opts.get(SOURCE):
            _take_out(inside, endpoint)
        return
    if endpoint.host_interface:
        links.discard(host, endpoint.host_interface)
        return
    # The container may have renamed the interface. So this removes every link on this parent that belongs to no other
    # endpoint.
    parent = links.index_of(host, network.device)
    for link in links.every(inside):
        theirs = link.name in staying and link.name != endpoint.interface
        if link.kind == network.driver and link.parent == parent and not theirs:
            links.discard(inside, link.name)


def _refused(network: Network, endpoint: Endpoint, error: OSError) -> str:
    if error.errno == errno.EOPNOTSUPP and network.driver != "bridge":
        return f"the kernel of this host does not support {network.driver} links"
    return f"the interface {endpoint.interface} of network {network.name} cannot be made: {reasons.of(error)}"
