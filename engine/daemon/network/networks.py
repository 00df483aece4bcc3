"""The registry of all networks and endpoints: finds, creates and removes networks, and adds and removes endpoints.

Runs in the daemon, on any thread, under one lock, which comes after `Container.operation` and before the database's.
Nothing is made in the kernel here: a network is a row, and an endpoint is a row while its container runs. What the host
can reach is looked up before the lock is taken, except for the one link that a driver's check or a setting names. The
lock `_settling` comes before it, so that only one thread works out what the predefined networks are to be. An address
is free when its endpoint's row is deleted, so no crash gives one away twice.

An idle daemon has only read the rows. What else a network needs (its addresses in memory, the default network's subnet)
is made at the first use of one.
"""

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping

from engine.annotating import Any, Protocol
from engine.daemon import locks
from engine.daemon.network.record import DEFAULT, IPAM_DRIVERS, LOCAL, AskedEndpoint, Endpoint, Network, Pair
from engine.daemon.runtime.events import Events
from engine.daemon.store import networks as table
from engine.daemon.store.database import Database
from engine.errors import Conflict, EngineError, Forbidden, Invalid, NotFound
from engine.late import TYPE_CHECKING, late
from engine.settings.every import Settings

if TYPE_CHECKING:  # loaded when somebody first needs a network
    from engine.daemon.network import builtin, create, ipam, joining, remotedrivers, surroundings
    from engine.daemon.network.create import AskedNetwork
    from engine.daemon.plugins import activation
    from engine.daemon.plugins.activation import Plugins
else:
    builtin = late("engine.daemon.network.builtin")
    create = late("engine.daemon.network.create")
    ipam = late("engine.daemon.network.ipam")
    joining = late("engine.daemon.network.joining")
    remotedrivers = late("engine.daemon.network.remotedrivers")
    activation = late("engine.daemon.plugins.activation")
    surroundings = late("engine.daemon.network.surroundings")

log = logging.getLogger(__name__)

_SHORT = 12


class _Addresses(Protocol):
    """The part of `ipam.Addresses` that is used here; that module is loaded at the first use of a network."""

    def release(self, *addresses: str) -> None: ...

    def status(self) -> dict[str, dict[str, int]]: ...


