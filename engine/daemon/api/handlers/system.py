"""The endpoints of the daemon as a whole: ping, version, info, and the check of registry credentials (POST /auth).

Each function runs in its request's thread.
"""

from engine.daemon.api import versions
from engine.daemon.api.answers import Json, Response, Text
from engine.daemon.api.request import Request
from engine.daemon.parts import DaemonParts
from engine.late import TYPE_CHECKING, late
from engine.settings.advertised import has_feature

if TYPE_CHECKING:  # each is loaded by the first request for it; a login brings the registry's client
    from engine.daemon import info as facts
    from engine.daemon import systemversion
    from engine.daemon.api import login, schemas
else:
    facts = late("engine.daemon.info")
    systemversion = late("engine.daemon.systemversion")
    login = late("engine.daemon.api.login")
    schemas = late("engine.daemon.api.schemas")

# BuildKit, which old clients take by default then; 1 is the classic builder.
_BUILDERS = {True: ("Builder-Version", "2"), False: ("Builder-Version", "1")}
_PING_FIELDS = (
    ("Cache-Control", "no-cache, no-store, must-revalidate"),
    ("Pragma", "no-cache"),
    ("Swarm", "inactive"),
)


def ping(engine: DaemonParts, request: Request) -> Response:
    """GET and HEAD /_ping: shows that the daemon lives; the headers tell what it speaks."""
    builder = _BUILDERS[has_feature(engine.settings.features, "buildkit", default=True)]
    return Text("OK" if request.method == "GET" else "", fields=(builder, *_PING_FIELDS))


def version(engine: DaemonParts, request: Request) -> Response:
    """GET /version: the versions of the engine, of the API and of the kernel."""
    newest = versions.newest_for(request.headers.get("user-agent", ""))
    return Json(systemversion.version(newest, engine.settings.min_api_version, engine.settings))


def info(engine: DaemonParts, request: Request) -> Response:
    """GET /info: the daemon's settings, its host and its counts."""
    return Json(versions.info(request.version, facts.info(engine)))


def auth(engine: DaemonParts, request: Request) -> Response:
    """POST /auth: check credentials against their registry."""
    credentials = request.json(schemas.AUTH_CONFIG)
    token = login.check_login(credentials.get("serveraddress", ""), credentials, engine.settings.insecure_registries)
    return Json({"IdentityToken": token, "Status": "Login Succeeded"})
