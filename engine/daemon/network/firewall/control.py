"""Changes the engine's nf_tables table in the kernel: opens networks, publishes ports, makes all of it anew.

Runs in the daemon, on any thread. The object remembers what the table is to hold (the model), so that a table which
another program has flushed is made again in one transaction. Its lock is held around one transaction with the kernel
and the host's sysctls that go with it (see `forwarding`). The lock comes after every other lock, and no lock is taken
under it. Nothing is made before the first network is opened, and no other program's table is ever touched. An idle
daemon has loaded only this module: the modules that write rules are imported with the first rule.
"""

import contextlib
import errno
import logging
from binascii import crc32
from collections.abc import Iterable, Iterator
from string import hexdigits

from engine.daemon import locks
from engine.daemon.network.record import Endpoint, Network
from engine.daemon.runtime.background import Turn
from engine.errors import SystemFailure, Unavailable
from engine.kernel import reasons
from engine.late import TYPE_CHECKING, late
from engine.settings.every import Settings
from engine.settings.network import mark

if TYPE_CHECKING:  # the modules that speak to the kernel are loaded with the first rule
    from engine.daemon.network import publishing
    from engine.daemon.network.firewall import absence, forwarding, rules, table
    from engine.kernel.netlink import conntrack, nftables, socket
    from engine.kernel.netlink.message import Request
else:
    publishing = late("engine.daemon.network.publishing")
    absence = late("engine.daemon.network.firewall.absence")
    forwarding = late("engine.daemon.network.firewall.forwarding")
    rules = late("engine.daemon.network.firewall.rules")
    table = late("engine.daemon.network.firewall.table")
    conntrack = late("engine.kernel.netlink.conntrack")
    nftables = late("engine.kernel.netlink.nftables")
    socket = late("engine.kernel.netlink.socket")

log = logging.getLogger(__name__)

_IPV4, _IPV6 = 2, 10
# The kernel's errors for a table that is not as the daemon left it.
_CHANGED = (errno.ENOENT, errno.EEXIST, errno.EBUSY)
_NO_SUCH_PART = (errno.EPROTONOSUPPORT, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOENT)
_FORGET_PORTS = 64


def _digits(engine_id: str) -> str:
    """The first 8 digits of a UUID; 8 others for an id that an administrator has chosen, which may be any text."""
    first = engine_id[:8]
    return first if len(first) == 8 and not first.strip(hexdigits) else f"{crc32(engine_id.encode()):08x}"


