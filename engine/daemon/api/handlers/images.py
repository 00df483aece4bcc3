"""The image endpoints: from a request to a verb of the image store, and from its result to an answer.

Each function runs in its request's thread.
"""

from engine.daemon.api import versions
from engine.daemon.api.answers import Json, Response
from engine.daemon.api.progress import Progress
from engine.daemon.api.registryauth import HEADER, decode_auth
from engine.daemon.api.request import Request
from engine.daemon.images import platform as platforms
from engine.errors import Invalid, NotBuilt, SystemFailure


def create(engine: object, request: Request) -> None:
    """POST /images/create: pull an image, or import one from the request's body."""
    with Progress(request) as progress:
        if request.query.text("fromImage"):
            _pull(engine, request, progress)
        else:
            _import(engine, request, progress)


def _pull(engine: object, request: Request, progress: Progress) -> None:
    query = request.query
    credentials = decode_auth(request.headers.get(HEADER, ""))
    # `docker pull -a` may leave the colon of a tag that it does not name.
    reference = query.text("fromImage").removesuffix(":")
    engine.images.pull(reference, query.text("tag"), _platform(request), credentials, progress)
    progress.begin()


def _import(engine: object, request: Request, progress: Progress) -> None:
    query = request.query
    source = query.text("fromSrc")
    if not source:
        # dockerd takes an empty source for an empty URL, and these are its words and its status.
        raise SystemFailure('Get "http:": http: no Host in request URL')
    if source != "-":
        raise NotBuilt("importing an image from a URL is not built yet in this engine: send it as the body, fromSrc=-")
    message = query.text("message") or f"Imported from {source}"
    image = engine.images.import_rootfs(
        request.body,
        query.text("repo"),
        query.text("tag"),
        message,
        query.every("changes"),
        _platform(request),
        progress,
    )
    progress({"status": image.id})


def _platform(request: Request) -> str | None:
    return request.query.text("platform") or None if request.version >= versions.PLATFORM_SINCE else None


def list_(engine: object, request: Request) -> Response:
    """GET /images/json"""
    query = request.query
    filters = versions.image_filters(request.version, query.filters(), query.text("filter"))
    shown = engine.images.images_json(
        filters,
        all=query.flag("all"),
        shared_size=query.flag("shared-size"),
        manifests=query.flag("manifests"),
        used_by=engine.containers.using,
    )
    return Json([versions.image(request.version, image) for image in shown])


def inspect(engine: object, request: Request) -> Response:
    """GET /images/{name}/json"""
    query = request.query
    wanted = query.text("platform") if request.version >= versions.INSPECT_PLATFORM_SINCE else ""
    if wanted and query.flag("manifests"):
        raise Invalid("conflicting options: manifests and platform options cannot both be set")
    image = engine.images.find(request.parameters["name"], str(platforms.from_json(wanted)) if wanted else None)
    shown = engine.images.inspect_json(image, query.flag("manifests"))
    return Json(versions.image(request.version, shown))


def remove(engine: object, request: Request) -> Response:
    """DELETE /images/{name}"""
    query = request.query
    if query.every("platforms"):
        raise NotBuilt("removing single platforms of an image is not built yet in this engine")
    removed = engine.images.remove(
        request.parameters["name"], query.flag("force"), query.flag("noprune"), engine.containers.using
    )
    return Json(removed)


def load(engine: object, request: Request) -> None:
    """POST /images/load: whatever is wrong with the archive is told as a line, since reading it has begun by then."""
    if request.query.every("platform"):
        raise NotBuilt("loading single platforms of an image is not built yet in this engine")
    quiet = request.query.flag("quiet", default=True)
    with Progress(request) as progress:

        def show(line: dict) -> None:
            if not (quiet and "progressDetail" in line):
                progress(line)

        progress.begin()
        engine.images.load(request.body, show)
