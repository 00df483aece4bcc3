"""Shared steps of start, connect and disconnect: find a container's networks, bring up devices, publish network events.

A wire is the veth pair (or the macvlan or ipvlan interface) that connects a container's network namespace to a
network's device. Runs in the daemon's threads, under the container's `operation`; loaded with the first container that
starts.
"""

import logging
from collections.abc import Iterable

from engine.daemon.containers.endpoints import requested
from engine.daemon.containers.record import Container
from engine.daemon.network.record import DEFAULT, Network, Pair
from engine.daemon.parts import EndpointParts
from engine.errors import EngineError, NotFound, SystemFailure
from engine.late import TYPE_CHECKING, late
from engine.sandbox import namespaces
from engine.settings.runtimes import OWN

if TYPE_CHECKING:  # loaded for containers of other runtimes
    from engine.daemon.containers.endpoints import apartnames
else:
    apartnames = late("engine.daemon.containers.endpoints.apartnames")

if TYPE_CHECKING:  # loaded for the few containers that have links
    from engine.daemon.containers.endpoints import legacylinks
else:
    legacylinks = late("engine.daemon.containers.endpoints.legacylinks")

log = logging.getLogger(__name__)

Pairs = tuple[Pair, ...]

NO_PORT = "driver failed programming external connectivity on endpoint {}: "


class Worded:
    """A context that puts docker's words before those of an EngineError, and keeps its type."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: type | None, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, EngineError):
            raise type(error)(f"{self._prefix}{error}") from error


def networks_of(engine: EndpointParts, container: Container) -> dict[str, Network]:
    """The networks that a container is to be in, by their names in its record; NetworkMode's first, which is eth0.

    Raises NotFound in docker's words; Invalid for networks that exclude each other, SystemFailure for what would be
    put into the host's namespace.
    """
    started = container.state.started_ns
    found = {}
    for name, settings in container.networking.items():
        if name == DEFAULT and not engine.networks.has_default:
            continue  # as in dockerd: a container that asks for nothing else has only its loopback then
        # A container that has run is bound to a network by its id: the network may have been removed, and another have
        # its name.
        known = settings["NetworkID"] if started else ""
        found[name] = engine.networks.find(known or name)
    if container.host_config["NetworkMode"] == "host" and any(network.wired for network in found.values()):
        raise SystemFailure(requested.SHARES_A_NETWORK)
    if len(found) < 2:
        return found
    for network in found.values():
        requested.check_beside(engine, container, network)
    mode = container.host_config["NetworkMode"]
    return dict(sorted(found.items(), key=lambda each: (mode not in (each[0], each[1].id), each[0])))


def places(engine: EndpointParts, container: Container) -> Pairs:
    """The container's endpoints and their networks, as they are now."""
    found = []
    for endpoint in engine.networks.endpoints(container_id=container.id):
        try:
            found.append((engine.networks.find(endpoint.network), endpoint))
        except NotFound:  # a network with endpoints is not removed, unless by hand in the database
            continue
    return tuple(found)


def bring_up(engine: EndpointParts, network: Network) -> None:
    """Have the network's device on the host, with its firewall rules, before a container is plugged into it.

    The default bridge comes with the first device of any network: containers of all of them call the host by its
    address. Of a network that is removed meanwhile, as no endpoint keeps it, neither stays.
    """
    if engine.wiring.ensure(network):
        engine.wiring.attach(network, engine.networks.endpoints(network.id))
        if not engine.networks.stays(network):
            engine.firewall.close_network(network)
            engine.wiring.remove(network, filter(engine.networks.stays, engine.networks.all()))
            return
        if network.name != DEFAULT and engine.networks.has_default:
            _bring_up_default(engine)


def begin(engine: EndpointParts, *, required: bool) -> None:
    """At the daemon's start: raise the error of a default network that cannot be as the settings have it.

    A daemon of dockerd's name has the devices of all its networks from here on. required: False for one that wakes up,
    which logs the error
    """
    early = engine.settings.as_dockerd
    try:
        if engine.networks.has_default:
            with Worded('error creating default "bridge" network: '):
                network = engine.networks.begin() if early else engine.networks.find(DEFAULT)
                if early:
                    bring_up(engine, network)
    except EngineError as error:
        if required:
            raise
        log.error("%s", error)
    for network in engine.networks.all() if early else ():
        if not engine.wiring.knows(network):
            try:
                bring_up(engine, network)
            except EngineError as error:
                log.warning("the device of network %s could not be set up: %s", network.name, error)


def _bring_up_default(engine: EndpointParts) -> None:
    try:
        network = engine.networks.begin()
        if not engine.wiring.knows(network):
            bring_up(engine, network)
    except EngineError as error:  # the other network goes without
        log.warning("the default bridge could not be set up: %s", error)


def bring_up_gateways(engine: EndpointParts, addresses: Iterable[str]) -> None:
    """Have the bridges whose own addresses are among these, so that ports can be published there."""
    wanted = set(addresses) - {"", "0.0.0.0", "::"}
    for network in engine.networks.all() if wanted else ():
        if network.driver == "bridge" and any(pool.gateway in wanted for pool in network.pools):
            bring_up(engine, network)


def namespace(pid: int, pid_start: int) -> int:
    """A descriptor of the network namespace of a process; the caller closes it. Raises SystemFailure."""
    return namespaces.open_one("net", pid, pid_start)


def preferred(pairs: Pairs) -> Pairs:
    """The pairs by GwPriority, highest first, then by the networks' names."""
    return tuple(sorted(pairs, key=lambda pair: (-pair[1].priority, pair[0].name)))


def links_of(container: Container, pairs: Pairs) -> dict[str, dict[str, str]]:
    """Network's id → alias → the name that the alias stands for, for this container alone."""
    asked = (container.networking.get(network.name) for network, _ in pairs)
    if not any(settings and settings.get("Links") for settings in asked):
        return {}
    return legacylinks.of_endpoints(container, [network for network, _ in pairs])


def make_known(engine: EndpointParts, container: Container, pairs: Pairs, netns: int, pid: int, pid_start: int) -> None:
    """Have the resolver answer to the container's names, and answer its queries, in its user-defined networks."""
    links = links_of(container, pairs)
    engine.names.join(preferred(pairs), netns, pid, pid_start, container.host_config, links)
    tell_apart(engine, container)


def tell_apart(engine: EndpointParts, starting: Container | None = None) -> None:
    """Names have come or gone: tell the containers that cannot ask the resolver. Never raises."""
    if engine.containers.any(_is_of_another_runtime):
        apartnames.renew(engine, starting)


def _is_of_another_runtime(container: Container) -> bool:
    return container.host_config["Runtime"] not in OWN


def tell(engine: EndpointParts, container: Container, network: Network, action: str) -> None:
    """Publish the network event `connect` or `disconnect`."""
    told = {"container": container.id, "name": network.name, "type": network.driver}
    engine.events.publish("network", action, network.id, told)
