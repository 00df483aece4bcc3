"""Move a running container's published ports to other networks when a connect or a disconnect changes its ways out.

A container's ports are published through the networks that its default routes lead to, and through those that route
(`gateways.published_through`). Runs in the API's threads, under `Container.operation`.
"""

import logging
from collections.abc import Iterable, Mapping

from engine.daemon.containers.endpoints import portspecs, wires
from engine.daemon.containers.record import Container
from engine.daemon.network import gateways, publishing
from engine.daemon.network.record import Network, Pair, PortRequest, Published
from engine.daemon.parts import EndpointParts
from engine.dataclass import replace
from engine.errors import EngineError

log = logging.getLogger(__name__)


def settle(engine: EndpointParts, container: Container, *, required: bool = False) -> None:
    """Publish the container's ports through the right networks; a port that stays where it is stays open.

    A driver that is a plugin is told to publish them, or to do so no more.

    A failure is logged, as no caller is left who could be told; with `required` it is raised as docker's error.
    """
    pairs = wires.places(engine, container)
    try:
        engine.networks.lead_out(pairs, None)
        _move(engine, container)
        engine.networks.lead_out(wires.places(engine, container), lambda: portspecs.told(container))
    except EngineError as error:
        if required:
            raise
        names = ", ".join(network.name for network, _ in pairs)
        log.warning("container %s: its ports could not be published through %s: %s", container.id, names, error)


def _move(engine: EndpointParts, container: Container) -> None:
    requests = portspecs.requests(container)
    if not requests:
        return
    pairs = wires.places(engine, container)
    through = gateways.published_through(pairs)
    staying: list[Pair] = []
    missing: list[tuple[Network, frozenset[int]]] = []
    for network, endpoint in pairs:
        versions = through.get(network.id, frozenset())
        had = {publishing.version_of(port.host_ip) for port in endpoint.ports}
        if versions - had:
            missing.append((network, versions - had))
        kept = tuple(port for port in endpoint.ports if publishing.version_of(port.host_ip) in versions)
        staying.append((network, replace(endpoint, ports=kept)))
    _save(engine, container, staying, pairs)
    if missing:
        with wires.Worded(wires.NO_PORT.format(container.name)):
            _publish(engine, container, staying, missing, requests)


def _publish(
    engine: EndpointParts,
    container: Container,
    before: list[Pair],
    missing: list[tuple[Network, frozenset[int]]],
    requests: list[PortRequest],
) -> None:
    wires.bring_up_gateways(engine, (request.host_ip for request in requests))
    new = engine.ports.reserve(container.id, missing, requests)
    if not any(new.values()):
        return
    after = [
        (network, replace(endpoint, ports=(*endpoint.ports, *new.get(network.id, ())))) for network, endpoint in before
    ]
    try:
        _save(engine, container, after, before)
        state = container.state
        endpoints = [endpoint for _, endpoint in after]
        engine.ports.lead(endpoints, state.pid, state.pid_start, engine.firewall.families())
    except EngineError:
        _take_back(engine, container, before, new)
        raise


def _save(engine: EndpointParts, container: Container, pairs: Iterable[Pair], before: Iterable[Pair]) -> None:
    """Record the endpoints whose ports have changed, have the firewall follow, and let go of the ports that are gone.

    Where the firewall fails, the endpoint keeps the ports that it had, and they go with it.
    """
    for (network, endpoint), (_, known) in zip(pairs, before, strict=True):
        if endpoint == known:
            continue
        engine.networks.update(endpoint)
        try:
            engine.firewall.publish(network, endpoint)
        except BaseException:
            engine.networks.update(known)
            raise
        gone = [port for port in known.ports if port not in endpoint.ports]
        if gone:
            engine.ports.release(container.id, gone)


def _take_back(
    engine: EndpointParts, container: Container, before: Iterable[Pair], new: Mapping[str, tuple[Published, ...]]
) -> None:
    try:
        for network, endpoint in before:
            if new.get(network.id):
                engine.firewall.withdraw(network, endpoint)
                engine.networks.update(endpoint)
                if endpoint.ports:
                    engine.firewall.publish(network, endpoint)
    finally:
        engine.ports.release(container.id, [port for ports in new.values() for port in ports])
