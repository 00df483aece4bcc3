"""Give back what a run had of its networks when it ends: names, firewall rules, ports and addresses, in this order.

Runs in the thread that hears of an end, in the thread whose start has failed, and at a daemon's start in the main
thread. The wire itself goes with the container's namespace, and no thread waits for that (see `leavings`).
"""

import logging

from engine.daemon.containers.endpoints import leavings, wires
from engine.daemon.containers.record import Container
from engine.daemon.containers.security import joins
from engine.daemon.network.record import Endpoint, Network
from engine.daemon.parts import EndpointParts
from engine.errors import SystemFailure

log = logging.getLogger(__name__)


def release(engine: EndpointParts, container: Container) -> None:
    """Give back all endpoints of a run that has ended; they are gone when this returns."""
    pairs = wires.places(engine, container)
    if pairs:
        wired = [endpoint.host_interface for _, endpoint in pairs if endpoint.host_interface]
        leavings.note(engine, wired)
        give_back(engine, container, pairs)
        leavings.take_away(engine, wired, held=joins.has_guests(engine, container))


def give_back(engine: EndpointParts, container: Container, pairs: wires.Pairs, *, told: bool = True) -> None:
    """Take away everything that these endpoints have, but for their wires. told: the event `connect` was published.

    Never raises: what stays is logged, and the daemon's next start takes it away.
    """
    endpoints = [endpoint for _, endpoint in pairs]
    engine.names.leave(endpoints)  # all: the resolver may still serve one that has left its last named network
    for network, endpoint in pairs:
        if network.driver == "bridge":
            engine.firewall.withdraw(network, endpoint)
    if any(endpoint.ports for endpoint in endpoints):
        engine.ports.release(container.id)
    _free(engine, container, endpoints)
    wires.tell_apart(engine)
    if told:
        for network, _ in pairs:
            wires.tell(engine, container, network, "disconnect")


def _free(engine: EndpointParts, container: Container, endpoints: list[Endpoint]) -> None:
    """Free the addresses, after the wires are silenced so that nothing answers to these addresses any more."""
    wired = [endpoint for endpoint in endpoints if endpoint.host_interface]
    try:
        if wired:
            engine.wiring.silence(wired)
        engine.networks.leave(endpoints)
    except SystemFailure as error:  # a full disk
        log.warning("container %s: its addresses could not be freed yet: %s", container.id, error)


def unplug_all(engine: EndpointParts, pairs: list[tuple[Network, Endpoint]]) -> None:
    """Take away the host's ends of wires whose containers have ended, if they still exist."""
    for network, endpoint in pairs:
        try:
            engine.wiring.unplug(network, endpoint, None)
        except SystemFailure as error:
            log.warning(
                "network %s: the interface %s could not be removed: %s", network.name, endpoint.host_interface, error
            )
