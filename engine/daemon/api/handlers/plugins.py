"""The endpoints of managed plugins, which this engine does not support: the list is empty, and no plugin is ever found.

Each function runs in its request's thread. A driver that dockerd would take from a plugin is refused elsewhere, by the
volume or network that asks for it.
"""

from engine.daemon.api.answers import Json, Response
from engine.daemon.api.body import Array, Struct
from engine.daemon.api.request import Request
from engine.daemon.api.schemas import STRING, STRINGS
from engine.daemon.images.reference import Reference
from engine.daemon.parts import DaemonParts
from engine.daemon.patterns import truth
from engine.errors import Invalid, NotFound, SystemFailure

_FILTERS = ("capability", "enabled")
_PRIVILEGES = Array(Struct("plugin.Privilege", {"Name": STRING, "Description": STRING, "Value": STRINGS}))


def list_(engine: DaemonParts, request: Request) -> Response:
    """GET /plugins: the empty list, after a check of the filters."""
    filters = request.query.filters(_FILTERS)
    if enabled := filters.get("enabled"):
        truth("enabled", enabled)
    return Json([])


def privileges(engine: DaemonParts, request: Request) -> Response:
    """GET /plugins/privileges: an empty list, which dockerd answers too when it cannot reach the registry."""
    _reference(request.query.text("remote"))
    return Json([])


def refuse(engine: DaemonParts, request: Request) -> None:
    """Endpoints of one plugin that need no check of the request: no plugin has that name."""
    raise _missing(request.parameters["name"])


def enable(engine: DaemonParts, request: Request) -> None:
    """POST /plugins/{name}/enable: refused after a check of the timeout."""
    if request.query.number("timeout") is None:
        raise SystemFailure('strconv.Atoi: parsing "": invalid syntax')
    raise _missing(request.parameters["name"])


def upgrade(engine: DaemonParts, request: Request) -> None:
    """POST /plugins/{name}/upgrade: refused after a check of the body and the name."""
    request.check_json(_PRIVILEGES)
    _reference(request.query.text("remote"))
    raise _missing(_reference(request.parameters["name"]).with_default_tag().familiar)


def set_(engine: DaemonParts, request: Request) -> None:
    """POST /plugins/{name}/set: refused after a check of the body."""
    request.check_json(STRINGS, required=True)
    raise _missing(request.parameters["name"])


def _missing(name: str) -> NotFound:
    return NotFound(f'plugin "{name}" not found')


def _reference(text: str) -> Reference:
    """A plugin's name, parsed as an image's. For a malformed name dockerd answers with status 500, so this does too."""
    try:
        return Reference.parse(text)
    except Invalid as error:
        raise SystemFailure(str(error)) from error
