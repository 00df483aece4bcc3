"""Chooses the host's ports for published container ports, and holds each one by a bound socket.

Runs in the daemon's threads, under a lock of its own, which is held over nothing slower than bind(2). The daemon reads
no data from these sockets: the firewall or the userland proxy leads what comes to a port to the container (see
`publishing`). The socket makes sure that no other program takes the port, and that two which want the same one get an
error. The sockets that the proxy serves are its own too. All others are closed with the daemon, and the next daemon
binds them again.
"""

import itertools
import logging
import os
import socket
from collections.abc import Collection, Iterable, Iterator, Mapping

from engine.annotating import Protocol
from engine.daemon import locks
from engine.daemon.network.record import Endpoint, Network, PortRequest, Published
from engine.daemon.runtime.monitors import Monitors
from engine.daemon.runtime.spawner import Spawner
from engine.dataclass import replace
from engine.errors import SystemFailure, Unavailable
from engine.kernel import outside
from engine.late import TYPE_CHECKING, late
from engine.settings.every import Settings
from engine.wire import endpoint as sockets

if TYPE_CHECKING:  # loaded with the first container of a bridge, and with the first port
    from engine.daemon.network import binding, proxying, publishing
    from engine.wire import leads
else:
    binding = late("engine.daemon.network.binding")
    proxying = late("engine.daemon.network.proxying")
    publishing = late("engine.daemon.network.publishing")
    leads = late("engine.wire.leads")

log = logging.getLogger(__name__)

_RANGE = "/proc/sys/net/ipv4/ip_local_port_range"

Place = tuple[str, str, int]
"""Protocol, address and port of the host."""

Through = Collection[tuple[Network, Collection[int]]]
"""The networks that ports are to be published through, each with the versions of IP (see `gateways`)."""

_Wish = tuple[int, int, str, tuple[tuple[str, bool], ...]]
"""What makes two requests want one of the same ports: first and last one, protocol, `publishing.addresses`."""


class _Proxying(Protocol):
    """The part of `proxying.Proxying` that is used here; that module is loaded with the first port that needs it."""

    def lead(self, run: "proxying.Run") -> None: ...

    def drop(self, container: str, places: Collection[Place] | None = None) -> None: ...

    def inherit(self) -> dict[str, dict[Place, socket.socket]]: ...

    def drop_the_rest(self) -> None: ...

    def shown(self) -> str: ...


