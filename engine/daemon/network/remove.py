"""DELETE /networks/{id} and POST /networks/prune: removes networks, or only what the kernel has of idle ones.

What the kernel has of a network are its firewall rules and its device. Runs in the daemon's request threads, and in
the main thread when the daemon stops.
"""

import logging
from collections.abc import Mapping

from engine.daemon import locks
from engine.daemon.network import filters
from engine.daemon.network.record import DEFAULT, Network
from engine.daemon.parts import NetworkParts
from engine.errors import Conflict, EngineError

log = logging.getLogger(__name__)

_pruning = locks.Lock("pruning of networks")


def remove(engine: NetworkParts, network: Network) -> None:
    """Remove a network. Raises Forbidden while it is in use, NotFound, SystemFailure where the kernel refuses."""
    with engine.networks.removing(network) as staying:
        engine.firewall.close_network(network)
        engine.wiring.remove(network, staying)


def prune(engine: NetworkParts, asked: Mapping[str, tuple[str, ...]]) -> list[Network]:
    """Remove the networks that the filters choose and no container uses; configurations and predefined networks stay.

    A network that cannot be removed, as a container has just begun to use it, is left out. Raises Invalid, and Conflict
    while another prune is under way.
    """
    chosen = filters.pruned(asked)
    if not _pruning.acquire(blocking=False):
        raise Conflict("a prune operation is already running")
    try:
        removed = [network for network in engine.networks.all() if chosen(network) and _pruned(engine, network)]
    finally:
        _pruning.release()
    engine.events.publish("network", "prune", "", {"reclaimed": "0"})
    return removed


def put_away(engine: NetworkParts, *, asleep: bool) -> None:
    """Remove the rules and devices of networks without containers; the next daemon makes them again if it needs them.

    An earlier daemon may have made them, for containers that have ended while none ran: the mark on a device tells.
    A daemon may be stopped for good: its bridges would keep their addresses from everybody. While it is only asleep,
    containers of other networks may call the host by the default bridge's address.
    """
    called = asleep and any(endpoint.interface for endpoint in engine.networks.endpoints())
    used = {each.network for each in engine.networks.endpoints()}
    try:
        networks = engine.networks.all()
        staying = [each for each in networks if each.id in used or (called and each.name == DEFAULT)]
        made = engine.wiring.made(each for each in networks if each not in staying)
    except EngineError as error:
        log.warning("the devices of networks could not be removed: %s", error)
        return
    for network in made:
        try:
            engine.firewall.close_network(network)
            engine.wiring.remove(network, staying)
        except EngineError as error:
            log.warning("the device of network %s could not be removed: %s", network.name, error)


def _pruned(engine: NetworkParts, network: Network) -> bool:
    if network.builtin or network.config_only or engine.networks.endpoints(network.id):
        return False
    try:
        remove(engine, network)
    except EngineError as error:
        log.warning("network %s was not pruned: %s", network.name, error)
        return False
    return True
