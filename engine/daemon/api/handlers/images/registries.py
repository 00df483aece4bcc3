"""The endpoints that ask a registry for a client: push an image, inspect an image in the registry, and search.

Each function runs in its request's thread. Pulls are `images.everyday.create`; the check of credentials is
`system.auth`.
"""

from engine.daemon.api.answers import Json, Response
from engine.daemon.api.body import decode
from engine.daemon.api.progress import Progress
from engine.daemon.api.registryauth import HEADER, decode_auth
from engine.daemon.api.request import Request
from engine.daemon.api.schemas import AUTH_CONFIG
from engine.daemon.images import platform as platforms
from engine.daemon.images.verbs import distribution, push, search
from engine.daemon.jsontext import Object
from engine.daemon.parts import DaemonParts
from engine.errors import Invalid

_LARGEST_AUTH = 64 * 1024


def push_(engine: DaemonParts, request: Request) -> None:
    """POST /images/{name}/push: send an image to its registry, and stream the progress."""
    query = request.query
    credentials = _credentials(request)
    wanted = query.text("platform")
    platform = str(platforms.from_json(wanted)) if wanted else None
    with Progress(request) as progress:
        push.push(engine.images, request.parameters["name"], query.text("tag"), platform, credentials, progress)


def _credentials(request: Request) -> Object | None:
    """The client's credentials from the header, or from the body, where clients sent them before there
    was the header. What cannot be read is none, as in dockerd.
    """
    if HEADER in request.headers:
        return decode_auth(request.headers[HEADER])
    data = request.body.read(_LARGEST_AUTH)
    try:
        return decode(data, AUTH_CONFIG) if data.strip() else None
    except Invalid:
        return None


def distribution_inspect(engine: DaemonParts, request: Request) -> Response:
    """GET /distribution/{name}/json: the descriptor and platforms of an image in its registry."""
    credentials = decode_auth(request.headers.get(HEADER, ""))
    return Json(distribution.inspect(engine.settings, request.parameters["name"], credentials))


def search_(engine: DaemonParts, request: Request) -> Response:
    """GET /images/search: the repositories of a registry that fit a term."""
    query = request.query
    credentials = decode_auth(request.headers.get(HEADER, ""))
    limit = query.text("limit")
    return Json(search.search(engine.settings, query.text("term"), limit, query.filters(), credentials))