class Networks:
    """The networks and endpoints of a data root.

    settings: the daemon's, which the default network is made from; engine_id: decides the default IPv6 subnets
    events: the bus that each creation and removal of a network is published on
    plugins: tells those among which drivers are looked for; None for none
    """

    def __init__(
        self,
        database: Database,
        settings: Settings,
        engine_id: str,
        events: Events,
        plugins: "Callable[[], Plugins] | None" = None,
    ) -> None:
        self._plugins = plugins or (lambda: activation.Plugins(()))
        self.settings = settings
        self.engine_id = engine_id
        self._database = database
        self._events = events
        self._lock = locks.Reentrant("networks")
        self._settling = locks.Lock("default network")
        self._settled = False
        self._refusal: EngineError | None = None  # why the default network cannot follow the settings
        self._begun = False  # whether a container has joined the default network
        with database.reading() as connection:
            self._networks = {network.id: network for network in table.load_networks(connection)}
            rows = table.load_endpoints(connection)
        self._endpoints: dict[str, Endpoint] = {}  # by id, in the order of their creation
        self._members: dict[str, dict[str, None]] = {}  # id of a network or of a container → ids of its endpoints
        # The number of each endpoint's row; endpoints of `host` and `none` have none.
        self._numbers = {endpoint.id: number for number, endpoint in rows}
        self._last_number = max(self._numbers.values(), default=0)
        self._show(endpoint for _, endpoint in rows)
        self._going: set[str] = set()  # ids of networks that are being removed, or made by a plugin: nobody uses them
        self._addresses: dict[str, _Addresses] = {}  # by the network's id, made at the first use

    # Networks

    @property
    def has_default(self) -> bool:
        """Whether the settings want a default network at all."""
        return self.settings.bridge != "none"

    def find(self, reference: str) -> Network:
        """The network of this id, name or prefix of an id.

        Raises NotFound, Invalid for a prefix of several ids, and for the default network the error that keeps it from
        being made.
        """
        self._settle()
        with self._lock:
            found = self._networks.get(reference) or self._by_name(reference) or self._by_prefix(reference)
            if self._refusal is not None and (found.name if found else reference) == DEFAULT:
                raise type(self._refusal)(str(self._refusal))
        if found is None:
            raise NotFound(f"network {reference} not found")
        return found

    def _by_name(self, name: str) -> Network | None:
        return next((network for network in self._networks.values() if network.name == name), None)

    def _by_prefix(self, prefix: str) -> Network | None:
        matches = [network for network in self._networks.values() if prefix and network.id.startswith(prefix)]
        if len(matches) > 1:
            raise Invalid(f"network {prefix} is ambiguous ({len(matches)} matches found based on ID prefix)")
        return matches[0] if matches else None

    def all(self) -> list[Network]:
        """Every network, oldest first; without the default network while that cannot follow the settings."""
        self._settle()
        with self._lock:
            refused = DEFAULT if self._refusal is not None else ""
            return [network for network in self._networks.values() if network.name != refused]

    def create(self, body: Mapping[str, Any]) -> Network:
        """Make a network. Its device is made with its first endpoint.

        body: the decoded body of POST /networks/create
        Raises Invalid, Conflict (the name), Forbidden (overlaps and others), NotFound (the driver) in docker's words.
        """
        self._settle()
        asked = create.AskedNetwork.read(body, self.settings)
        if asked.config_only or (asked.driver in LOCAL and asked.ipam_driver in IPAM_DRIVERS):
            network = self._make(asked)
        else:
            self._check_name(asked.name)
            with self._outsourced().creating(asked) as asked:
                network = self._make(asked, going=True)  # until its driver has made it
                try:
                    self._outsourced().created(network, asked.pool_ids)
                except BaseException:
                    self._forget(network)
                    raise
                finally:
                    with self._lock:
                        self._going.discard(network.id)
        self._tell("create", network)
        return network

    def _make(self, asked: "AskedNetwork", *, going: bool = False) -> Network:
        nearby = surroundings.look(self.all())
        with self._lock:
            self._check_name(asked.name)
            network = create.make(asked, list(self._networks.values()), nearby, self.settings, self.engine_id)
            with self._database.transaction(durable=True) as connection:
                table.save_network(connection, network)
            self._networks[network.id] = network
            if going:
                self._going.add(network.id)
        return network

    def _check_name(self, name: str) -> None:
        if self._by_name(name) is not None:
            raise Conflict(f"network with name {name} already exists")

    def _forget(self, network: Network) -> None:
        with self._lock:
            with self._database.transaction(durable=True, frees=True) as connection:
                table.delete_network(connection, network.id)
            del self._networks[network.id]
            self._addresses.pop(network.id, None)

    def _outsourced(self) -> "remotedrivers.Drivers":
        return remotedrivers.Drivers(self._plugins(), self._database)

    @contextlib.contextmanager
    def removing(self, network: Network) -> Iterator[list[Network]]:
        """Around the removal of a network's parts in the kernel: no container joins it, and then its row is deleted.

        Yields the networks that stay, as some of them may share its device.
        If the daemon dies within, the network stays as it was, and its device is made again at the next use.
        Raises Forbidden for a predefined network, for one in use, and for a configuration that another network uses;
        NotFound when the network is gone already.
        """
        with self._lock:
            self._check_removal(network)
            self._going.add(network.id)
            staying = [other for other in self._networks.values() if other.id not in self._going]
        try:
            yield staying
            self._forget(network)
        finally:
            with self._lock:
                self._going.discard(network.id)
        if not network.config_only:
            if network.outsourced or not network.addressed:
                self._outsourced().removed(network)
            self._tell("destroy", network)

    def stays(self, network: Network) -> bool:
        """Whether a network is there, and is neither being removed nor still being made."""
        with self._lock:
            return network.id in self._networks and network.id not in self._going

    def _check_removal(self, network: Network) -> None:
        if network.builtin:
            raise Forbidden(f"{network.name} is a pre-defined network and cannot be removed")
        if network.id not in self._networks or network.id in self._going:
            raise NotFound(f"network {network.name} not found")
        if any(other.config_from == network.name for other in self._networks.values()):
            raise Forbidden(f'error while removing network: configuration network "{network.name}" is in use')
        if users := self.endpoints(network.id):
            words = ", ".join(f'name:"{_name(each)}" id:"{each.id[:_SHORT]}"' for each in users)
            text = f"network {network.name} has active endpoints ({words})"
            raise Forbidden(f"error while removing network: {text}")

    def _tell(self, action: str, network: Network) -> None:
        self._events.publish("network", action, network.id, {"name": network.name, "type": network.driver})

    def _settle(self) -> None:
        """Before the first use: make the predefined networks what the settings and the host ask for."""
        if self._settled:
            return
        with self._settling:
            if self._settled:
                return
            with self._lock:
                own = list(self._networks.values())
            nearby = surroundings.look(own)
            with self._lock:
                known = list(self._networks.values())
                in_use = {endpoint.network for endpoint in self._endpoints.values()}
                wanted, refusal = builtin.networks(known, in_use, nearby, self.settings, self.engine_id)
                if refusal is not None and str(refusal) != str(self._refusal):
                    log.warning("the default network could not be set up: %s", refusal)
                self._refusal = refusal
                changed = [network for network in wanted if network not in known]
                names = {network.name for network in wanted}
                dropped = [network.id for network in known if network.builtin and network.name not in names]
                if changed or dropped:
                    self._replace(changed, dropped)
                self._settled = self._refusal is None

    def _replace(self, changed: list[Network], dropped: list[str]) -> None:
        with self._database.transaction(durable=True) as connection:
            for network_id in dropped:
                table.delete_network(connection, network_id)
            for network in changed:
                table.save_network(connection, network)
        networks = {**self._networks, **{network.id: network for network in changed}}
        self._networks = {key: networks[key] for key in sorted(networks, key=lambda key: networks[key].created_ns)}
        for network_id in dropped:
            del self._networks[network_id]
        for network_id in (*dropped, *(network.id for network in changed)):
            self._addresses.pop(network_id, None)

    # Endpoints

    def join(
        self,
        container_id: str,
        wanted: Mapping[str, AskedEndpoint],
        *,
        ipv6: bool = True,
        told: Mapping[str, Any] | None = None,
    ) -> tuple[Endpoint, ...]:
        """Make a container's endpoints, in the order of `wanted`, all or none; this returns after writing their rows.

        wanted: name or id of a network → its complete EndpointSettings (`IPAMConfig`, `MacAddress`, `GwPriority` and
            `DriverOpts` are obeyed, `DNSNames` become the endpoint's names)
        ipv6: whether the container takes addresses of IPv6; told: further options for the first one's driver, where
            that is a plugin

        Each endpoint has its addresses, gateways, MAC address, the interface's name in the container (`eth0`: the
        lowest number that this container has free) and, with the driver bridge, the name of the host's end. Endpoints
        of `host` and `none` have none of these, and no row: a daemon that starts joins them again.
        Raises NotFound, Forbidden (there already, address taken), Invalid, EngineError when no address is left.
        """
        found = self._found(wanted)
        if any(network.outsourced or not network.addressed for network, _ in found):
            return self._join_outsourced(container_id, found, wanted, ipv6, told or {})
        return self._join(container_id, found, wanted, ipv6, {})

    def _join(
        self,
        container_id: str,
        found: list[tuple[Network, str]],
        wanted: Mapping[str, AskedEndpoint],
        ipv6: bool,
        assigned: "Mapping[str, remotedrivers.Fixed]",
    ) -> tuple[Endpoint, ...]:
        reserved = joining.interfaces_asked_for(wanted.values())
        with self._lock:
            made: list[Endpoint] = []
            try:
                for network, reference in found:
                    beside = [*self.endpoints(container_id=container_id), *made]
                    network = self._joinable(network, beside, wanted[reference])
                    addresses = self._addresses_of(network) if network.addressed else ipam.Addresses(())
                    assert isinstance(addresses, ipam.Addresses)  # no other class is ever put there
                    given = wanted[reference], beside, reserved
                    made.append(
                        joining.make(
                            network, addresses, container_id, *given, ipv6=ipv6, assigned=assigned.get(reference)
                        )
                    )
                self._add(made)
            except BaseException:
                self._give_back(made)
                raise
            return tuple(made)

    def _join_outsourced(
        self,
        container_id: str,
        found: list[tuple[Network, str]],
        wanted: Mapping[str, AskedEndpoint],
        ipv6: bool,
        told: Mapping[str, Any],
    ) -> tuple[Endpoint, ...]:
        """As `_join`, where plugins have to be asked beside: for addresses before, and for the endpoints then."""
        drivers, wanted = self._outsourced(), dict(wanted)
        with contextlib.ExitStack() as undoing:
            assigned = {}
            for network, reference in found:
                if not network.addressed:
                    asked = drivers.addressed(network, wanted[reference], ipv6)
                    wanted[reference], assigned[reference] = asked
                    undoing.callback(drivers.freed, network, [address for address, _ in asked[1].values()])
            made = list(self._join(container_id, found, wanted, ipv6, assigned))
            undoing.pop_all()  # from now on `leave` gives everything back
            try:
                for number, (network, _) in enumerate(found):
                    if network.outsourced:
                        made[number] = drivers.make_endpoint(network, made[number], {} if number else told)
                        self.update(made[number])
            except BaseException:
                self.leave(made)
                raise
        return tuple(made)

    def plugged(self, pairs: tuple[Pair, ...], namespace: str, ports: Callable[[], dict[str, Any]]) -> tuple[Pair, ...]:
        """Before the wires are made: the endpoints as drivers that are plugins want them to be.

        namespace: the path of the container's network namespace; ports: what plugins are told of the container's
        Raises NotFound, SystemFailure, Invalid.
        """
        if not any(network.outsourced for network, _ in pairs):
            return pairs
        return self._outsourced().join(pairs, namespace, ports())

    def lead_out(self, pairs: Iterable[Pair], ports: Callable[[], dict[str, Any]] | None) -> None:
        """Tell drivers that are plugins which of a container's endpoints have a default route, and then its ports.

        pairs: all that it has; ports: as for `plugged`; None: tell of those that have none any more
        Raises NotFound, SystemFailure in docker's words.
        """
        pairs = tuple(pairs)
        if any(network.outsourced for network, _ in pairs):
            for endpoint in self._outsourced().lead_out(pairs, ports and ports()):
                self.update(endpoint)

    def begin(self) -> Network:
        """The default network as it is from now on, for whoever needs its device. Raises what `find` raises.

        It may have been settled long ago. Since then the host may have come to reach its subnet, or to have its device.
        """
        if not self._begun:
            self._begun, self._settled = True, False
        return self.find(DEFAULT)

    def _found(self, wanted: Iterable[str]) -> list[tuple[Network, str]]:
        found = [(self.find(reference), reference) for reference in wanted]
        return [(self.begin() if network.name == DEFAULT else network, reference) for network, reference in found]

    def _joinable(self, network: Network, beside: list[Endpoint], settings: AskedEndpoint) -> Network:
        """The network's current record. beside: the container's other endpoints. Raises NotFound, Forbidden."""
        name, now = network.name, self._networks.get(network.id)
        if now is None or now.id in self._going:
            raise NotFound(f"network {name} not found")
        if now.config_only:
            raise Forbidden("cannot create endpoint on configuration-only network")
        for other in beside:
            if other.network == now.id:
                container = (settings.get("DNSNames") or [other.container[:_SHORT]])[0]
                raise Forbidden(f"endpoint with name {container} already exists in network {name}")
        return now

    def _addresses_of(self, network: Network) -> _Addresses:
        found = self._addresses.get(network.id)
        if found is not None:
            return found
        made = ipam.Addresses(network.pools)
        for endpoint in self.endpoints(network.id):
            made.restore(endpoint.ipv4, endpoint.ipv6)
        self._addresses[network.id] = made
        return made

    def _add(self, made: list[Endpoint]) -> None:
        lasting = [endpoint for endpoint in made if self._networks[endpoint.network].wired]
        numbered = list(enumerate(lasting, self._last_number + 1))
        if numbered:
            with self._database.transaction() as connection:
                table.save_endpoints(connection, numbered)
            self._last_number += len(numbered)
        self._numbers |= {endpoint.id: number for number, endpoint in numbered}
        self._show(made)

    def _show(self, endpoints: Iterable[Endpoint]) -> None:
        for endpoint in endpoints:
            self._endpoints[endpoint.id] = endpoint
            for holder in (endpoint.network, endpoint.container):
                self._members.setdefault(holder, {})[endpoint.id] = None

    def _hide(self, endpoint: Endpoint) -> None:
        del self._endpoints[endpoint.id]
        for holder in (endpoint.network, endpoint.container):
            members = self._members[holder]
            del members[endpoint.id]
            if not members:
                del self._members[holder]

    def update(self, endpoint: Endpoint) -> None:
        """Replace the endpoint of the same id, if it is still there. The addresses in use are not changed.

        Writes nothing to the disk when nothing has changed.
        """
        with self._lock:
            before = self._endpoints.get(endpoint.id)
            if before is None or before == endpoint:
                return
            if number := self._numbers.get(endpoint.id):
                with self._database.transaction() as connection:
                    table.save_endpoints(connection, [(number, endpoint)])
            self._endpoints[endpoint.id] = endpoint

    def leave(self, endpoints: Iterable[Endpoint]) -> None:
        """Delete endpoints, and make their addresses free. Those that are gone already are ignored."""
        with self._lock:
            going = [self._endpoints[endpoint.id] for endpoint in endpoints if endpoint.id in self._endpoints]
            numbers = [self._numbers[endpoint.id] for endpoint in going if endpoint.id in self._numbers]
            if numbers:
                with self._database.transaction(frees=True) as connection:
                    table.delete_endpoints(connection, numbers)
            for endpoint in going:
                self._hide(endpoint)
                self._numbers.pop(endpoint.id, None)
            self._give_back(going)
            places = [(self._networks.get(endpoint.network), endpoint) for endpoint in going]
        for network, endpoint in places:
            if network is not None and (network.outsourced or not network.addressed):
                self._outsourced().left(network, endpoint)

    def _give_back(self, endpoints: Iterable[Endpoint]) -> None:
        for endpoint in endpoints:
            addresses = self._addresses.get(endpoint.network)
            if addresses is not None:
                addresses.release(endpoint.ipv4, endpoint.ipv6)

    def endpoints(self, network_id: str | None = None, container_id: str | None = None) -> list[Endpoint]:
        """The endpoints of a network, of a container, of both or of all, in the order of their creation."""
        with self._lock:
            if network_id is None and container_id is None:
                return list(self._endpoints.values())
            # The container's set is the smaller one: a container has few networks, and a network may have many
            # containers.
            members = self._members.get(container_id or network_id or "", {})
            found = [self._endpoints[identity] for identity in members]
        return [endpoint for endpoint in found if network_id in (None, endpoint.network)]

    def status(self, network: Network) -> dict[str, dict[str, int]]:
        """How many addresses are taken and free: subnet → SubnetStatus of the API; empty for a configuration."""
        self._settle()
        if network.config_only or not network.addressed:
            return {}
        with self._lock:
            return self._addresses_of(network).status()

    def adopt(self, running: set[str]) -> list[Endpoint]:
        """At the daemon's start: the endpoints of containers not in `running`; the caller unplugs and `leave`s them."""
        return [endpoint for endpoint in self.endpoints() if endpoint.container not in running]


def _name(endpoint: Endpoint) -> str:
    return endpoint.names[0] if endpoint.names else endpoint.container[:_SHORT]
