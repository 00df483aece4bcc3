"""The endpoints of managed plugins, of which this engine has none and takes none: the list is empty, and so on.

Each function runs in its request's thread. The drivers that dockerd would take from plugins are named where they are
asked for, by the volume or network that wants them.
"""

from engine.daemon.api.answers import Json, Response
from engine.daemon.api.body import Array, Struct
from engine.daemon.api.request import Request
from engine.daemon.api.schemas import STRING, STRINGS
from engine.daemon.images.reference import Reference
from engine.daemon.parts import DaemonParts
from engine.errors import Invalid, NotFound, SystemFailure

_FILTERS = ("capability", "enabled")
_ENABLED = frozenset({"true", "false", "1", "0"})
_PRIVILEGES = Array(Struct("plugin.Privilege", {"Name": STRING, "Description": STRING, "Value": STRINGS}))


def list_(engine: DaemonParts, request: Request) -> Response:
    """GET /plugins"""
    filters = request.query.filters(_FILTERS)
    enabled = filters.get("enabled", ())
    if enabled and (len(enabled) > 1 or enabled[0] not in _ENABLED):
        raise Invalid(f"invalid filter 'enabled=[{' '.join(enabled)}]'")
    return Json([])


def privileges(engine: DaemonParts, request: Request) -> Response:
    """GET /plugins/privileges: none for what cannot be looked at, as dockerd says of a registry that is not there."""
    _reference(request.query.text("remote"))
    return Json([])


def refuse(engine: DaemonParts, request: Request) -> None:
    """Whatever is asked of one plugin: there is none of that name."""
    raise _missing(request.parameters["name"])


def enable(engine: DaemonParts, request: Request) -> None:
    """POST /plugins/{name}/enable"""
    if request.query.number("timeout") is None:
        raise SystemFailure('strconv.Atoi: parsing "": invalid syntax')
    raise _missing(request.parameters["name"])


def upgrade(engine: DaemonParts, request: Request) -> None:
    """POST /plugins/{name}/upgrade"""
    request.check_json(_PRIVILEGES)
    _reference(request.query.text("remote"))
    raise _missing(_reference(request.parameters["name"]).with_default_tag().familiar)


def set_(engine: DaemonParts, request: Request) -> None:
    """POST /plugins/{name}/set"""
    request.check_json(STRINGS, required=True)
    raise _missing(request.parameters["name"])


def _missing(name: str) -> NotFound:
    return NotFound(f'plugin "{name}" not found')


def _reference(text: str) -> Reference:
    """A plugin's name, which is an image's. Of a wrong one dockerd says that it failed itself: its status is 500."""
    try:
        return Reference.parse(text)
    except Invalid as error:
        raise SystemFailure(str(error)) from error
