"""The endpoint POST /containers/{id}/update, which changes a container's resource limits and restart policy.

It runs in its request's thread and decides only what belongs to HTTP.
"""

from engine.daemon.api import schemas, versions
from engine.daemon.api.answers import Json, Response
from engine.daemon.api.request import Request
from engine.daemon.containers.life import current
from engine.daemon.containers.verbs import update as updating
from engine.daemon.parts import DaemonParts


def update(engine: DaemonParts, request: Request) -> Response:
    """POST /containers/{id}/update: change resource limits and restart policy."""
    body = versions.updated(request.version, request.required_json(schemas.CONTAINER_UPDATE))
    warnings = updating.update(engine, lambda: current.find(engine, request.parameters["id"]), body)
    return Json({"Warnings": warnings})
