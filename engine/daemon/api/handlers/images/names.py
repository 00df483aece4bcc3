"""The endpoints that tag an image, show its history, and prune unused images.

Each function runs in its request's thread. The first request for one of them imports this module.
"""

from engine.daemon.api.answers import Empty, Json, Response
from engine.daemon.api.request import Request
from engine.daemon.images import platform as platforms
from engine.daemon.images.verbs import history as steps
from engine.daemon.images.verbs import prune as pruning
from engine.daemon.images.verbs import tag as tagging
from engine.daemon.parts import DaemonParts


def tag(engine: DaemonParts, request: Request) -> Response:
    """POST /images/{name}/tag: give an image another name."""
    query = request.query
    if not query.text("repo"):  # dockerd has nothing to do then, and does not look for the image
        return Empty(200)
    tagging.tag(engine.images, request.parameters["name"], query.text("repo"), query.text("tag"))
    return Empty(201)


def history(engine: DaemonParts, request: Request) -> Response:
    """GET /images/{name}/history: list the steps that made an image."""
    wanted = request.query.text("platform")
    image = engine.images.find(request.parameters["name"], str(platforms.from_json(wanted)) if wanted else None)
    return Json(steps.history(engine.images, image))


def prune(engine: DaemonParts, request: Request) -> Response:
    """POST /images/prune: remove unused images."""
    filters = request.query.filters(pruning.FILTERS)
    removed, freed = pruning.prune(engine.images, filters, engine.containers.using)
    return Json({"ImagesDeleted": removed, "SpaceReclaimed": freed})
