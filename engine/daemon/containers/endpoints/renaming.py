"""Tell the networks of a running container its new name, so that the resolver answers to it from then on.

Runs in the API's threads, under `Container.operation`.
"""

import logging
import os

from engine.daemon.containers.endpoints import requested, wires
from engine.daemon.containers.record import Container
from engine.daemon.network.record import has_resolver
from engine.daemon.parts import EndpointParts
from engine.dataclass import replace
from engine.errors import SystemFailure

log = logging.getLogger(__name__)


def renamed(engine: EndpointParts, container: Container) -> None:
    """Make the new name known; nothing happens for a container that does not run or has no network with names."""
    state = container.snapshot()
    pairs = wires.places(engine, container)
    if not state.alive or not has_resolver(pairs):
        return
    for network, endpoint in pairs:
        if network.user_defined:
            names = tuple(requested.dns_names(container, container.networking[network.name]))
            engine.networks.update(replace(endpoint, names=names))
    try:
        netns = wires.namespace(state.pid, state.pid_start)
    except SystemFailure:
        return  # the container has ended since: its name is not to be answered any more
    try:
        wires.make_known(engine, container, wires.places(engine, container), netns, state.pid, state.pid_start)
    except SystemFailure as error:  # the container has its new name, even where the resolver does not know it
        log.warning("container %s: the resolver could not be told its new name: %s", container.id, error)
    finally:
        os.close(netns)
