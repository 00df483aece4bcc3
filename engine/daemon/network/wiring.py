"""The entry to network devices and container interfaces: takes the locks, calls `devices` and `plugging`, keeps track.

Runs in the daemon's request threads. A wire is the link of one endpoint, with the driver bridge a veth pair from the
bridge into the container. An idle daemon has loaded only this module: `devices` and `plugging`, which speak to the
kernel over netlink, are loaded with the first container that has an endpoint. A lock for each network guards the making
and removing of its device (the firewall's lock is taken under it). Plugging takes no lock, as the kernel refuses what
is not possible. One more lock, under which no other is taken, guards what is remembered of all networks. This module
knows networks, endpoints and descriptors of network namespaces, but no containers, and writes no row.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from engine.daemon import locks
from engine.daemon.network.record import Endpoint, Network, Pair
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded with the first container that has an endpoint
    from engine.daemon.network import announcing, devices, plugging
else:
    announcing = late("engine.daemon.network.announcing")
    devices = late("engine.daemon.network.devices")
    plugging = late("engine.daemon.network.plugging")


class Wiring:
    """The wires of one daemon.

    opened: called for each device that is new to this daemon, before any endpoint is plugged in there
    """

    def __init__(self, opened: Callable[[Network], None] = lambda _: None) -> None:
        self._opened = opened
        self._lock = locks.Lock("wiring")
        self._making: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._known: set[str] = set()
        self._announcing: Callable[[Network, Endpoint], None] | None = None  # see `announcing.Announce`
        # By the id of a network whose bridge this daemon has made: each address that an endpoint has had there since.
        self._had: dict[str, set[str]] = {}

    def ensure(self, network: Network) -> bool:
        """Make sure that the network's device exists, is up, and has its addresses and MTU; cheap if it has already.

        True when this daemon sees the device for the first time, or has just made it (again). Raises SystemFailure,
        Invalid in docker's words, and what `opened` raises. After an error the next call does all of it again.
        """
        if not network.wired or network.outsourced:
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

    def knows(self, network: Network) -> bool:
        """Whether this daemon has seen the network's device; it need not be there any more."""
        return network.id in self._known

    def made(self, networks: Iterable[Network]) -> list[Network]:
        """Those networks whose device this daemon has seen, or an earlier one has made. Raises SystemFailure."""
        marked = devices.marked()
        return [network for network in networks if network.id in self._known | marked]

    def attach(self, network: Network, endpoints: Iterable[Endpoint]) -> None:
        """After `ensure` was True: make the wires of running endpoints ports of this bridge, where they are not.

        Raises SystemFailure.
        """
        if network.driver == "bridge" and devices.attach(network, endpoints):
            with self._lock:
                self._had.pop(network.id, None)  # these containers may know earlier addresses

    def remove(self, network: Network, others: Iterable[Network] = ()) -> None:
        """Remove the network's device, if this engine made it and none of `others` uses it too.

        Raises SystemFailure.
        """
        if not network.wired or network.outsourced:
            return
        with self._guard(network):
            self._known.discard(network.id)
            devices.remove(network, others)
        with self._lock:
            self._making.pop(network.id, None)
            self._had.pop(network.id, None)

    def plug(self, pairs: Sequence[Pair], netns: int, others: Sequence[Pair] = ()) -> tuple[Endpoint, ...]:
        """Make the interfaces of these endpoints in the network namespace behind a descriptor, in their order.

        others: the container's existing endpoints, for a hot plug; the default routes are chosen among all of them
        Returns the endpoints with the names of their interfaces. Raises SystemFailure, and then has made none of it.
        """
        announce = self._announcer()
        wired = _wired(pairs)
        made = {}
        if wired:
            unheard = self._unheard(wired)
            made = {end.id: end for end in plugging.plug(wired, netns, _wired(others), announce, unheard)}
        return tuple(made.get(endpoint.id, endpoint) for _, endpoint in pairs)

    def announce(self, pairs: Iterable[Pair]) -> None:
        """Tell the neighbours of running endpoints where their addresses are. Raises SystemFailure."""
        for network, endpoint in pairs:
            if network.driver in ("bridge", "macvlan"):
                self._announcer()(network, endpoint)

    def _announcer(self) -> "announcing.Announce":
        """Made once for the life of the daemon."""
        with self._lock:
            if self._announcing is None:
                self._announcing = announcing.Announcer().announce
            return self._announcing

    def _unheard(self, pairs: Iterable[Pair]) -> set[str]:
        """The endpoints whose addresses no endpoint had before.

        A broadcast to their neighbours would tell nothing new.
        """
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
        """Disable the bridge ports of a container that has ended, before its addresses are given to others.

        The kernel removes the container's network namespace some 30 ms later, and the namespace would answer until
        then. To wait for that, or to remove the wire, would take as long. Raises SystemFailure.
        """
        plugging.silence(endpoints)

    def remaining(self, names: Iterable[str]) -> list[str]:
        """Those of these wires that still exist, by the names of the host's ends. Raises SystemFailure."""
        return plugging.remaining(names)

    def discard(self, names: Iterable[str]) -> None:
        """Remove those of these wires that still exist; their containers have ended. Raises SystemFailure."""
        plugging.discard(names)

    def unplug(self, network: Network, endpoint: Endpoint, netns: int | None, others: Sequence[Pair] = ()) -> None:
        """Remove the interface; it is no error if it is gone. others: the endpoints that stay in the container

        netns: of a container that goes on running; None where only the host's end is known. Raises SystemFailure.
        """
        if not network.wired:
            return
        plugging.unplug(network, endpoint, netns, _wired(others))

    def _guard(self, network: Network) -> threading.Lock:
        with self._lock:
            return self._making[network.id]


def _wired(pairs: Sequence[Pair]) -> list[Pair]:
    return [pair for pair in pairs if pair[0].wired]
