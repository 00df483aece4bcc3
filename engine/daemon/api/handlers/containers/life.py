"""The endpoints that restart, rename, pause and unpause a container, and that prune stopped containers.

Each function runs in its request's thread and decides only what belongs to HTTP.
"""

from engine.daemon.api.answers import Empty, Json, Response
from engine.daemon.api.request import Request
from engine.daemon.containers.life import current
from engine.daemon.containers.verbs import pause as pausing
from engine.daemon.containers.verbs import prune as pruning
from engine.daemon.containers.verbs import rename as renaming
from engine.daemon.containers.verbs import restart as restarting
from engine.daemon.parts import DaemonParts
from engine.errors import EngineError, Invalid, SystemFailure


def restart(engine: DaemonParts, request: Request) -> Response:
    """POST /containers/{id}/restart: stop a container and start it again."""
    query, reference = request.query, request.parameters["id"]
    timeout = query.number("t")
    container = current.find(engine, reference)
    try:
        restarting.restart(engine, container, query.text("signal") or None, timeout)
    except EngineError as error:
        # Subclasses of SystemFailure may need more arguments than the text, so they become a plain SystemFailure.
        kind = SystemFailure if isinstance(error, SystemFailure) else type(error)
        raise kind(f"Cannot restart container {reference}: {error}") from error
    return Empty()


def rename(engine: DaemonParts, request: Request) -> Response:
    """POST /containers/{id}/rename: give a container another name."""
    name = request.query.text("name").strip()
    if name in ("", "/"):
        raise Invalid("Neither old nor new names may be empty")
    renaming.rename(engine, current.find(engine, request.parameters["id"]), name)
    return Empty()


def pause(engine: DaemonParts, request: Request) -> Response:
    """POST /containers/{id}/pause: freeze the processes of a container."""
    pausing.pause(engine, current.find(engine, request.parameters["id"]))
    return Empty()


def unpause(engine: DaemonParts, request: Request) -> Response:
    """POST /containers/{id}/unpause: let the processes of a frozen container go on."""
    pausing.unpause(engine, current.find(engine, request.parameters["id"]))
    return Empty()


def prune(engine: DaemonParts, request: Request) -> Response:
    """POST /containers/prune: remove the stopped containers that the filters choose."""
    chosen = pruning.compile_filters(request.query.filters(pruning.FILTERS))
    current.bring_all(engine)
    removed, reclaimed = pruning.prune(engine, chosen)
    return Json({"ContainersDeleted": removed, "SpaceReclaimed": reclaimed})
