"""Set up the networks of one start: addresses, ports, files and bridges first, and wires once the namespace exists.

The first part runs while the spawner forks. Runs in the thread that starts a container, under `Container.operation`;
loaded with the first container that starts. Whatever fails, `undo` takes all of it back, and the client reads docker's
error.
"""

import os

from engine.daemon.containers.endpoints import ending, etc, hosts, portspecs, requested, wires
from engine.daemon.containers.endpoints.keeping import keep
from engine.daemon.containers.record import Container
from engine.daemon.containers.shapes import EndpointSettings
from engine.daemon.measured import timed
from engine.daemon.network import gateways
from engine.daemon.network.record import DEFAULT, Endpoint, Network, has_resolver
from engine.daemon.parts import EndpointParts
from engine.dataclass import replace
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded for the few containers that have links
    from engine.daemon.containers.endpoints import legacylinks
else:
    legacylinks = late("engine.daemon.containers.endpoints.legacylinks")

_FAILED = "failed to set up container networking: "


class Start:
    """The networks of one start of a container; empty where it has the network of another container, or none at all."""

    def __init__(self, engine: EndpointParts, container: Container) -> None:
        self._engine = engine
        self._container = container
        self._pairs: wires.Pairs = ()
        self._told = False
        self._linked: list[tuple[str, Container, Endpoint]] = []

    def prepare(self) -> None:
        """Do what needs no namespace yet. Raises docker's errors; then the caller must call `undo`."""
        container = self._container
        if container.config["NetworkDisabled"] or container.host_config["NetworkMode"].startswith("container:"):
            return
        ending.release(self._engine, container)  # endpoints are left only where the last end could not be written
        with wires.Worded(_FAILED):
            # This raises where endpoints are left even so. Then the client is told of the full disk, and not that the
            # container is in its network already.
            self._engine.networks.leave(self._engine.networks.endpoints(container_id=container.id))
            self._join()
        if container.host_config["Links"] and any(network.name == DEFAULT for network, _ in self._pairs):
            self._linked = legacylinks.linked(self._engine, container)  # of its own words, as with dockerd
        with wires.Worded(_FAILED):
            etc.write(self._engine, container, self._pairs, legacylinks.lines(self._linked) if self._linked else "")
            for network, _ in self._pairs:
                wires.bring_up(self._engine, network)
            if not self._has_plugins():
                self._publish()

    @timed("network_actions", "allocate")
    def _join(self) -> None:
        engine, container = self._engine, self._container
        networks = wires.networks_of(engine, container)
        self._keep(networks)
        wanted = {
            network.id: requested.for_join(container, network, container.networking[network.name])
            for network in networks.values()
        }
        told = None
        if any(network.outsourced for network in networks.values()):
            told = portspecs.told(container, published=True)
        endpoints = engine.networks.join(container.id, wanted, ipv6=hosts.has_ipv6(container), told=told)
        # The networks are read again: the default one may have moved with its first container.
        self._pairs = tuple((engine.networks.find(endpoint.network), endpoint) for endpoint in endpoints)

    def _has_plugins(self) -> bool:
        """Whether a driver is a plugin, which says only when it is joined where its gateway is."""
        return any(network.outsourced for network, _ in self._pairs)

    def _publish(self) -> None:
        """Hold the host's ports that the container is given; the bridges are there, whose addresses it may name."""
        container = self._container
        requests = portspecs.requests(container)
        through = gateways.published_through(self._pairs) if requests else {}
        if not through:
            return
        wires.bring_up_gateways(self._engine, (request.host_ip for request in requests))
        found = [(network, through[network.id]) for network, _ in self._pairs if network.id in through]
        with wires.Worded(wires.NO_PORT.format(container.name)):
            ports = self._engine.ports.reserve(container.id, found, requests)
        self._pairs = tuple(
            (network, replace(endpoint, ports=ports.get(network.id, ()))) for network, endpoint in self._pairs
        )

    def _keep(self, networks: dict[str, Network]) -> None:
        """Save the ids of these very networks in the record; mostly it has them since the creation."""
        found: dict[str, EndpointSettings] = {
            network.name: {**self._container.networking[name], "NetworkID": network.id}
            for name, network in networks.items()
        }
        # A network that is passed over now stays in the record: a later daemon may have a default network again.
        found |= {name: each for name, each in self._container.networking.items() if name not in networks}
        if found != self._container.networking:
            keep(self._engine, self._container, found)

    def plug(self, pid: int, pid_start: int) -> None:
        """Connect the namespace of process 1. Raises docker's errors."""
        wired = tuple(pair for pair in self._pairs if pair[0].wired)
        if wired:
            with wires.Worded(_FAILED):
                self._plug(wired, pid, pid_start)
        for network, _ in self._pairs:
            wires.tell(self._engine, self._container, network, "connect")
        self._told = True

    def _plug(self, wired: wires.Pairs, pid: int, pid_start: int) -> None:
        engine, container = self._engine, self._container
        netns = wires.namespace(pid, pid_start)
        try:
            self._pairs = engine.networks.plugged(wired, f"/proc/{pid}/ns/net", lambda: portspecs.told(container))
            if self._has_plugins():
                self._publish()
            plugged = engine.wiring.plug(self._pairs, netns)
            self._pairs = tuple((pair[0], endpoint) for pair, endpoint in zip(self._pairs, plugged, strict=True))
            for network, endpoint in self._pairs:
                engine.networks.update(endpoint)
                if endpoint.ports:
                    with wires.Worded(wires.NO_PORT.format(container.name)):
                        engine.firewall.publish(network, endpoint)
                if network.name == DEFAULT:
                    self._link(network)
            published = [endpoint for _, endpoint in self._pairs if endpoint.ports]
            if published:
                with wires.Worded(wires.NO_PORT.format(container.name)):
                    engine.ports.lead(published, pid, pid_start, engine.firewall.families())
            engine.networks.lead_out(self._pairs, lambda: portspecs.told(container))
            if has_resolver(self._pairs):
                wires.make_known(engine, container, self._pairs, netns, pid, pid_start)
        finally:
            os.close(netns)

    def _link(self, network: Network) -> None:
        engine, container = self._engine, self._container
        (endpoint,) = [endpoint for each, endpoint in self._pairs if each is network]
        others = engine.containers.any(lambda other: bool(other.host_config["Links"]) and other.state.alive)
        if self._linked or others:
            legacylinks.open_ways(engine, network, endpoint, self._linked)
            legacylinks.tell_parents(engine, container, network, endpoint)

    def undo(self) -> None:
        """Take everything back after the start has failed."""
        ending.give_back(self._engine, self._container, self._pairs, told=self._told)
        self._pairs = ()
        self._told = False
