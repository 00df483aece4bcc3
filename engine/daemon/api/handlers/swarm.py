"""The endpoints of swarm, nodes, services, tasks, secrets and configs, answered as dockerd does on a node in no swarm.

Each function runs in its request's thread. It checks the request first, as dockerd does. Then every call ends with the
same refusal, since this engine serves one host alone.
"""

from engine.daemon.api import versions
from engine.daemon.api.body import Struct
from engine.daemon.api.request import Request
from engine.daemon.network.drivers.choice import NO_MANAGER
from engine.daemon.parts import DaemonParts
from engine.errors import Invalid, SystemFailure, Unavailable
from engine.literals import BOOLEANS, UINT64, boolean, integer

_NO_MEMBER = "This node is not part of a swarm"
_ROTATIONS = ("rotateWorkerToken", "rotateManagerToken", "rotateManagerUnlockKey")
# The nouns that dockerd names in its error for a malformed version; for the other kinds that error says less.
_SPOKEN_OF = {"nodes": "node", "services": "service", "swarm": "swarm"}
# No field of a body is used: it only has to be a JSON object.
_ANYTHING = Struct("swarm.Spec", {})


def refuse(engine: DaemonParts, request: Request) -> None:
    """Endpoints that inspect or remove one thing: they check nothing, and need a swarm manager."""
    raise Unavailable(NO_MANAGER)


def list_(engine: DaemonParts, request: Request) -> None:
    """GET /nodes, /services, /tasks, /secrets, /configs: refused after a check of the filters."""
    request.query.filters()
    if request.path == "/services" and versions.takes_service_status(request.version):
        _check_flag(request, "status")
    raise Unavailable(NO_MANAGER)


def inspect_service(engine: DaemonParts, request: Request) -> None:
    """GET /services/{id}: refused after a check of `insertDefaults`."""
    _check_flag(request, "insertDefaults")
    raise Unavailable(NO_MANAGER)


def create(engine: DaemonParts, request: Request) -> None:
    """POST /services/create, /secrets/create, /configs/create and /swarm/unlock: refused after a check of the body."""
    request.check_json(_ANYTHING, required=True)
    raise Unavailable(NO_MANAGER)


def update(engine: DaemonParts, request: Request) -> None:
    """POST /swarm/update, and POST /KIND/{id}/update for nodes, services, secrets and configs: refused after checks."""
    request.check_json(_ANYTHING, required=True)
    _check_version(request)
    for name in _ROTATIONS if request.path == "/swarm/update" else ():
        if (text := request.query.text(name)) and text not in BOOLEANS:
            raise Invalid(f"invalid value for {name}: {text}")
    raise Unavailable(NO_MANAGER)


def logs(engine: DaemonParts, request: Request) -> None:
    """GET /services/{id}/logs and /tasks/{id}/logs: refused after a check that a stream is chosen."""
    if not (request.query.flag("stdout") or request.query.flag("stderr")):
        raise SystemFailure("Bad parameters: you must choose at least one stream")
    raise Unavailable(NO_MANAGER)


def leave(engine: DaemonParts, request: Request) -> None:
    """POST /swarm/leave: refused, since the node is in no swarm."""
    raise Unavailable(_NO_MEMBER)


def _check_version(request: Request) -> None:
    """Check the version of the thing that is to be changed. Raises Invalid in the words of Go's strconv.ParseUint."""
    text = request.query.text("version")
    noun = request.path.split("/")[1]
    try:
        integer(text, *UINT64, reader="strconv.ParseUint")
    except Invalid as error:
        if noun not in _SPOKEN_OF:
            raise Invalid(f"invalid {noun.removesuffix('s')} version") from error
        raise Invalid(f"invalid {_SPOKEN_OF[noun]} version '{text}': {error}") from error


def _check_flag(request: Request, name: str) -> None:
    text = request.query.text(name)
    try:
        boolean(text or "0")
    except Invalid as error:
        raise Invalid(f"invalid value for {name}: {text}: {error}") from error
