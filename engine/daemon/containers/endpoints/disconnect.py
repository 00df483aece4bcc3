"""Disconnect a container from a network: record it, and if the container runs, remove its wire at once.

Runs in the API's threads, under `Container.operation`. The end of the run may come meanwhile and takes away the same
things, so each of them may be gone already.
"""

import logging
import os

from engine.daemon.containers.endpoints import etc, keeping, moving, requested, wires
from engine.daemon.containers.record import Container, State
from engine.daemon.network.record import Endpoint, Network
from engine.daemon.parts import EndpointParts
from engine.errors import Conflict, EngineError, Invalid, NotFound, SystemFailure
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded for containers of other runtimes
    from engine.daemon.containers.security import apart
else:
    apart = late("engine.daemon.containers.security.apart")

log = logging.getLogger(__name__)

_ON_HOST = "cannot disconnect container from host network - container was created in host network mode"


def disconnect(engine: EndpointParts, network_reference: str, container_reference: str, force: bool) -> None:
    """Disconnect the container. force: also where the network is gone. Raises docker's errors."""
    if not container_reference and not force:
        raise Invalid('invalid name or ID supplied: ""')
    try:
        container = engine.containers.find(container_reference)
    except NotFound:
        if not force:
            raise
        engine.networks.find(network_reference)
        raise NotFound(f"endpoint {container_reference} not found") from None
    with container.operation:
        state = container.settled()
        network = requested.find(engine, network_reference)
        if state.alive and network is not None:
            apart.refuse(engine, container, "disconnecting a running container from a network")
            _pull_out(engine, container, network, state)
        elif state.alive and not force:
            raise NotFound(f"network {network_reference} not found")
        else:
            if container.removed or state.status in ("removing", "dead"):
                raise Conflict(requested.REMOVED.format(container.id))
            _note(engine, container, network.name if network is not None else network_reference)
    if network is not None:
        wires.tell(engine, container, network, "disconnect")


def _note(engine: EndpointParts, container: Container, name: str) -> None:
    if name not in container.networking:
        raise EngineError(f"container {container.id} is not connected to the network {name}")
    left = {other: settings for other, settings in container.networking.items() if other != name}
    keeping.keep(engine, container, left, durable=True, frees=True)


def _pull_out(engine: EndpointParts, container: Container, network: Network, state: State) -> None:
    if container.host_config["NetworkMode"] == "host" and network.driver == "host":
        raise Invalid(_ON_HOST)
    endpoint = next(iter(engine.networks.endpoints(network.id, container.id)), None)
    if endpoint is None:
        raise EngineError(f"container {container.id} is not connected to network {network.name}")
    pairs = wires.places(engine, container)
    others = tuple(pair for pair in pairs if pair[0].id != network.id)
    before = container.networking
    _note(engine, container, network.name)  # first: a later daemon takes away what is not in the record
    try:
        _unplug(engine, network, endpoint, state, others)
    except BaseException:
        keeping.keep(engine, container, before, frees=True)
        raise
    engine.names.leave([endpoint])
    engine.firewall.withdraw(network, endpoint)
    if endpoint.ports:
        engine.ports.release(container.id, endpoint.ports)
    engine.networks.leave([endpoint])
    wires.tell_apart(engine)
    moving.settle(engine, container)
    try:
        etc.drop(engine, container, endpoint, others)
    except SystemFailure as error:  # the container is disconnected all the same
        log.warning("container %s: %s", container.id, error)


def _unplug(engine: EndpointParts, network: Network, endpoint: Endpoint, state: State, others: wires.Pairs) -> None:
    try:
        netns = wires.namespace(state.pid, state.pid_start)
    except SystemFailure:
        return  # the run is over, and its wire is gone with it
    try:
        engine.wiring.unplug(network, endpoint, netns, others)
    finally:
        os.close(netns)
