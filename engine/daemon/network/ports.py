"""Chooses the host's ports for published container ports, and holds each one by a bound socket.

Runs in the daemon's threads, under a lock of its own, which is held over nothing slower than bind(2). No data is ever
read from these sockets: the firewall leads what comes to a port to the container. The socket makes sure that no other
program takes the port, and that two which want the same one get an error. The sockets are closed with the daemon, and
the next daemon binds them again.
"""

import errno
import itertools
import logging
import os
import socket
from collections.abc import Iterable, Iterator, Mapping

from engine.daemon import locks
from engine.daemon.network.record import Network, PortRequest, Published
from engine.errors import NotBuilt, SystemFailure
from engine.late import TYPE_CHECKING, late
from engine.settings.every import Settings

if TYPE_CHECKING:  # loaded with the first container of a bridge
    from engine.daemon.network.drivers import bridge
else:
    bridge = late("engine.daemon.network.drivers.bridge")

log = logging.getLogger(__name__)

_ANY = {4: "0.0.0.0", 6: "::"}
_KINDS = {
    "tcp": (socket.SOCK_STREAM, socket.IPPROTO_TCP),
    "udp": (socket.SOCK_DGRAM, socket.IPPROTO_UDP),
    "sctp": (socket.SOCK_STREAM, 132),
}
_MAPPED = ("nat", "nat-unprotected")
_RANGE = "/proc/sys/net/ipv4/ip_local_port_range"

Place = tuple[str, str, int]
"""Protocol, address and port of the host."""

_Wish = tuple[int, int, str, tuple[tuple[str, bool], ...]]
"""What makes two requests want one of the same ports: first and last one, protocol, addresses as of `_addresses`."""


def _family(address: str) -> int:
    return 6 if ":" in address else 4


class Ports:
    """The host's ports that a daemon's containers hold.

    settings: `iptables`, `ip6tables`: the families for which the daemon may have firewall rules
    """

    def __init__(self, settings: Settings) -> None:
        self._rules = {4: settings.iptables, 6: settings.ip6tables}
        self._lock = locks.Lock("ports")
        self._held: dict[str, dict[Place, socket.socket | None]] = {}
        self._by_number: dict[tuple[str, int], set[str]] = {}
        self._last = 0

    def reserve(self, container_id: str, network: Network, wanted: Iterable[PortRequest]) -> tuple[Published, ...]:
        """Hold a port of the host for each request, all or none; in the order of `wanted`, IPv4's first.

        Empty for a network that publishes nothing (internal, or not a bridge). In a routed network the ports are the
        container's own: `host_port` is 0, and nothing is held. Raises SystemFailure in docker's words where a port is
        taken, NotBuilt for an address of a family that the network does not have or the daemon has no rules for.
        """
        if network.driver != "bridge" or network.internal:
            return ()
        has = {4: network.ipv4, 6: network.ipv6}
        modes = {family: has[family] and self._rules[family] and bridge.mode(network, family) for family in has}
        published: list[Published] = []
        taken: dict[Place, socket.socket | None] = {}
        tried: dict[_Wish, int] = {}
        with self._lock:
            room = _room() - sum(map(len, self._held.values()))
            try:
                for request in wanted:
                    if len(taken) >= room:
                        raise SystemFailure(
                            "too many published ports: each takes an open file of the daemon, and the limit is reached"
                        )
                    if "routed" in modes.values():
                        published.append(Published(request.container_port, request.protocol, "", 0))
                    addresses = _addresses(network, modes, request)
                    if addresses:
                        port = self._choose(request, addresses, taken, tried)
                        published += [
                            Published(request.container_port, request.protocol, address, port)
                            for address, _ in addresses
                            if (request.protocol, address, port) in taken
                        ]
            except BaseException:
                self._let_go(taken)
                raise
            if taken:
                self._held.setdefault(container_id, {}).update(taken)
        return tuple(published)

    def release(self, container_id: str) -> None:
        """Release all ports that the container holds."""
        with self._lock:
            self._let_go(self._held.pop(container_id, {}))

    def adopt(self, container_id: str, published: Iterable[Published]) -> None:
        """Hold again the ports of a running container; one that another program has taken meanwhile is logged."""
        with self._lock:
            held = self._held.setdefault(container_id, {})
            for port in published:
                place = (port.protocol, port.host_ip, port.host_port)
                if not port.host_port or place in held:
                    continue
                try:
                    self._take(place, held)
                except OSError as error:
                    log.warning("container %s: %s", container_id, _in_use(place, error))
                    self._note(place, None, held)

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
                        if needed or error.errno not in _NO_SUCH_FAMILY:
                            raise SystemFailure(_in_use(place, error)) from error
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
        any_address = _ANY[_family(address)]
        for other in self._by_number.get((protocol, port), ()):
            if _family(other) == _family(address) and (other == address or any_address in (other, address)):
                raise SystemFailure(f"Bind for {_with_port(address, port)} failed: port is already allocated")
        self._note(place, _bound(place), held)

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


