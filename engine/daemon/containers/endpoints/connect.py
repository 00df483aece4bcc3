"""Connect a container to a network: record it, and if the container runs, plug a wire into its namespace at once.

Runs in the API's threads, under `Container.operation`, so that no start and no other connect comes between. The end of
the run may come at any moment. A connect that finds at last that the run is over takes back what it has made for it.
"""

import contextlib
import os

from engine.daemon.containers import config
from engine.daemon.containers.endpoints import ending, etc, hosts, keeping, moving, portspecs, requested, wires
from engine.daemon.containers.record import Container, State
from engine.daemon.containers.shapes import EndpointSettings
from engine.daemon.jsontext import Object
from engine.daemon.measured import timed
from engine.daemon.network.record import Network, has_resolver
from engine.daemon.parts import EndpointParts
from engine.errors import Conflict, Forbidden, Invalid, NotFound, SystemFailure
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded for containers of other runtimes
    from engine.daemon.containers.security import apart
else:
    apart = late("engine.daemon.containers.security.apart")

_NOT_RUNNING = "container {} is not running"


@timed("network_actions", "connect")
def connect(engine: EndpointParts, network_reference: str, container_reference: str, settings: Object | None) -> None:
    """Connect the container. settings: EndpointSettings of the API, or None.

    Raises docker's errors; then nothing of the connection is left.
    """
    if not container_reference:
        raise Invalid('invalid name or ID supplied: ""')
    container = engine.containers.find(container_reference)
    wanted = config.endpoint(settings)
    with container.operation:
        state = container.settled()
        if container.removed or state.status in ("removing", "dead"):
            raise Conflict(requested.REMOVED.format(container.id))
        network = requested.find(engine, network_reference)
        if network is None and state.alive:
            raise NotFound(f"network {network_reference} not found")
        requested.check(network, network.name if network else network_reference, wanted)
        if network is None:  # it may be there by the next start, as that of a create
            keeping.keep(engine, container, {**container.networking, network_reference: wanted}, durable=True)
            return
        requested.check_beside(engine, container, network)
        wanted = {**wanted, "NetworkID": network.id}
        if state.alive:
            apart.refuse(engine, container, "connecting a running container to a network")
            _plug_in(engine, container, network, wanted, state)
        elif network.name not in container.networking:
            wanted = requested.for_join(container, network, wanted)
            keeping.keep(engine, container, {**container.networking, network.name: wanted}, durable=True)


def _plug_in(
    engine: EndpointParts, container: Container, network: Network, wanted: EndpointSettings, state: State
) -> None:
    if engine.networks.endpoints(network.id, container.id):
        raise Forbidden(f"endpoint with name {container.name} already exists in network {network.name}")
    exits = container.exits
    try:
        netns = wires.namespace(state.pid, state.pid_start)
    except SystemFailure as error:
        raise Conflict(_NOT_RUNNING.format(container.id)) from error
    try:
        with contextlib.ExitStack() as undoing:
            try:
                _make(engine, container, network, wanted, (netns, state.pid, state.pid_start), undoing)
            except SystemFailure as error:
                if _is_over(container, exits) or _has_died(state):
                    raise Conflict(_NOT_RUNNING.format(container.id)) from error
                raise
            if _is_over(container, exits):
                raise Conflict(_NOT_RUNNING.format(container.id))
            undoing.pop_all()
    finally:
        os.close(netns)
    wires.tell(engine, container, network, "connect")


def _make(
    engine: EndpointParts,
    container: Container,
    network: Network,
    wanted: EndpointSettings,
    run: tuple[int, int, int],
    undoing: contextlib.ExitStack,
) -> None:
    """Make the endpoint, the wire, the record, ports, names and hosts lines of a running container.

    run: the network namespace's descriptor, the pid of process 1, and its start time; undoing: is given a callback that
        takes back each step
    """
    others = wires.places(engine, container)
    undoing.callback(moving.settle, engine, container)
    asked = {network.id: requested.for_join(container, network, wanted)}
    (endpoint,) = engine.networks.join(container.id, asked, ipv6=hosts.has_ipv6(container))
    network = engine.networks.find(network.id)  # read again: the default one may have moved with its first container
    undoing.callback(ending.give_back, engine, container, ((network, endpoint),), told=False)
    if network.wired:
        wires.bring_up(engine, network)
        wired = engine.networks.plugged(
            ((network, endpoint),), f"/proc/{run[1]}/ns/net", lambda: portspecs.told(container)
        )
        (endpoint,) = engine.wiring.plug(wired, run[0], others)
        undoing.callback(engine.wiring.unplug, network, endpoint, run[0], others)
        engine.networks.update(endpoint)
    undoing.callback(keeping.keep, engine, container, container.networking)
    # The record is written only once the wire exists, since a later daemon believes the record.
    keeping.keep(engine, container, {**container.networking, network.name: wanted}, durable=True)
    moving.settle(engine, container, required=True)
    pairs = (*others, (network, endpoint))
    if has_resolver(pairs):
        wires.make_known(engine, container, pairs, *run)
    etc.add(engine, container, endpoint, pairs)


def _has_died(state: State) -> bool:
    """Whether process 1 has ended, even if the daemon has not heard of that yet."""
    try:
        os.close(wires.namespace(state.pid, state.pid_start))
    except SystemFailure:
        return True
    return False


def _is_over(container: Container, exits: int) -> bool:
    with container.changed:
        return container.settling or container.exits != exits
