"""Update a container's hosts and resolv.conf when its networks change, at a start and while it runs.

Runs in the daemon's threads, under the container's `operation`; loaded with the first container that starts.
"""

import contextlib
from collections.abc import Iterator

from engine.daemon.containers import files, paths
from engine.daemon.containers.endpoints import hosts, requested, wires
from engine.daemon.containers.record import Container
from engine.daemon.network.record import DEFAULT, Endpoint, has_resolver
from engine.daemon.parts import EndpointParts
from engine.errors import EngineError, SystemFailure
from engine.kernel import reasons
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded for containers of other runtimes
    from engine.daemon.containers.security import apart
else:
    apart = late("engine.daemon.containers.security.apart")

_NO_GATEWAY = "unable to derive the IP value for host-gateway"


def write(engine: EndpointParts, container: Container, pairs: wires.Pairs, links: str) -> None:
    """Write both files for a run. links: lines that follow the container's own. Raises SystemFailure."""
    where = _where(engine, container)
    text = files.first_hosts(container) + hosts.extra(container, _gateways(engine, container))
    text += hosts.own(container, (endpoint for _, endpoint in pairs)) + links
    with _failing():
        files.write_hosts(where, text)
        _write_resolv_conf(engine, container, pairs)


def _write_resolv_conf(engine: EndpointParts, container: Container, pairs: wires.Pairs) -> None:
    """The resolver's address reaches no container that has a kernel of its own: it gets the host's servers."""
    ipv6 = any(endpoint.ipv6 for _, endpoint in pairs)
    asks = has_resolver(pairs) and not apart.of(engine, container)
    files.write_resolv_conf(_where(engine, container), engine.settings, container, asks, ipv6=ipv6)


def add(engine: EndpointParts, container: Container, endpoint: Endpoint, pairs: wires.Pairs) -> None:
    """Update both files for one more endpoint; pairs: all endpoints of the container with their networks."""
    where = _where(engine, container)
    with _failing():
        hosts.add(where.etc("hosts"), hosts.own(container, (endpoint,)))
        _write_resolv_conf(engine, container, pairs)


def drop(engine: EndpointParts, container: Container, endpoint: Endpoint, pairs: wires.Pairs) -> None:
    """Update both files for an endpoint that is gone; pairs: the endpoints that stay, with their networks."""
    where = _where(engine, container)
    with _failing():
        hosts.drop(where.etc("hosts"), hosts.own(container, (endpoint,)))
        _write_resolv_conf(engine, container, pairs)


def _where(engine: EndpointParts, container: Container) -> paths.Paths:
    return paths.of(engine.settings.data_root, engine.settings.exec_root, container.id)


@contextlib.contextmanager
def _failing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SystemFailure(f"cannot write the container's hosts or resolv.conf: {reasons.whole(error)}") from error


def _gateways(engine: EndpointParts, container: Container) -> tuple[str, ...]:
    """The host's addresses for `host-gateway`, empty for a container that does not ask for them.

    From here on the bridge that has these addresses exists. Raises EngineError where there is no address.
    """
    if not hosts.asks_for_gateway(container):
        return ()
    if not engine.settings.host_gateway_ips and engine.networks.has_default:
        wires.bring_up(engine, engine.networks.begin())
    found = gateways(engine)
    if not found:
        raise EngineError(_NO_GATEWAY)
    return found


def gateways(engine: EndpointParts) -> tuple[str, ...]:
    """The host's addresses that `host-gateway` stands for; empty where there are none."""
    if engine.settings.host_gateway_ips:
        return engine.settings.host_gateway_ips
    network = requested.find(engine, DEFAULT)
    return tuple(pool.gateway for pool in network.pools if pool.gateway) if network else ()