class Ports:
    """The host's ports that a daemon's containers hold.

    settings: `iptables`, `ip6tables`: the families for which the daemon may have firewall rules; `userland_proxy`
    spawner: starts the proxy; links: watches the link to it for its end
    """

    def __init__(self, settings: Settings, spawner: Spawner, links: Monitors) -> None:
        # Rules are for the network that the daemon lives in. If that is not the host's, none leads from the host.
        self._ruled = outside.is_here()
        self._rules = {4: settings.iptables and self._ruled, 6: settings.ip6tables and self._ruled}
        # There the proxy can do what rules do elsewhere: let containers see who asks.
        transparent = not self._ruled and settings.iptables and settings.ip6tables
        self._made = settings.exec_root, spawner, links, transparent
        self._may_proxy = settings.userland_proxy
        self._proxying: _Proxying | None = None
        self._lock = locks.Lock("ports")
        self._held: dict[str, dict[Place, socket.socket | None]] = {}
        self._by_number: dict[tuple[str, int], set[str]] = {}
        self._last = 0

    def reserve(
        self, container_id: str, through: Through, wanted: Iterable[PortRequest]
    ) -> dict[str, tuple[Published, ...]]:
        """Hold a port of the host for each request, all or none: network's id → its ports in docker's order.

        Requests that differ in nothing but the host's address get the same port where that can be, in all networks.
        Where a network routes a version of IP, the ports are the container's own: `host_port` is 0, and nothing is
        held; these come last. Raises SystemFailure in docker's words where a port is taken, Unavailable for an address
        from which neither the firewall nor the proxy may lead to the container.
        """
        published: dict[str, list[Published]] = {network.id: [] for network, _ in through}
        own: dict[str, list[Published]] = {network.id: [] for network, _ in through}
        taken: dict[Place, socket.socket | None] = {}
        tried: dict[_Wish, int] = {}
        with self._lock:
            room = _room() - sum(map(len, self._held.values()))
            try:
                for group in _groups(wanted):
                    if len(taken) >= room:
                        raise SystemFailure(
                            "too many published ports: each takes an open file of the daemon, and the limit is reached"
                        )
                    request = group[0]
                    addresses: dict[str, tuple[bool, str]] = {}
                    for each in group:
                        mapped, routed = self._places(each, through)
                        addresses |= mapped
                        for address, network_id in routed:
                            own[network_id].append(Published(each.container_port, each.protocol, address, 0))
                    if addresses:
                        at = [(address, needed) for address, (needed, _) in addresses.items()]
                        port = self._choose(request, at, taken, tried)
                        for address in sorted(addresses, key=publishing.order_of):
                            if (request.protocol, address, port) in taken:
                                made = Published(request.container_port, request.protocol, address, port)
                                published[addresses[address][1]].append(made)
            except BaseException:
                self._let_go(taken)
                raise
            if taken:
                self._held.setdefault(container_id, {}).update(taken)
        return {network_id: (*ports, *own[network_id]) for network_id, ports in published.items()}

    def _places(
        self, request: PortRequest, through: Through
    ) -> tuple[dict[str, tuple[bool, str]], list[tuple[str, str]]]:
        """Where a request is to be published, each address with its network's id. Raises Unavailable if nowhere.

        First those of the host, with whether there must be a port there; then those of networks that route.
        """
        mapped: dict[str, tuple[bool, str]] = {}
        routed = []
        problem = None
        for network, versions in through:
            try:
                found = publishing.addresses(network, versions, self._rules, self._may_proxy, request)
                mapped |= {address: (needed, network.id) for address, needed in found}
            except Unavailable as error:  # another network may do
                problem = problem or error
            routed += [(each, network.id) for each in publishing.routed(network, versions, self._rules, request)]
        if problem is not None and not mapped and not routed:
            raise problem
        return mapped, routed

    def release(self, container_id: str, ports: Iterable[Published] | None = None) -> None:
        """Release these ports of the container, or all that it holds."""
        places = None if ports is None else {_place(port) for port in ports}
        if self._proxying is not None:
            self._proxying.drop(container_id, places)
        with self._lock:
            held = self._held.pop(container_id, {})
            staying = {place: held[place] for place in held if places is not None and place not in places}
            self._let_go({place: held[place] for place in held if place not in staying})
            if staying:
                self._held[container_id] = staying

    def lead(self, endpoints: Collection[Endpoint], pid: int, pid_start: int, ruled: Collection[int]) -> None:
        """Have the userland proxy carry those of a container's ports that the firewall does not carry.

        endpoints: all that it has; pid, pid_start: of its process 1; ruled: the versions of IP for which the firewall
        has rules
        Raises SystemFailure, Unavailable.
        """
        known = [endpoint for endpoint in endpoints if endpoint.ports]
        wanted = [each for one in known for each in publishing.proxied(one, ruled if self._ruled else ())]
        if not wanted:
            return
        if not self._may_proxy:  # only ::1 is left out, or what a daemon with other settings has published
            return
        container = known[0].container
        with self._lock:
            held = dict(self._held.get(container, {}))
        leading = {}
        for port, address in wanted:
            place = _place(port)
            sock = held.get(place)
            if sock is not None:  # else another program has taken it, which was logged
                try:
                    binding.ready(place, sock)
                except OSError as error:
                    raise SystemFailure(binding.in_use(place, error)) from error
                leading[place] = sock, leads.Lead(port.protocol, address, port.container_port)
        if leading:
            self._proxy().lead(proxying.Run(container, pid, pid_start, leading))

    def adopt(self, published: Mapping[str, Iterable[Published]]) -> None:
        """At the daemon's start: hold again the ports of running containers; the caller calls `lead` for each next.

        The sockets of an earlier daemon's proxy are taken over. A port that another program has taken meanwhile is
        logged. published: by the containers' ids
        """
        inherited: Mapping[str, dict[Place, socket.socket]] = {}
        if os.path.exists(os.path.join(self._made[0], sockets.PROXY)):
            inherited = self._proxy().inherit()
        with self._lock:
            for container_id, ports in published.items():
                held = self._held.setdefault(container_id, {})
                for port in ports:
                    place = _place(port)
                    if not port.host_port or place in held:
                        continue
                    known = inherited.get(container_id, {}).pop(place, None)
                    try:
                        if known is not None:
                            self._note(place, known, held)
                        else:
                            self._take(place, held)
                    except OSError as error:
                        log.warning("container %s: %s", container_id, binding.in_use(place, error))
                        self._note(place, None, held)
        for container_id, others in inherited.items():
            if others or container_id not in published:
                # The earlier daemon died between two steps. These ports must be free before they are published anew.
                self._proxy().drop(container_id)
            for sock in others.values():
                sock.close()

    def adopted(self) -> None:
        """After the calls of `lead` at the daemon's start: what the proxy serves beside that ends."""
        if self._proxying is not None:
            self._proxying.drop_the_rest()

    def shown(self) -> str:
        """The state of the userland proxy in words, for an operator who inspects the daemon; takes no lock."""
        return "not started" if self._proxying is None else self._proxying.shown()

    def _proxy(self) -> "_Proxying":
        with self._lock:
            if self._proxying is None:
                self._proxying = proxying.Proxying(*self._made)
            return self._proxying

    def _choose(
        self,
        request: PortRequest,
        addresses: list[tuple[str, bool]],
        taken: dict[Place, socket.socket | None],
        tried: dict[_Wish, int],
    ) -> int:
        """Take the first port that is free at all these addresses. Raises SystemFailure.

        tried: for each wish, the last port that an earlier request with the same wish got
        """
        problem = None
        same = request.first, request.last, request.protocol, tuple(addresses)
        for port in self._candidates(request, tried.get(same, 0)):
            got: dict[Place, socket.socket | None] = {}
            try:
                for address, needed in addresses:
                    place = (request.protocol, address, port)
                    try:
                        self._take(place, got)
                    except OSError as error:
                        if needed or error.errno not in binding.NO_SUCH_FAMILY:
                            raise SystemFailure(binding.in_use(place, error)) from error
            except SystemFailure as error:
                self._let_go(got)
                problem = problem or error
                continue
            taken.update(got)
            tried[same] = port
            if not request.first:
                self._last = port
            return port
        if not request.first:
            raise SystemFailure("all ports are allocated") from problem
        raise problem or SystemFailure("invalid port range")

    def _candidates(self, request: PortRequest, after: int) -> Iterator[int]:
        if request.first:
            last = max(request.first, request.last)
            return iter(range(max(request.first, min(after + 1, last)), last + 1))
        with open(_RANGE) as file:
            first, last = (int(number) for number in file.read().split())
        begin = self._last + 1 if first <= self._last < last else first
        return itertools.chain(range(begin, last + 1), range(first, begin))

    def _take(self, place: Place, held: dict[Place, socket.socket | None]) -> None:
        """Hold one port. Raises SystemFailure where a container has it, OSError where another program has it."""
        protocol, address, port = place
        for other in self._by_number.get((protocol, port), ()):
            if publishing.overlap(other, address):
                raise SystemFailure(f"Bind for {binding.with_port(address, port)} failed: port is already allocated")
        self._note(place, binding.bound(place), held)

    def _note(self, place: Place, bound: socket.socket | None, held: dict[Place, socket.socket | None]) -> None:
        protocol, address, port = place
        self._by_number.setdefault((protocol, port), set()).add(address)
        held[place] = bound

    def _let_go(self, held: dict[Place, socket.socket | None]) -> None:
        for (protocol, address, port), bound in held.items():
            addresses = self._by_number.get((protocol, port), set())
            addresses.discard(address)
            if not addresses:
                self._by_number.pop((protocol, port), None)
            if bound is not None:
                bound.close()


def _place(port: Published) -> Place:
    return port.protocol, port.host_ip, port.host_port


def _groups(wanted: Iterable[PortRequest]) -> Iterator[list[PortRequest]]:
    """The requests, those together that differ in the host's address alone and can all have one port of the host."""
    group: list[PortRequest] = []
    for request in wanted:
        named = group and group[0].host_ip and request.host_ip
        alike = named and replace(request, host_ip=group[0].host_ip) == group[0]
        if not alike or any(publishing.overlap(each.host_ip, request.host_ip) for each in group):
            if group:
                yield group
            group = []
        group.append(request)
    if group:
        yield group


def _room() -> int:
    """How many ports may be held. The rest of the daemon's open files is for its other work."""
    import resource  # loaded with the first port

    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return limit // 4 * 3 if limit != resource.RLIM_INFINITY else _UNLIMITED


_UNLIMITED = 1 << 20
