"""Keep the names of a network's containers in the hosts file of those members that have a kernel of their own.

The resolver's address does not reach such a container (see `security.apart`). So its /etc/hosts has the names and
addresses of the others in its user-defined networks, and is written anew whenever one of them comes, goes or is
renamed. Runs in the daemon's threads, under the `operation` of the container whose names have changed, which need not
be the one whose file is written; loaded for the few hosts that have such containers.
"""

import logging

from engine.daemon import locks
from engine.daemon.containers import paths
from engine.daemon.containers.endpoints import hosts
from engine.daemon.containers.record import Container
from engine.daemon.containers.security import apart
from engine.daemon.network.record import Endpoint, Network
from engine.daemon.parts import EndpointParts
from engine.errors import NotFound
from engine.settings.runtimes import OWN

log = logging.getLogger(__name__)

_writing = locks.Lock("names in hosts files")  # whoever comes last has seen the latest endpoints


def renew(engine: EndpointParts, starting: Container | None) -> None:
    """Write the names of all other containers for each that runs, or is starting. Never raises."""
    with _writing:
        for container in engine.containers.all():
            if container.host_config["Runtime"] in OWN or not (container is starting or container.state.alive):
                continue
            try:
                if apart.of(engine, container):
                    where = paths.of(engine.settings.data_root, engine.settings.exec_root, container.id)
                    hosts.set_others(where.etc("hosts"), _others(engine, container))
            except OSError as error:
                log.warning("container %s: the names of others cannot be written: %s", container.id, error)


def _others(engine: EndpointParts, container: Container) -> str:
    text = ""
    for own in engine.networks.endpoints(container_id=container.id):
        try:
            network = engine.networks.find(own.network)
        except NotFound:  # it is being removed
            continue
        if network.user_defined:
            others = (each for each in engine.networks.endpoints(network.id) if each.container != container.id)
            text += "".join(hosts.lines(_names(network, each), each) for each in others if each.names)
    return text


def _names(network: Network, endpoint: Endpoint) -> str:
    """As the resolver answers to them: alone, and with the network's name behind. An odd alias is left out."""
    plain = [name for name in endpoint.names if name.split() == [name] and "#" not in name]
    return " ".join((*plain, *(f"{name}.{network.name}" for name in plain)))
