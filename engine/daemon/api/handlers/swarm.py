"""The endpoints of a swarm, its nodes, services, tasks, secrets and configs: dockerd's answers of a node in none.

Each function runs in its request's thread. What is wrong in a request is told first, as dockerd does; then every call
ends in the same way, since this engine is of one host alone.
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
# What a changed thing is called where dockerd says what is wrong with a version; of the others it says no more.
_SPOKEN_OF = {"nodes": "node", "services": "service", "swarm": "swarm"}
# Nothing of a body is used: it is only to be one.
_ANYTHING = Struct("swarm.Spec", {})


def refuse(engine: DaemonParts, request: Request) -> None:
    """What needs nothing but a manager: to look at one thing, or to remove it."""
    raise Unavailable(NO_MANAGER)


def list_(engine: DaemonParts, request: Request) -> None:
    """GET /nodes, /services, /tasks, /secrets, /configs"""
    request.query.filters()
    if request.path == "/services" and versions.takes_service_status(request.version):
        _check_flag(request, "status")
    raise Unavailable(NO_MANAGER)


def inspect_service(engine: DaemonParts, request: Request) -> None:
    """GET /services/{id}"""
    _check_flag(request, "insertDefaults")
    raise Unavailable(NO_MANAGER)


def create(engine: DaemonParts, request: Request) -> None:
    """POST /services/create, /secrets/create, /configs/create, and /swarm/unlock: whatever comes with a body."""
    request.check_json(_ANYTHING, required=True)
    raise Unavailable(NO_MANAGER)


def update(engine: DaemonParts, request: Request) -> None:
    """POST /swarm/update and /nodes/{id}/update, with its siblings of services, secrets and configs"""
    request.check_json(_ANYTHING, required=True)
    _check_version(request)
    for name in _ROTATIONS if request.path == "/swarm/update" else ():
        if (text := request.query.text(name)) and text not in BOOLEANS:
            raise Invalid(f"invalid value for {name}: {text}")
    raise Unavailable(NO_MANAGER)


def logs(engine: DaemonParts, request: Request) -> None:
    """GET /services/{id}/logs and /tasks/{id}/logs"""
    if not (request.query.flag("stdout") or request.query.flag("stderr")):
        raise SystemFailure("Bad parameters: you must choose at least one stream")
    raise Unavailable(NO_MANAGER)


def leave(engine: DaemonParts, request: Request) -> None:
    """POST /swarm/leave"""
    raise Unavailable(_NO_MEMBER)


def _check_version(request: Request) -> None:
    """The version of the thing that is to be changed, in the words of Go's strconv.ParseUint."""
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
