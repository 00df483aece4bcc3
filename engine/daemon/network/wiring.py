"""Networks' devices on the host, and the wires from them into containers; all of it made through netlink.

Runs in the daemon's request threads. This much is loaded in an idle daemon; what speaks to the kernel is loaded with
the first container that has an endpoint. A lock for each network guards the making and the removing of its device (the
firewall's is taken under it); plugging takes none, the kernel refuses what cannot be. One more, under which no other is
taken, guards what is remembered of all of them. It knows networks, endpoints and descriptors of network namespaces,
never containers, and writes no row.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from engine.daemon import locks
from engine.daemon.network.record import Endpoint, Network, Pair
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded with the first container that has an endpoint
    from engine.daemon.network import devices, plugging
else:
    devices = late("engine.daemon.network.devices")
    plugging = late("engine.daemon.network.plugging")


class Wiring:
    """The wires of one daemon. opened: is told of each device that is new to it, before anybody is plugged in there"""

    def __init__(self, opened: Callable[[Network], None] = lambda _: None) -> None:
        self._opened = opened
        self._lock = locks.Lock("wiring")
        self._making: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._known: set[str] = set()
        self._announce: Callable[[str, str, tuple[str, ...]], None] | None = None  # see `plugging.announcer`
        # Of networks whose bridge this daemon has made: each address that somebody has had there since.
        self._had: dict[str, set[str]] = {}

    def ensure(self, network: Network) -> bool:
        """The network's device is there, up, with its addresses and its MTU; cheap where it is so already.

        True when this daemon sees the device for the first time, or has made it (again) just now. Raises SystemFailure,
        Invalid in docker's words, and what `opened` raises; then the next call does it all again.
        """
        if not network.wired:
            return False
        with self._guard(network):
            if network.id in self._known and devices.stands(network):
                return False
            self._known.discard(network.id)
            if devices.make(network):
                with self._lock:
                    self._had.setdefault(network.id, set())
            self._opened(network)
            self._known.add(network.id)
            return True

    def attach(self, network: Network, endpoints: Iterable[Endpoint]) -> None:
        """After `ensure` was True: make the wires of endpoints that run ports of this bridge, where they are not.

        Raises SystemFailure.
        """
        if network.driver == "bridge" and devices.attach(network, endpoints):
            with self._lock:
                self._had.pop(network.id, None)  # they may know addresses of before

    def remove(self, network: Network, others: Iterable[Network] = ()) -> None:
        """Take the network's device away, if it is one that this engine made and none of `others` hangs on it too.

        Raises SystemFailure.
        """
        if not network.wired:
            return
        with self._guard(network):
            self._known.discard(network.id)
            devices.remove(network, others)
        with self._lock:
            self._making.pop(network.id, None)
            self._had.pop(network.id, None)

    def plug(self, pairs: Sequence[Pair], netns: int, others: Sequence[Pair] = ()) -> tuple[Endpoint, ...]:
        """Make the interfaces of these endpoints in the network namespace behind a descriptor, in their order.

        others: what the container has already, for a hot plug; the default routes become those of all together
        Returns the endpoints with the names of their interfaces. Raises SystemFailure, and then none of it is there.
        """
        with self._lock:
            if self._announce is None:
                self._announce = plugging.announcer()
        wired = _wired(pairs)
        made = {}
        if wired:
            unheard = self._unheard(wired)
            made = {end.id: end for end in plugging.plug(wired, netns, _wired(others), self._announce, unheard)}
        return tuple(made.get(endpoint.id, endpoint) for _, endpoint in pairs)

    def _unheard(self, pairs: Iterable[Pair]) -> set[str]:
        """The endpoints whose addresses nobody has had before: a broadcast, which all get, would tell nothing."""
        found = set()
        with self._lock:
            for network, endpoint in pairs:
                had = self._had.get(network.id)
                addresses = {endpoint.ipv4, endpoint.ipv6} - {""}
                if had is not None:
                    if not addresses & had:
                        found.add(endpoint.id)
                    had |= addresses
        return found

    def silence(self, endpoints: Iterable[Endpoint]) -> None:
        """Let a container that has ended be heard no more, before its addresses are given to others.

        Its namespace goes when the kernel comes to it, some 30 ms later, and would answer until then; to wait for that,
        or to remove the wire, would take as long. Raises SystemFailure.
        """
        plugging.silence(endpoints)

    def remaining(self, names: Iterable[str]) -> list[str]:
        """Those of these wires that are there. Raises SystemFailure."""
        return plugging.remaining(names)

    def discard(self, names: Iterable[str]) -> None:
        """Take away these wires of containers that have ended, those that are there. Raises SystemFailure."""
        plugging.discard(names)

    def unplug(self, network: Network, endpoint: Endpoint, netns: int | None, others: Sequence[Pair] = ()) -> None:
        """Take the interface away; it is no failure that it is gone. others: what stays in the container

        netns: of a container that runs on; None where only the host's end is known. Raises SystemFailure.
        """
        if not network.wired:
            return
        plugging.unplug(network, endpoint, netns, _wired(others))

    def _guard(self, network: Network) -> threading.Lock:
        with self._lock:
            return self._making[network.id]


def _wired(pairs: Sequence[Pair]) -> list[Pair]:
    return [pair for pair in pairs if pair[0].wired]
