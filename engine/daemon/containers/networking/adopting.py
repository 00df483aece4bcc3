"""The networks of containers that an earlier daemon has left: what runs keeps them, what does not gives them back.

Runs once at a daemon's start, in the main thread, before the API answers; not loaded where nobody has an endpoint.
What cannot be mended is logged: no container's trouble is to keep the daemon from starting.
"""

import logging

from engine.daemon.containers.networking import asked, ending, wires
from engine.daemon.containers.record import Container
from engine.daemon.network.names import has_resolver
from engine.errors import EngineError

log = logging.getLogger(__name__)


def adopt(engine: object) -> None:
    """Make the host what the containers that run need, whatever happened meanwhile."""
    running = [container for container in engine.containers.all() if container.state.alive]
    _drop_the_dead(engine, {container.id for container in running})
    for container in running:
        _join_unwired(engine, container)
    pairs = {container: wires.places(engine, container) for container in running}
    for container, places in pairs.items():
        published = [each for _, endpoint in places for each in endpoint.ports]
        if published:
            engine.ports.adopt(container.id, published)
    networks = {network.id: network for places in pairs.values() for network, _ in places}
    for network in networks.values():
        if network.driver not in wires.UNWIRED:
            _try(f"the device of network {network.name} is not there", engine.wiring.ensure, network)
    endpoints = [endpoint for places in pairs.values() for _, endpoint in places]
    bridges = [network for network in networks.values() if network.driver == "bridge"]
    _try("the firewall does not have what it should", engine.firewall.sync, bridges, endpoints)
    _adopt_names(engine, pairs)


def _drop_the_dead(engine: object, running: set[str]) -> None:
    dead = engine.networks.adopt(running)
    networks = {network.id: network for network in engine.networks.all()}
    wired = [(networks[each.network], each) for each in dead if each.host_interface and each.network in networks]
    ending.unplug_all(engine, wired)
    _try("the addresses of ended containers are not free", engine.networks.leave, dead)


def _join_unwired(engine: object, container: Container) -> None:
    """The networks without addresses keep no rows."""
    for name, settings in container.networking.items():
        network = asked.find(engine, settings["NetworkID"] or name)
        if network is not None and network.driver in wires.UNWIRED:
            wanted = {network.id: asked.for_join(container, network, settings)}
            _try(f"container {container.id} is not shown in {name}", engine.networks.join, container.id, wanted)


def _adopt_names(engine: object, pairs: dict[Container, wires.Pairs]) -> None:
    served = []
    for container, places in pairs.items():
        if has_resolver(places):
            state = container.state
            known = wires.preferred(places), state.pid, state.pid_start, container.host_config
            served.append((*known, wires.links_of(container, places)))
    engine.names.adopt(served)


def _try(what: str, work: object, *arguments: object) -> None:
    try:
        work(*arguments)
    except EngineError as error:
        log.error("%s: %s", what, error)
