"""The everyday endpoints of images: create (pull or import), list, inspect and remove.

Each function runs in its request's thread and calls a verb of the image store.
"""

from engine.daemon.api import versions
from engine.daemon.api.answers import Json, Response
from engine.daemon.api.progress import Progress
from engine.daemon.api.request import Request
from engine.daemon.images import platform as platforms
from engine.daemon.images.reference import Reference
from engine.daemon.parts import DaemonParts
from engine.daemon.streams import Source
from engine.errors import Invalid, SystemFailure
from engine.late import TYPE_CHECKING, late
from engine.redact import redacted
from engine.settings.storagedriver import reported

if TYPE_CHECKING:  # each is loaded by the first request for it
    from engine.daemon.api import registryauth
    from engine.daemon.images.archives import remote, weburl
    from engine.daemon.images.verbs import import_, listing, pull
    from engine.daemon.images.verbs import remove as removal
else:
    registryauth = late("engine.daemon.api.registryauth")
    remote = late("engine.daemon.images.archives.remote")
    weburl = late("engine.daemon.images.archives.weburl")
    import_ = late("engine.daemon.images.verbs.import_")
    listing = late("engine.daemon.images.verbs.listing")
    removal = late("engine.daemon.images.verbs.remove")
    pull = late("engine.daemon.images.verbs.pull")


def create(engine: DaemonParts, request: Request) -> None:
    """POST /images/create: pull an image, or import one from the request's body."""
    with Progress(request) as progress:
        if request.query.text("fromImage"):
            _pull(engine, request, progress)
        else:
            _import(engine, request, progress)


def _pull(engine: DaemonParts, request: Request, progress: Progress) -> None:
    query = request.query
    credentials = registryauth.decode_auth(request.headers.get(registryauth.HEADER, ""))
    # `docker pull -a` may send the colon of a tag without the tag.
    name, tag = query.text("fromImage").removesuffix(":"), query.text("tag")
    reference = Reference.parse(name)
    if tag or reference.tag or reference.digest:
        pull.pull(engine.images, name, tag, request.query.text("platform") or None, credentials, progress, request.gone)
    else:
        pull.pull_all(engine.images, name, request.query.text("platform") or None, credentials, progress, request.gone)
    progress.begin()


def _import(engine: DaemonParts, request: Request, progress: Progress) -> None:
    source = request.query.text("fromSrc")
    if not source:
        # dockerd takes an empty source for an empty URL. These are its words, and its status.
        raise SystemFailure('Get "http:": http: no Host in request URL')
    if source == "-":
        _import_stream(engine, request, progress, source, request.body)
        return
    url = weburl.normal(source if "://" in source else f"http://{source}")
    with remote.told(url, progress) as stream:
        _import_stream(engine, request, progress, url, stream)


def _import_stream(engine: DaemonParts, request: Request, progress: Progress, source: str, stream: Source) -> None:
    query = request.query
    image = import_.import_rootfs(
        engine.images,
        stream,
        query.text("repo"),
        query.text("tag"),
        query.text("message") or f"Imported from {redacted(source)}",
        query.every("changes"),
        query.text("platform") or None,
    )
    progress({"status": image.id})


def list_(engine: DaemonParts, request: Request) -> Response:
    """GET /images/json: list images."""
    query = request.query
    filters = versions.image_filters(request.version, query.filters(), query.text("filter"))
    manifests, identity = query.flag("manifests"), query.flag("identity")
    if identity and not manifests:
        raise Invalid("conflicting options: identity requires manifests=1")
    shown = listing.images_json(
        engine.images,
        filters,
        everything=query.flag("all"),
        shared_size=query.flag("shared-size"),
        manifests=manifests,
        used_by=engine.containers.using,
        identity=identity,
    )
    return Json([versions.image(request.version, image) for image in shown])


def inspect(engine: DaemonParts, request: Request) -> Response:
    """GET /images/{name}/json: show one image."""
    query = request.query
    wanted = query.text("platform")
    manifests = query.flag("manifests")
    if wanted and manifests:
        raise Invalid("conflicting options: manifests and platform options cannot both be set")
    image = engine.images.find(request.parameters["name"], str(platforms.from_json(wanted)) if wanted else None)
    shown = listing.inspect_json(engine.images, image, manifests, engine.containers.using, single=bool(wanted))
    driver = reported(engine.settings.storage_driver, engine.storage == "copy")
    return Json(versions.image(request.version, shown, driver))


def remove(engine: DaemonParts, request: Request) -> Response:
    """DELETE /images/{name}: remove names of an image, and the image with its last name."""
    query = request.query
    name = request.parameters["name"]
    if not name.strip():
        raise Invalid("image name cannot be blank")
    wanted = query.every("platforms")
    removed = removal.remove(
        engine.images,
        name,
        query.flag("force"),
        query.flag("noprune"),
        engine.containers.using,
        [str(platforms.from_json(text)) for text in wanted],
    )
    return Json(removed)
