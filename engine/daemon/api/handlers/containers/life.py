"""The endpoints that move a container from one state to another beyond start and stop, and give it another name.

Each function runs in its request's thread and decides nothing but what belongs to HTTP.
"""

from engine.daemon.api.answers import Empty, Json, Response
from engine.daemon.api.request import Request
from engine.daemon.containers.verbs import pause as pausing
from engine.daemon.containers.verbs import prune as pruning
from engine.daemon.containers.verbs import rename as renaming
from engine.daemon.containers.verbs import restart as restarting
from engine.daemon.parts import DaemonParts
from engine.errors import EngineError, SystemFailure


def restart(engine: DaemonParts, request: Request) -> Response:
    """POST /containers/{id}/restart"""
    query, reference = request.query, request.parameters["id"]
    timeout = query.number("t")
    container = engine.containers.find(reference)
    try:
        restarting.restart(engine, container, query.text("signal") or None, timeout)
    except EngineError as error:
        # Some failures of the system carry more than words.
        kind = SystemFailure if isinstance(error, SystemFailure) else type(error)
        raise kind(f"Cannot restart container {reference}: {error}") from error
    return Empty()


def rename(engine: DaemonParts, request: Request) -> Response:
    """POST /containers/{id}/rename"""
    renaming.rename(engine, engine.containers.find(request.parameters["id"]), request.query.text("name"))
    return Empty()


def pause(engine: DaemonParts, request: Request) -> Response:
    """POST /containers/{id}/pause"""
    pausing.pause(engine, engine.containers.find(request.parameters["id"]))
    return Empty()


def unpause(engine: DaemonParts, request: Request) -> Response:
    """POST /containers/{id}/unpause"""
    pausing.unpause(engine, engine.containers.find(request.parameters["id"]))
    return Empty()


def prune(engine: DaemonParts, request: Request) -> Response:
    """POST /containers/prune"""
    chosen = pruning.compile_filters(request.query.filters(pruning.FILTERS))
    removed, reclaimed = pruning.prune(engine, chosen)
    return Json({"ContainersDeleted": removed, "SpaceReclaimed": reclaimed})
