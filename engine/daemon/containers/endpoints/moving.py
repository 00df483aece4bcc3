"""Move a running container's published ports to another network when a connect or a disconnect changes its way out.

A container's ports are published through the one network that leads out of the host (`wires.way_out`). Runs in the
API's threads, under `Container.operation`.
"""

import logging

from engine.daemon.containers.endpoints import portspecs, wires
from engine.daemon.containers.record import Container
from engine.daemon.network.record import Endpoint, Network, PortRequest
from engine.daemon.parts import EndpointParts
from engine.dataclass import replace
from engine.errors import EngineError

log = logging.getLogger(__name__)


def settle(engine: EndpointParts, container: Container, *, required: bool = False) -> None:
    """Publish the container's ports through the right network.

    A failure is logged, as no caller is left who could be told; with `required` it is raised as docker's error.
    """
    requests = portspecs.requests(container)
    if not requests:
        return
    pairs = wires.places(engine, container)
    holder = next((pair for pair in pairs if pair[1].ports), None)
    chosen = wires.way_out(container, [network for network, _ in pairs])
    target = next((pair for pair in pairs if pair[0] is chosen), None)
    if (target and target[0]) is (holder and holder[0]):
        return
    if holder is not None:
        network, endpoint = holder
        engine.firewall.withdraw(network, endpoint)
        engine.ports.release(container.id)
        engine.networks.update(replace(endpoint, ports=()))
    if target is not None:
        try:
            _publish(engine, container, *target, requests)
        except EngineError as error:
            if required:
                raise
            log.warning(
                "container %s: its ports could not be published through network %s: %s",
                container.id,
                target[0].name,
                error,
            )


def _publish(
    engine: EndpointParts, container: Container, network: Network, endpoint: Endpoint, requests: list[PortRequest]
) -> None:
    published = endpoint
    try:
        wires.bring_up_gateways(engine, (request.host_ip for request in requests))
        with wires.Worded(wires.NO_PORT.format(container.name)):
            published = replace(endpoint, ports=engine.ports.reserve(container.id, network, requests))
            engine.networks.update(published)
            engine.firewall.publish(network, published)
            state = container.state
            engine.ports.lead(published, state.pid, state.pid_start, engine.firewall.families())
    except EngineError:
        engine.firewall.withdraw(network, published)
        engine.ports.release(container.id)
        engine.networks.update(endpoint)
        raise
