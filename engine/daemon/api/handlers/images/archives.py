"""The endpoints of image archives: save (GET /images/get) and load.

Each function runs in its request's thread. The first request for one of them imports this module.
"""

from engine.daemon.api import versions
from engine.daemon.api.progress import Progress
from engine.daemon.api.request import Request
from engine.daemon.images import platform as platforms
from engine.daemon.images.platform import Platform
from engine.daemon.jsontext import Object
from engine.daemon.parts import DaemonParts
from engine.errors import EngineError
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # each is loaded by the first request for it
    from engine.daemon.images.verbs import load as loading
    from engine.daemon.images.verbs import save
else:
    loading = late("engine.daemon.images.verbs.load")
    save = late("engine.daemon.images.verbs.save")

_TAR = "application/x-tar"


def get(engine: DaemonParts, request: Request) -> None:
    """GET /images/{name}/get: send an archive of one image."""
    _save(engine, request, [request.parameters["name"]])


def get_all(engine: DaemonParts, request: Request) -> None:
    """GET /images/get: send an archive of several images; also of no image at all, as dockerd answers."""
    _save(engine, request, request.query.every("names"))


def _save(engine: DaemonParts, request: Request, names: list[str]) -> None:
    wanted = _platforms(request)
    with save.archive(engine.images, names, wanted) as archive, request.stream(200, _TAR) as stream:
        archive.send(stream)


def load(engine: DaemonParts, request: Request) -> None:
    """POST /images/load: load the images of an archive. Its faults are told as a line, as dockerd does.

    The answer begins with the first line. A client that asks for quiet, and reads nothing but the head of the answer,
    thereby knows that its images are here.
    """
    wanted = _platforms(request)
    quiet = request.query.flag("quiet", default=True)
    with Progress(request) as progress:

        def show(line: Object) -> None:
            if not (quiet and "progressDetail" in line):
                progress(line)

        try:
            loading.load(engine.images, request.body, show, wanted)
        except EngineError:
            progress.begin()
            raise


def _platforms(request: Request) -> list[Platform]:
    """The platforms that a client asks for, each given as JSON."""
    texts = request.query.every("platform")
    versions.check_platforms(request.version, texts)
    return list(dict.fromkeys(platforms.from_json(text) for text in texts if text))
