"""The endpoints of image builds: POST /build by either builder, its cancelling, and POST /build/prune for the cache.

Each function runs in its request's thread. The first build imports this module: an idle daemon does without.
"""

from engine.daemon.api import versions
from engine.daemon.api.answers import Empty, Json, Response
from engine.daemon.api.progress import Progress
from engine.daemon.api.registryauth import CONFIG_HEADER, decode_auths
from engine.daemon.api.request import Request
from engine.daemon.api.streams import ClientGone
from engine.daemon.builder import prune as pruning
from engine.daemon.builder.build import build as build_image
from engine.daemon.builder.graph.work import Caller
from engine.daemon.builder.options import read
from engine.daemon.jsontext import Object
from engine.daemon.parts import DaemonParts
from engine.dataclass import dataclass
from engine.errors import Invalid
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # most builds find their base images here
    from engine.daemon.images.registry import auth
else:
    auth = late("engine.daemon.images.registry.auth")
if TYPE_CHECKING:  # clients of BuildKit come by another endpoint
    from engine.daemon.buildkit import requestbuild
else:
    requestbuild = late("engine.daemon.buildkit.requestbuild")

_BUILDKIT = "2"


@dataclass(frozen=True, slots=True)
class _Client:
    """A `requestbuild.Client`."""

    request: Request
    send: Progress

    def gone(self) -> bool:
        """Whether it has hung up."""
        return self.request.gone()


def build(engine: DaemonParts, request: Request) -> None:
    """POST /build: build an image from the context in the body, and stream the progress."""
    if request.query.text("version") == _BUILDKIT:
        asked = requestbuild.read(request.query)
        with Progress(request) as progress:
            requestbuild.build(engine, asked, request.body, _Client(request, progress))
            progress.begin()  # an answer that has nothing to tell begins all the same
        return
    auths = decode_auths(request.headers.get(CONFIG_HEADER, ""))

    def credentials(host: str) -> Object | None:
        return auth.chosen(auths, host)

    options = read(request.query, credentials, versions.tells_ids(request.version))

    def check() -> None:
        if request.gone():
            raise ClientGone

    with Progress(request) as progress:
        build_image(engine, options, request.body, progress, Caller(request.wait, check, request.gone))


def cancel(_engine: DaemonParts, request: Request) -> Response:
    """POST /build/cancel: end a build by BuildKit, by the id that its client gave it."""
    requestbuild.cancel(request.query.text("id"))
    return Empty(200)


def prune(engine: DaemonParts, request: Request) -> Response:
    """POST /build/prune: remove entries of the build cache."""
    query = request.query
    asked = pruning.AskedPruning(
        all=query.flag("all"),
        filters=query.filters(),
        reserved=_space(query.number("reserved-space") or query.number("keep-storage")),
        most=_space(query.number("max-used-space")),
        free=_space(query.number("min-free-space")),
    )
    deleted, space = pruning.prune(engine, asked)
    return Json({"CachesDeleted": deleted or None, "SpaceReclaimed": space})


def _space(value: int | None) -> int:
    if value is not None and value < 0:
        raise Invalid(f"invalid space: {value} is negative")
    return value or 0
