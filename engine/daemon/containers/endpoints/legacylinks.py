"""Links: names by which a container knows another one, and what is looked up for them at each start.

Two kinds, as docker has them. Links of HostConfig, in the default network, stand in /etc/hosts and open the way to the
other's exposed ports where that network is closed within; the environment variables that they once set are gone in
docker too. Links of an endpoint, in a user-defined network, are names that the resolver gives to that container alone.
Runs in the daemon's threads; loaded with the first container that has a link.
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
    if name.startswith("/"):  # as inspect shows it
        return name[1:], posixpath.basename(alias)
    return name, alias


def resolved(engine: EndpointParts, links: list[str]) -> list[str]:
    """The Links of a new container in the form that is kept: `id of the other:alias`; of one alias the first holds.

    Raises Invalid where there is no such container, or none that can be linked to.
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
    """(alias, the other container) of its links, without those to containers that are no more."""
    for text in container.host_config["Links"] or ():
        other, _, alias = text.partition(":")
        if other in engine.containers:
            yield alias, engine.containers.find(other)


def unlink(engine: EndpointParts, name: str) -> None:
    """Take away a link by its whole name, `container/alias`. Raises NotFound; EngineError for no link's name."""
    of, _, alias = name.strip("/").rpartition("/")
    if not of:
        engine.containers.find(name)
        raise EngineError("Conflict, cannot remove the default link name of the container")
    container = engine.containers.find(of)
    with container.operation:
        found = dict(children(engine, container))
        if alias not in found:
            raise NotFound(f"No such container: {name}")
        left = [text for text in container.host_config["Links"] if text.partition(":")[2] != alias]
        with container.changed:
            container.host_config = {**container.host_config, "Links": left or None}
            with engine.database.transaction(durable=True, frees=True) as connection:
                table.save_settings(connection, container)
        if container.state.alive:
            hosts.renew(_hosts_of(engine, container), _names(alias, found[alias]), "")


def _hosts_of(engine: EndpointParts, container: Container) -> str:
    return paths.of(engine.settings.data_root, engine.settings.exec_root, container.id).etc("hosts")


def shown(engine: EndpointParts, container: Container) -> list[str] | None:
    """The Links of its HostConfig as inspect has them."""
    return [f"/{other.name}:/{container.name}/{alias}" for alias, other in children(engine, container)] or None


def aliases(engine: EndpointParts) -> dict[str, list[str]]:
    """Container's id → the names that others have for it, as a listing shows them beside its own."""
    found: dict[str, list[str]] = {}
    for container in engine.containers.all():
        for alias, other in children(engine, container):
            found.setdefault(other.id, []).append(f"/{container.name}/{alias}")
    return found


def linked(engine: EndpointParts, container: Container) -> list[tuple[str, Container, Endpoint]]:
    """What `running` gives, of all that it links to. Raises in docker's words where one does not run, or not there."""
    found = running(engine, container)
    there = {other.id for _, other, _ in found}
    for alias, other in children(engine, container):
        if not other.snapshot().alive:
            raise EngineError(f"Cannot link to a non running container: /{other.name} AS /{container.name}/{alias}")
        if other.id not in there:
            raise EngineError(f"Cannot link to /{other.name}, as it does not belong to the default network")
    return found


def running(engine: EndpointParts, container: Container) -> list[tuple[str, Container, Endpoint]]:
    """(alias, container, its endpoint in the default network) of those that it links to and that are there now."""
    network = engine.networks.find(DEFAULT)
    return [
        (alias, other, endpoint)
        for alias, other in children(engine, container)
        for endpoint in engine.networks.endpoints(network.id, other.id)
    ]


def lines(links: list[tuple[str, Container, Endpoint]]) -> str:
    """Those links in /etc/hosts."""
    return "".join(hosts.lines(_names(alias, other), endpoint) for alias, other, endpoint in links)


def _names(alias: str, other: Container) -> str:
    return " ".join(dict.fromkeys((alias, other.config["Hostname"], other.name)))


def open_ways(
    engine: EndpointParts, network: Network, ours: Endpoint, links: list[tuple[str, Container, Endpoint]]
) -> None:
    """Let the container come to the exposed ports of those that it links to, where the network is closed within."""
    for _, other, endpoint in links:
        engine.firewall.link(network, ours, endpoint, exposed_ports(other))


def tell_parents(engine: EndpointParts, container: Container, network: Network, endpoint: Endpoint) -> None:
    """A container has another address now: those that run and link to it are to find it there."""
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
    """Network's id → alias → the other's name, of the links in user-defined networks. Raises Invalid."""
    found = {}
    for network in networks:
        links = (container.networking.get(network.name) or {}).get("Links")
        if links and network.user_defined:
            found[network.id] = {alias: name for name, alias in map(parse, links)}
    return found
