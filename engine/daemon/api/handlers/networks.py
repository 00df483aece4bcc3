"""The endpoints of networks: list, inspect, create, remove, connect, disconnect and prune.

Each function runs in its request's thread.
"""

import contextlib
import json

from engine.daemon.api import versions
from engine.daemon.api.answers import Empty, Json, Response
from engine.daemon.api.request import Request
from engine.daemon.api.schemas import NETWORK_CONNECT, NETWORK_CREATE, NETWORK_DISCONNECT
from engine.daemon.containers.endpoints import connect as connecting
from engine.daemon.containers.endpoints import disconnect as disconnecting
from engine.daemon.containers.endpoints import wires
from engine.daemon.jsontext import Object
from engine.daemon.network import filters, shown
from engine.daemon.network import remove as removal
from engine.daemon.network.record import Network
from engine.daemon.parts import DaemonParts
from engine.errors import EngineError, Forbidden, Invalid, NotFound

_TRUE = ("1", "t", "T", "TRUE", "true", "True")
_FALSE = ("", "0", "f", "F", "FALSE", "false", "False")


def list_(engine: DaemonParts, request: Request) -> Response:
    """GET /networks: list networks."""
    chosen = filters.listed(request.query.filters(), lambda network: bool(engine.networks.endpoints(network.id)))
    found = (_inspected(engine, network, None) for network in engine.networks.all() if chosen(network))
    return Json([versions.listed_network(request.version, each) for each in found])


def inspect(engine: DaemonParts, request: Request) -> Response:
    """GET /networks/{id}: show one network with its containers."""
    query, reference = request.query, request.parameters["id"]
    verbose = query.text("verbose")
    if verbose not in (*_TRUE, *_FALSE):
        problem = f"strconv.ParseBool: parsing {json.dumps(verbose)}: invalid syntax"
        raise Invalid(f"invalid value for verbose: {verbose}: {problem}")
    network = engine.networks.find(reference)
    if query.text("scope") not in ("", network.scope):
        raise NotFound(f"network {reference} not found")
    return Json(versions.network(request.version, _inspected(engine, network, engine.networks.status(network))))


def _inspected(engine: DaemonParts, network: Network, status: Object | None) -> Object:
    def name_of(container_id: str) -> str:
        try:
            return engine.containers.find(container_id).name
        except NotFound:
            return ""  # the container is being removed

    return shown.inspect(network, engine.networks.endpoints(network.id), status, name_of)


def create(engine: DaemonParts, request: Request) -> Response:
    """POST /networks/create: make a user-defined network; under dockerd's name its device is there from now on."""
    body = versions.created_network(request.version, request.required_json(NETWORK_CREATE))
    network = engine.networks.create(body)
    if engine.settings.as_dockerd:
        try:
            wires.bring_up(engine, network)
        except EngineError:
            with contextlib.suppress(NotFound, Forbidden):  # another client has removed it, or has a container there
                removal.remove(engine, network)
            raise
    return Json({"Id": network.id, "Warning": ""}, 201)


def remove(engine: DaemonParts, request: Request) -> Response:
    """DELETE /networks/{id}: remove a network without endpoints."""
    removal.remove(engine, engine.networks.find(request.parameters["id"]))
    return Empty()


def connect(engine: DaemonParts, request: Request) -> Response:
    """POST /networks/{id}/connect: connect a container to a network."""
    body = request.required_json(NETWORK_CONNECT)
    connecting.connect(engine, request.parameters["id"], body.get("Container") or "", body.get("EndpointConfig"))
    return Empty(200)


def disconnect(engine: DaemonParts, request: Request) -> Response:
    """POST /networks/{id}/disconnect: disconnect a container from a network."""
    body = request.required_json(NETWORK_DISCONNECT)
    force = bool(body.get("Force"))
    disconnecting.disconnect(engine, request.parameters["id"], body.get("Container") or "", force)
    return Empty(200)


def prune(engine: DaemonParts, request: Request) -> Response:
    """POST /networks/prune: remove unused networks."""
    removed = [network.name for network in removal.prune(engine, request.query.filters())]
    return Json({"NetworksDeleted": removed or None})