def _room() -> int:
    """How many ports may be held. The rest of the daemon's open files is for its other work."""
    import resource  # loaded with the first port

    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return limit // 4 * 3 if limit != resource.RLIM_INFINITY else _UNLIMITED


_UNLIMITED = 1 << 20
_NO_SUCH_FAMILY = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)


def _addresses(network: Network, modes: Mapping[int, str | bool], request: PortRequest) -> list[tuple[str, bool]]:
    """The addresses to bind a port at, each with whether that must succeed.

    IPv6 may fail where the client did not ask for it, as the host may have none. Without an address in the request it
    is the network's `host_binding_ipv4`; where that is any address of one family, any address of the other family is
    added.
    """
    if request.host_ip:
        family = _family(request.host_ip)
        if not modes[family]:
            raise _impossible(network, request, family)
        _refuse_loopback6(request, request.host_ip)
        return [(request.host_ip, True)] if modes[family] in _MAPPED else []
    default = network.options.get(bridge.HOST_BINDING) or _ANY[4]
    _refuse_loopback6(request, default)
    named = [*_ANY.values()] if default in _ANY.values() else [default]
    if not any(modes[_family(address)] for address in named):
        raise _impossible(network, request, _family(named[0]))
    mapped = [address for address in named if modes[_family(address)] in _MAPPED]
    return [(address, address != _ANY[6] or len(mapped) == 1) for address in mapped]


def _refuse_loopback6(request: PortRequest, address: str) -> None:
    if address == "::1":
        port = f"{request.container_port}/{request.protocol}"
        raise NotBuilt(
            f"port {port} cannot be published on ::1: the kernel cannot forward connections to ::1 to a container"
        )


def _impossible(network: Network, request: PortRequest, family: int) -> NotBuilt:
    has = network.ipv6 if family == 6 else network.ipv4
    option = "ip6tables" if family == 6 else "iptables"
    reason = f"the daemon runs with --{option}=false" if has else f"network {network.name} has no IPv{family}"
    return NotBuilt(
        f"port {request.container_port}/{request.protocol} cannot be published over IPv{family}: {reason}, and this "
        "engine has no userland proxy to publish it instead"
    )


def _with_port(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _in_use(place: Place, error: OSError) -> str:
    protocol, address, port = place
    words = (os.strerror(error.errno) if error.errno else str(error)).lower()
    return f"failed to bind host port {_with_port(address, port)}/{protocol}: {words}"


def _bound(place: Place) -> socket.socket | None:
    """A socket that holds the port. Raises OSError, mostly EADDRINUSE.

    None for SCTP where the kernel has no such sockets: then no program of the host can have that port.
    """
    protocol, address, port = place
    try:
        return _bind(protocol, address, port, again=False)
    except OSError as error:
        if protocol == "sctp" and error.errno in (errno.EPROTONOSUPPORT, errno.ESOCKTNOSUPPORT):
            return None
        if protocol != "tcp" or error.errno != errno.EADDRINUSE:
            raise
    # Perhaps only old connections of that port are in TIME_WAIT, which SO_REUSEADDR ignores.
    return _bind(protocol, address, port, again=True)


def _bind(protocol: str, address: str, port: int, *, again: bool) -> socket.socket:
    kind, number = _KINDS[protocol]
    bound = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind | socket.SOCK_CLOEXEC, number)
    try:
        if ":" in address:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if again:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if protocol == "udp":
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 0)  # datagrams that arrive here are never read
        bound.bind((address, port))
        if again:
            # Only a listening socket keeps out other programs that set SO_REUSEADDR. No connection is ever accepted.
            bound.listen(0)
    except BaseException:
        bound.close()
        raise
    return bound
