"""The daemon as a whole: ping, version, info, and a check of registry credentials.

Each function runs in its request's thread.
"""

from engine.daemon import info as facts
from engine.daemon.api import versions
from engine.daemon.api.answers import Json, Response, Text
from engine.daemon.api.request import Request
from engine.daemon.api.schemas import AUTH_CONFIG
from engine.daemon.api.versions import OLDEST_TEXT
from engine.daemon.parts import DaemonParts
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded by the first login, with the registry's client
    from engine.daemon.api import login
else:
    login = late("engine.daemon.api.login")

_PING_FIELDS = (
    # Of BuildKit (2) this engine has nothing; the classic builder is the one that a client is to expect.
    ("Builder-Version", "1"),
    ("Cache-Control", "no-cache, no-store, must-revalidate"),
    ("Pragma", "no-cache"),
    ("Swarm", "inactive"),
)


def ping(engine: DaemonParts, request: Request) -> Response:
    """GET and HEAD /_ping: proof of life, and in its headers what the daemon speaks."""
    return Text("OK" if request.method == "GET" else "", fields=_PING_FIELDS)


def version(engine: DaemonParts, request: Request) -> Response:
    """GET /version"""
    return Json(facts.version(versions.newest_for(request.headers.get("user-agent", "")), OLDEST_TEXT))


def info(engine: DaemonParts, request: Request) -> Response:
    """GET /info"""
    return Json(versions.info(request.version, facts.info(engine)))


def auth(engine: DaemonParts, request: Request) -> Response:
    """POST /auth: check credentials against their registry."""
    credentials = request.json(AUTH_CONFIG)
    token = login.check_login(credentials.get("serveraddress", ""), credentials, engine.settings.insecure_registries)
    return Json({"IdentityToken": token, "Status": "Login Succeeded"})
