"""Container links, by which a container has its own names for other containers, looked up at each start.

There are two kinds, as in docker. Links of HostConfig, in the default network, become lines of /etc/hosts, and open the
firewall to the other's exposed ports where that network has enable_icc off. The environment variables that they once
set are in `linkvariables`. Links of an endpoint, in a user-defined network, are names that the resolver gives to that
container alone. Runs in the daemon's threads; loaded with the first container that has a link.
"""

import posixpath
from collections.abc import Iterator

from engine.daemon.containers import paths
from engine.daemon.containers.endpoints import hosts
from engine.daemon.containers.ports import exposed_ports
from engine.daemon.containers.record import Container
from engine.daemon.network.record import DEFAULT, Endpoint, Network
from engine.daemon.parts import EndpointParts
from engine.daemon.store import containers as table
from engine.errors import EngineError, Invalid, NotFound

_ON_HOST = "conflicting options: host type networking can't be used with links. This would result in undefined behavior"


def parse(text: str) -> tuple[str, str]:
    """(the other container's name, the alias) of `name`, `name:alias` or `/name:/ours/alias`. Raises Invalid."""
    if not text:
        raise Invalid("empty string specified for links")
    name, colon, alias = text.partition(":")
    if ":" in alias:
        raise Invalid(f"bad format for links: {text}")
    if not colon:
        return name, name
    if name.startswith("/"):  # the form in which inspect shows a link
        return name[1:], posixpath.basename(alias)
    return name, alias


def resolved(engine: EndpointParts, links: list[str]) -> list[str]:
    """The Links of a new container in the form of the record, `id of the other:alias`.

    Of two links with one alias the first counts. Raises Invalid where the other container does not exist or cannot be
    linked to.
    """
    found: dict[str, str] = {}
    for text in links:
        name, alias = parse(text)
        other = _other(engine, name)
        found.setdefault(alias, other.id)
    return [f"{other}:{alias}" for alias, other in found.items()]


def _other(engine: EndpointParts, name: str) -> Container:
    try:
        other = engine.containers.find(name)
        while other.host_config["NetworkMode"].startswith("container:"):
            name = other.host_config["NetworkMode"].partition(":")[2]
            other = engine.containers.find(name)
    except NotFound as error:
        raise Invalid(f"could not get container for {name}: {error}") from error
    if other.host_config["NetworkMode"] == "host":
        raise Invalid(_ON_HOST)
    return other


def children(engine: EndpointParts, container: Container) -> Iterator[tuple[str, Container]]:
    """(alias, the other container) of each of the container's links, without links to containers that are gone."""
    for text in container.host_config["Links"] or ():
        other, _, alias = text.partition(":")
        if other in engine.containers:
            yield alias, engine.containers.find(other)


def unlink(engine: EndpointParts, name: str) -> None:
    """Remove a link by its whole name, `container/alias`. Raises NotFound; EngineError for a name that is no link's."""
    of, _, alias = name.strip("/").rpartition("/")
    if not of:
        engine.containers.find(name)
        raise EngineError("Conflict, cannot remove the default link name of the container")
    container = engine.containers.find(of)
    with container.operation:
        found = dict(children(engine, container))
        if alias not in found:
            raise NotFound(f"No such container: {name}")
        left = [text for text in container.host_config["Links"] or () if text.partition(":")[2] != alias]
        with container.changed:
            container.host_config = {**container.host_config, "Links": left or None}
            with engine.database.transaction(durable=True, frees=True) as connection:
                table.save_settings(connection, container)
        if container.state.alive:
            hosts.renew(_hosts_of(engine, container), _names(alias, found[alias]), "")
            _close_way(engine, container, found[alias])


def _close_way(engine: EndpointParts, container: Container, other: Container) -> None:
    """Close what `open_ways` has opened to this container, unless another alias leads there too."""
    if any(each is other for _, each in children(engine, container)):
        return
    for ours in engine.networks.endpoints(container_id=container.id):
        network = engine.networks.find(ours.network)
        for theirs in engine.networks.endpoints(network.id, other.id) if network.name == DEFAULT else ():
            engine.firewall.link(network, ours, theirs, ())


def _hosts_of(engine: EndpointParts, container: Container) -> str:
    return paths.of(engine.settings.data_root, engine.settings.exec_root, container.id).etc("hosts")


def shown(engine: EndpointParts, container: Container) -> list[str] | None:
    """The container's Links of HostConfig in the form that inspect shows."""
    return [f"/{other.name}:/{container.name}/{alias}" for alias, other in children(engine, container)] or None


def aliases(engine: EndpointParts) -> dict[str, list[str]]:
    """Container's id → the link names that other containers have for it, which a listing shows after its own name."""
    found: dict[str, list[str]] = {}
    for container in engine.containers.all():
        for alias, other in children(engine, container):
            found.setdefault(other.id, []).append(f"/{container.name}/{alias}")
    return found


def linked(engine: EndpointParts, container: Container) -> list[tuple[str, Container, Endpoint]]:
    """What `running` returns, if every linked container is there.

    Raises docker's error where one does not run or is not in the default network.
    """
    found = running(engine, container)
    there = {other.id for _, other, _ in found}
    for alias, other in children(engine, container):
        if not other.snapshot().alive:
            raise EngineError(f"Cannot link to a non running container: /{other.name} AS /{container.name}/{alias}")
        if other.id not in there:
            raise EngineError(f"container {other.id} not attached to default bridge network")
    return found


def running(engine: EndpointParts, container: Container) -> list[tuple[str, Container, Endpoint]]:
    """(alias, container, its endpoint in the default network) of each linked container that is in that network now."""
    network = engine.networks.find(DEFAULT)
    return [
        (alias, other, endpoint)
        for alias, other in children(engine, container)
        for endpoint in engine.networks.endpoints(network.id, other.id)
    ]


def lines(links: list[tuple[str, Container, Endpoint]]) -> str:
    """The lines of these links in /etc/hosts."""
    return "".join(hosts.lines(_names(alias, other), endpoint) for alias, other, endpoint in links)


def _names(alias: str, other: Container) -> str:
    return " ".join(dict.fromkeys((alias, other.config["Hostname"], other.name)))


def open_ways(
    engine: EndpointParts, network: Network, ours: Endpoint, links: list[tuple[str, Container, Endpoint]]
) -> None:
    """Let the container reach the exposed ports of its linked containers, where the network has enable_icc off."""
    for _, other, endpoint in links:
        engine.firewall.link(network, ours, endpoint, exposed_ports(other))


def tell_parents(engine: EndpointParts, container: Container, network: Network, endpoint: Endpoint) -> None:
    """Update hosts lines and firewall rules of running containers that link to this one, whose address is new."""
    for parent in engine.containers.all():
        if not (parent.host_config["Links"] and parent.state.alive):
            continue
        for alias, other in children(engine, parent):
            theirs = engine.networks.endpoints(network.id, parent.id)
            if other is container and theirs:
                names = _names(alias, other)
                hosts.renew(_hosts_of(engine, parent), names, hosts.lines(names, endpoint))
                engine.firewall.link(network, theirs[0], endpoint, exposed_ports(other))


def of_endpoints(container: Container, networks: list[Network]) -> dict[str, dict[str, str]]:
    """Network's id → alias → the other container's name, of the links in user-defined networks. Raises Invalid."""
    found = {}
    for network in networks:
        settings = container.networking.get(network.name)
        links = settings.get("Links") if settings else None
        if links and network.user_defined:
            found[network.id] = {alias: name for name, alias in map(parse, links)}
    return found
