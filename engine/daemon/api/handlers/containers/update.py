"""POST /containers/{id}/update: from the request to the verb, and back.

Runs in its request's thread and decides nothing but what belongs to HTTP.
"""

from engine.daemon.api import schemas
from engine.daemon.api.answers import Json, Response
from engine.daemon.api.request import Request
from engine.daemon.containers.verbs import update as updating
from engine.daemon.parts import DaemonParts

_SINCE_PIDS = (1, 40)


def update(engine: DaemonParts, request: Request) -> Response:
    """POST /containers/{id}/update"""
    body = request.required_json(schemas.CONTAINER_UPDATE)
    if request.version < _SINCE_PIDS:
        body.pop("PidsLimit", None)
    warnings = updating.update(engine, lambda: engine.containers.find(request.parameters["id"]), body)
    return Json({"Warnings": warnings})
