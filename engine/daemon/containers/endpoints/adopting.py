"""Take over the networks of containers from an earlier daemon: repair those of running ones, free those of ended ones.

Runs once at a daemon's start, in the main thread, before the API answers. The daemon loads this module only where a
container runs or has an endpoint. What cannot be repaired is logged, since no container's trouble may keep the daemon
from starting.
"""

import logging
import os
from collections.abc import Callable

from engine.annotating import TypeVarTuple
from engine.daemon.containers.endpoints import ending, etc, keeping, moving, requested, wires
from engine.daemon.containers.record import Container
from engine.daemon.network.record import DEFAULT, Pair, has_resolver
from engine.daemon.parts import EndpointParts
from engine.errors import EngineError
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded for the few containers that have links
    from engine.daemon.containers.endpoints import legacylinks, linkvariables
else:
    legacylinks = late("engine.daemon.containers.endpoints.legacylinks")
    linkvariables = late("engine.daemon.containers.endpoints.linkvariables")

log = logging.getLogger(__name__)

_Given = TypeVarTuple("_Given")


def adopt(engine: EndpointParts) -> None:
    """Make the host's devices, rules, ports and names what the running containers need, whatever has happened."""
    running = [container for container in engine.containers.all() if container.state.alive]
    _drop_the_dead(engine, {container.id for container in running})
    for container in running:
        _join_unwired(engine, container)
        _try(
            f"the record and the networks of container {container.id} could not be made to agree",
            _agree,
            engine,
            container,
        )
    pairs = {container: wires.places(engine, container) for container in running}
    published = {
        container.id: [each for _, endpoint in places for each in endpoint.ports] for container, places in pairs.items()
    }
    networks = {network.id: network for places in pairs.values() for network, _ in places}
    endpoints = [endpoint for places in pairs.values() for _, endpoint in places]
    bridges = [network for network in networks.values() if network.driver == "bridge"]
    # Before the devices are brought up: that step makes a device's rules, and the ports that are published there would
    # be without theirs for a moment.
    _try("the firewall rules could not be restored", engine.firewall.sync, bridges, endpoints)
    for network in networks.values():
        _try(f"the device of network {network.name} could not be set up", wires.bring_up, engine, network)
    places_of_ports = {port.host_ip for ports in published.values() for port in ports}
    _try("the bridges of published ports could not be set up", wires.bring_up_gateways, engine, places_of_ports)
    engine.ports.adopt({container: ports for container, ports in published.items() if ports})
    for container, places in pairs.items():
        _try(f"the ports of container {container.id} could not be published", moving.settle, engine, container)
        _try(f"the ports of container {container.id} could not be served", _lead, engine, container)
        _try(f"the links of container {container.id} could not be opened", _open_links, engine, container, places)
        _try(f"the addresses of container {container.id} could not be announced", engine.wiring.announce, places)
    engine.ports.adopted()
    _adopt_names(engine, pairs)


def _drop_the_dead(engine: EndpointParts, running: set[str]) -> None:
    dead = engine.networks.adopt(running)
    networks = {network.id: network for network in engine.networks.all()}
    wired = [(networks[each.network], each) for each in dead if each.host_interface and each.network in networks]
    ending.unplug_all(engine, wired)
    _try("the addresses of ended containers could not be freed", engine.networks.leave, dead)


def _join_unwired(engine: EndpointParts, container: Container) -> None:
    """Join the container again to its networks without addresses, as the database keeps no rows of these endpoints."""
    for name, settings in container.networking.items():
        network = requested.find(engine, settings["NetworkID"] or name)
        if network is not None and not network.wired:
            wanted = {network.id: requested.for_join(container, network, settings)}
            _try(
                f"container {container.id} could not be joined to network {name}",
                engine.networks.join,
                container.id,
                wanted,
            )


def _agree(engine: EndpointParts, container: Container) -> None:
    """Make the record and the endpoints agree after a connect or a disconnect that was cut short.

    An endpoint that the record does not name is removed; a network without an endpoint is removed from the record. A
    record without the network's id was written by an engine that wired nothing, and is left alone.
    """
    pairs = wires.places(engine, container)
    named = {settings["NetworkID"] for settings in container.networking.values()}
    there = {network.id for network, _ in pairs}
    staying = tuple(pair for pair in pairs if pair[0].id in named)
    for network, endpoint in pairs:
        if network.id not in named:
            _pull_out(engine, container, (network, endpoint), staying)
    kept = {name: each for name, each in container.networking.items() if each["NetworkID"] in {"", *there}}
    if kept != container.networking:
        keeping.keep(engine, container, kept, durable=True, frees=True)


def _pull_out(engine: EndpointParts, container: Container, pair: Pair, staying: wires.Pairs) -> None:
    network, endpoint = pair
    netns = wires.namespace(container.state.pid, container.state.pid_start)
    try:
        engine.wiring.unplug(network, endpoint, netns, staying)
    finally:
        os.close(netns)
    engine.networks.leave([endpoint])
    etc.drop(engine, container, endpoint, staying)


def _lead(engine: EndpointParts, container: Container) -> None:
    endpoints = [endpoint for _, endpoint in wires.places(engine, container)]
    state = container.state
    engine.ports.lead(endpoints, state.pid, state.pid_start, engine.firewall.families())


def _open_links(engine: EndpointParts, container: Container, places: wires.Pairs) -> None:
    if container.host_config["Links"]:
        container.linked = linkvariables.variables(engine, container)
        for network, endpoint in places:
            if network.name == DEFAULT:
                legacylinks.open_ways(engine, network, endpoint, legacylinks.running(engine, container))


def _adopt_names(engine: EndpointParts, pairs: dict[Container, wires.Pairs]) -> None:
    served = []
    for container, places in pairs.items():
        if has_resolver(places):
            state = container.state
            known = wires.preferred(places), state.pid, state.pid_start, container.host_config
            served.append((*known, wires.links_of(container, places)))
    engine.names.adopt(served)
    wires.tell_apart(engine)


def _try(what: str, work: Callable[[*_Given], object], *arguments: *_Given) -> None:
    try:
        work(*arguments)
    except EngineError as error:
        log.error("%s: %s", what, error)