class Firewall:
    """The firewall of one daemon.

    engine_id: the daemon's; its table is `inet engine-` and 8 digits of it, see `_digits`
    settings: `iptables`, `ip6tables` (may it have rules for IPv4, IPv6), `ip_forward` (may it switch forwarding on),
        `ip_forward_no_drop` (without the guard that keeps the host from forwarding for others), `userland_proxy`,
        `allow_direct_routing`, `bridge_accept_fwmark`

    On a kernel without nf_tables there is no table. The model is kept all the same, so that the table can be made once
    the kernel has nf_tables, and what depends on rules is refused (see `absence`).
    """

    def __init__(self, engine_id: str, settings: Settings) -> None:
        self.table = f"engine-{_digits(engine_id)}"
        self._settings = settings
        self._lock = locks.Lock("firewall")
        self._there = False
        self._networks: dict[str, Network] = {}
        self._endpoints: dict[str, tuple[Network, Endpoint]] = {}
        self._links: dict[tuple[str, str], list[nftables.Element]] = {}
        self._guards: dict[int, list[int]] | None = None
        self._loopback: set[str] = set()
        self._tables: socket.Netlink | None = None
        self._connections: socket.Netlink | None = None
        self._forgetting = Turn("connections")
        self._looked = False
        self._ours = False  # this daemon has made what the table holds
        self._works: bool | None = None  # whether the kernel has nf_tables; None: no network has needed it yet

    def open_network(self, network: Network) -> None:
        """Add the rules of a network whose bridge has just been made (again): masquerade, isolation, internal, icc.

        Does nothing for drivers other than `bridge`. Switches the host's forwarding on where the network needs it.
        Raises SystemFailure, and Unavailable when the kernel lacks a needed part.
        """
        if network.driver != "bridge" or not self._families():
            return
        with self._lock, self._failing():
            self._open(network)

    def families(self) -> tuple[int, ...]:
        """The versions of IP, 4 and 6, for which there are rules, or will be with the first network."""
        if self._works is False:
            return ()
        return tuple(4 if family == _IPV4 else 6 for family in self._families())

    def missing(self) -> str:
        """What this kernel lacks for a firewall, and the way out, in words; empty where nothing is missing, or where
        the settings want no rules. It asks the kernel, if no network has needed a rule yet.
        """
        if not self._families():
            return ""
        with self._lock:
            try:
                self._look()
            except OSError:  # a network that needs the firewall will tell
                return ""
        return "" if self._works else absence.WORDS

    def close_network(self, network: Network) -> None:
        """Remove the network's rules, if it is open. The table is deleted with the last network.

        An earlier daemon's table is deleted too, where this daemon has opened no network yet: it may hold rules of this
        network, and no running container needs it, or else `sync` would have been called. Raises SystemFailure.
        """
        with self._lock, self._failing():
            known = self._networks.pop(network.id, None)
            if self._families():
                self._look()
            if self._works is False:
                return
            if known is None:
                if network.driver == "bridge" and self._families() and not self._ours:
                    self._drop_the_last_daemons(network)
                return
            self._loopback.discard(network.id)
            for endpoint_id in [each for each, (of, _) in self._endpoints.items() if of.id == network.id]:
                self._forget(endpoint_id)
            if self._networks:
                self._rebuild()
            else:
                self._drop({known.device})

    def publish(self, network: Network, endpoint: Endpoint) -> None:
        """Forward the host's ports in `endpoint.ports` to the container, and no others that it had.

        Raises SystemFailure; Unavailable when the daemon may have no rules.
        """
        if not endpoint.ports and endpoint.id not in self._endpoints:
            return
        elements = self._port_elements(network, endpoint)
        with self._lock, self._failing():
            if self._families():
                self._look()
            self._check_ports(network, endpoint)
            if not self._families():
                return
            if network.id not in self._networks:
                self._open(network)
            before = self._endpoints.get(endpoint.id)
            old = set(self._port_elements(*before) if before else ()).difference(elements)
            self._endpoints[endpoint.id] = (network, endpoint)
            try:
                self._admit_loopback(network, endpoint)
                gone = nftables.delete_elements(self.table, old)
                self._change([*gone, *nftables.new_elements(self.table, elements)])
            except BaseException:
                if before is None:
                    del self._endpoints[endpoint.id]
                else:  # the transaction was refused as a whole
                    self._endpoints[endpoint.id] = before
                    self._there = False
                raise
        # A client that sends UDP datagrams to the port already has a tracked connection that leads nowhere. It is
        # deleted, so that the next datagram reaches the container. Of a wide range, to which hardly a client sends
        # beforehand, only the first ports.
        udp = [port for port in endpoint.ports if port.protocol == "udp" and port.host_port][:_FORGET_PORTS]
        if udp and self._works:
            places = [(rules.family_of(port.host_ip), rules.PROTOCOLS["udp"], port.host_port) for port in udp]
            self._forgetting.add(self._forget_connections, [conntrack.to_port(*place) for place in places])

    def withdraw(self, network: Network, endpoint: Endpoint) -> None:
        """Remove the endpoint's published ports and links, if it has any. A failure is logged and not raised."""
        with self._lock:
            known = endpoint.id in self._endpoints
            if not known and not any(endpoint.id in pair for pair in self._links):
                return
            elements = self._port_elements(*self._endpoints[endpoint.id]) if known else []
            elements += self._forget(endpoint.id)
            try:
                with self._failing():
                    self._change(nftables.delete_elements(self.table, elements))
            except SystemFailure as error:
                log.warning(
                    "endpoint %s: its rules could not be removed; the next change tries again: %s",
                    endpoint.id[:12],
                    error,
                )
                self._there = False
        if self._works and any(port.protocol == "udp" for port in endpoint.ports):
            # The next container with these addresses must not get datagrams that were meant for this one.
            addresses = [rules.packed(each) for each in (endpoint.ipv4, endpoint.ipv6) if each]
            self._forgetting.add(self._forget_connections, [conntrack.answered_by(address) for address in addresses])

    def link(self, network: Network, endpoint: Endpoint, other: Endpoint, ports: Iterable[tuple[int, str]]) -> None:
        """In a network with icc off, let `endpoint` reach these (port, protocol) of `other`, and no others.

        Without any it ends; so it does with the `withdraw` of either endpoint. Does nothing in a network with icc on.
        Raises SystemFailure.
        """
        if network.driver != "bridge" or not self._families() or rules.open_within(network):
            return
        elements = rules.link_elements(endpoint, other, ports)
        with self._lock, self._failing():
            if network.id not in self._networks:
                self._open(network)
            pair = endpoint.id, other.id
            before = self._links.get(pair, [])
            self._links[pair] = elements
            try:
                old = nftables.delete_elements(self.table, before)
                self._change([*old, *nftables.new_elements(self.table, elements)])
            except BaseException:
                self._links[pair] = before
                self._there = False
                raise

    def sync(self, networks: Iterable[Network], endpoints: Iterable[Endpoint]) -> None:
        """Make the table exactly what these need, in one transaction, whatever an earlier daemon has left in it.

        networks: those in use; endpoints: those of running containers. Without networks the table is deleted. It must
        be called before a network is opened, or running containers would lose their rules for a moment. The caller must
        add links again afterwards. Raises SystemFailure.
        """
        with self._lock, self._failing():
            before = {network.device for network in self._networks.values()}
            self._networks, self._endpoints, self._links = {}, {}, {}
            self._loopback.clear()
            if self._families():
                self._networks = {each.id: each for each in networks if each.driver == "bridge"}
            for endpoint in endpoints:
                network = self._networks.get(endpoint.network)
                if network is not None and endpoint.ports:
                    self._endpoints[endpoint.id] = (network, endpoint)
            if not self._networks:
                self._drop(before)
                return
            self._look()
            if not self._works:
                absence.tell(self._networks.values())
                return
            for network, endpoint in self._endpoints.values():
                with contextlib.suppress(FileNotFoundError):  # no device now; `open_network` does this later
                    self._admit_loopback(network, endpoint)
            self._there = False
            self._take_up(tuple(self._networks.values()))

    # The caller of each method below holds the lock.

    def _look(self) -> None:
        """Find out whether the kernel has nf_tables; once it has, it is not asked again. Raises OSError."""
        if self._works:
            return
        before, self._works = self._works, absence.works(self.table)
        if self._works and before is False:
            log.info("the kernel has nf_tables now: the firewall is made")
            self._there = False
            for network, endpoint in self._endpoints.values():
                with contextlib.suppress(FileNotFoundError):  # no device now; `open_network` does this later
                    self._admit_loopback(network, endpoint)
            if self._networks:
                self._take_up(tuple(self._networks.values()))
        if not self._works and before is None:
            log.warning("%s", absence.WORDS)

    def _check_ports(self, network: Network, endpoint: Endpoint) -> None:
        """Raise Unavailable for a port that neither rules nor the userland proxy may lead to the container."""
        if network.driver != "bridge":
            return
        ruled = self.families()
        by_proxy = publishing.proxied(endpoint, ruled) if self._settings.userland_proxy else []
        others = {port for port, _ in by_proxy}
        for port in endpoint.ports:
            version = publishing.version_of(port.host_ip)
            if port.host_port and version not in ruled and port not in others:
                option = "ip6tables" if version == 6 else "iptables"
                reason = absence.SHORT if self._works is False else f"the daemon runs with {option} off"
                raise Unavailable(f"no port can be published on {port.host_ip}: {reason}")

    def _families(self) -> tuple[int, ...]:
        options = ((_IPV4, "iptables"), (_IPV6, "ip6tables"))
        return tuple(family for family, option in options if getattr(self._settings, option))

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """Turn an OSError of the kernel into a SystemFailure in words."""
        try:
            yield
        except OSError as error:
            lacking = error.errno in _NO_SUCH_PART and error.filename is None
            words = "perhaps this kernel lacks a part of nf_tables: " if lacking else ""
            raise SystemFailure(f"the firewall cannot be changed: {words}{reasons.whole(error)}") from error

    def _open(self, network: Network) -> None:
        self._look()
        if not self._works:
            absence.check(network)
            self._networks[network.id] = network
            return
        known = self._networks.get(network.id)
        self._networks[network.id] = network
        self._loopback.discard(network.id)
        try:
            if known is not None:
                # The device is new. The rules name it, so they still fit, but its sysctls are lost.
                for of, endpoint in self._endpoints.values():
                    if of.id == network.id:
                        self._admit_loopback(network, endpoint)
            if known != network or not self._there:
                self._there = self._there and known is None
                self._take_up((network,))
        except BaseException:
            if known is None:
                del self._networks[network.id]
            self._there = False
            raise

    def _take_up(self, networks: tuple[Network, ...]) -> None:
        """Make the rules of these networks, and switch on the host's forwarding for them."""
        enabled = self._families()
        for network in networks:
            if not rules.open_within(network):
                used = ((_IPV4, network.ipv4), (_IPV6, network.ipv6))
                forwarding.filter_bridged([family for family, has in used if has and family in enabled])
        guards = self._known_guards()
        switching = [family for family in self._forwarded(networks) if not forwarding.is_on(family)]
        added = []
        for family in switching:
            if not self._settings.ip_forward_no_drop and family in enabled:
                guards[family] = forwarding.interfaces()
                added.append(family)
        if self._there and not added:
            self._change([request for network in networks for request in self._made(network)])
        else:
            self._rebuild()
        for family in switching:
            forwarding.switch_on(family)
        if not self._looked:
            self._look_around()

    def _look_around(self) -> None:
        """Log each chain of another table that drops by default: a packet must be accepted by all tables' chains."""
        self._looked = True
        for chain in nftables.droppers(self._socket(), nftables.FORWARD):
            log.warning("%s drops by default, so it may also drop containers' traffic that the engine accepts", chain)

    def _forwarded(self, networks: tuple[Network, ...]) -> list[int]:
        """The address families that the host has to forward for these networks, where the engine may switch that on."""
        if not self._settings.ip_forward:
            return []
        outward = [network for network in networks if not network.internal]
        four, six = any(each.ipv4 for each in outward), any(each.ipv6 for each in outward)
        return [family for family, needed in ((_IPV4, four), (_IPV6, six)) if needed]

    def _known_guards(self) -> dict[int, list[int]]:
        if self._guards is None:
            found = {family: forwarding.guarded(self._socket(), self.table, family) for family in (_IPV4, _IPV6)}
            self._guards = {family: before for family, before in found.items() if before is not None}
        return self._guards

    def _openings(self) -> "rules.Openings":
        asked = self._settings.bridge_accept_fwmark
        return rules.Openings(self._settings.allow_direct_routing, mark(asked) if asked else None)

    def _port_elements(self, network: Network, endpoint: Endpoint) -> list["nftables.Element"]:
        return rules.port_elements(network, endpoint, self._openings())

    def _made(self, network: Network) -> list["Request"]:
        requests = []
        for chain, expressions in rules.chains(network, self._openings()).items():
            requests.append(nftables.new_chain(self.table, chain))
            requests += [nftables.new_rule(self.table, chain, each) for each in expressions]
        return [*requests, *nftables.new_elements(self.table, rules.network_elements(network))]

    def _change(self, requests: list["Request"]) -> None:
        """Carry out a change that the model has already; make the table anew if it is not as the daemon left it."""
        if self._works is False:
            return
        if not self._there:
            self._rebuild()
        elif requests:
            try:
                self._commit(requests)
            except OSError as error:
                if error.errno not in _CHANGED:
                    raise
                log.warning("another program has changed the table %s: it is made anew", self.table)
                self._rebuild()

    def _rebuild(self) -> None:
        """Make the table what the model says, in one transaction."""
        requests = table.empty(self.table, self._families())
        for network in self._networks.values():
            requests += self._made(network)
        elements = [each for pair in self._endpoints.values() for each in self._port_elements(*pair)]
        elements += [each for link in self._links.values() for each in link]
        requests += nftables.new_elements(self.table, dict.fromkeys(elements))
        guards = self._known_guards()
        if guards:
            requests += forwarding.kinds(self.table)
        for family, before in guards.items():
            requests += forwarding.guard(self.table, family, before)
        self._there = False
        self._commit(requests)
        self._there = self._ours = True

    def _commit(self, requests: list["Request"]) -> None:
        nftables.commit(self._socket(), requests)

    def _socket(self) -> "socket.Netlink":
        """The one socket, kept for good: closing it would wait until the kernel has freed all that was removed."""
        if self._tables is None:
            self._tables = _socket()
        return self._tables

    def _drop(self, devices: set[str]) -> None:
        """Delete the table, and switch off the forwarding that its guard belongs to."""
        guards = self._known_guards()
        self._there, self._guards, self._ours = False, {}, True
        for family, before in guards.items():
            forwarding.switch_off(family, before, devices)
        self._commit(table.gone(self.table))

    def _drop_the_last_daemons(self, network: Network) -> None:
        """Delete an earlier daemon's table; a kernel without nf_tables has none."""
        try:
            self._drop({network.device})
        except OSError as error:
            if error.errno not in _NO_SUCH_PART:
                raise

    def _forget(self, endpoint_id: str) -> list["nftables.Element"]:
        """Remove an endpoint from the model; returns its links' elements, which the caller deletes from the table."""
        self._endpoints.pop(endpoint_id, None)
        pairs = [pair for pair in self._links if endpoint_id in pair]
        return [element for pair in pairs for element in self._links.pop(pair)]

    def _admit_loopback(self, network: Network, endpoint: Endpoint) -> None:
        if network.id in self._loopback or self._works is False:
            return
        if any(port.host_port and port.host_ip.startswith(("127.", "0.0.0.0")) for port in endpoint.ports):
            forwarding.let_loopback_in(network.device)
            self._loopback.add(network.id)

    def _forget_connections(self, requests: list["Request"]) -> None:
        """Delete tracked connections, in the background: the kernel walks through all of them for each request."""
        try:
            if self._connections is None:
                self._connections = _socket()
            conntrack.forget(self._connections, requests)
        except OSError as error:
            raise SystemFailure(f"the host's tracked connections cannot be changed: {reasons.whole(error)}") from error


def _socket() -> "socket.Netlink":
    return socket.Netlink(nftables.NETFILTER)
