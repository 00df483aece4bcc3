"""The exec endpoints: from a request to what `containers.exec` does, and from its result to an answer.

Each function runs in its request's thread. Nothing is decided here but what belongs to HTTP.
"""

from engine.daemon.api import schemas, versions
from engine.daemon.api.answers import Empty, Json, Response
from engine.daemon.api.request import Request
from engine.daemon.containers.exec import verbs as executing
from engine.daemon.containers.exec.known import Exec
from engine.daemon.jsontext import Object
from engine.daemon.parts import DaemonParts
from engine.errors import Invalid

_LARGEST_SIZE = 0xFFFF  # of a terminal, struct winsize


def _exec(engine: DaemonParts, request: Request) -> Exec:
    return engine.execs.find(request.parameters["id"])


def create(engine: DaemonParts, request: Request) -> Response:
    """POST /containers/{id}/exec"""
    asked = request.json(schemas.EXEC_CREATE)
    if not asked.get("Cmd"):
        raise Invalid("No exec command specified")
    if _size(request, asked) is None:
        asked.pop("ConsoleSize", None)
    container = engine.containers.find(request.parameters["id"])
    return Json({"Id": executing.create(engine, container, asked).id}, 201)


def start(engine: DaemonParts, request: Request) -> Response | None:
    """POST /exec/{id}/start"""
    asked = request.json(schemas.EXEC_START)
    one = _exec(engine, request)
    detach, tty = bool(asked.get("Detach")), bool(asked.get("Tty"))
    content_type = versions.stream_type(request.version, tty)
    how = executing.AskedExec(detach, tty, _size(request, asked) if tty else None)
    executing.start(engine, one, how, lambda: request.hijack(True, content_type))
    return Empty(200) if detach else None


def _size(request: Request, asked: Object) -> tuple[int, int] | None:
    """ConsoleSize, which older clients cannot ask for."""
    size = asked.get("ConsoleSize")
    if not size or not versions.takes_console_size(request.version):
        return None
    rows, columns = (min(number, _LARGEST_SIZE) for number in size)
    return rows, columns


def resize(engine: DaemonParts, request: Request) -> Response:
    """POST /exec/{id}/resize"""
    rows, columns = (request.query.number(name) or 0 for name in ("h", "w"))
    for number in (rows, columns):
        if not 0 <= number <= _LARGEST_SIZE:
            raise Invalid(f'strconv.ParseUint: parsing "{number}": value out of range')
    executing.resize(engine, _exec(engine, request), rows, columns)
    return Empty(200)


def inspect(engine: DaemonParts, request: Request) -> Response:
    """GET /exec/{id}/json"""
    return Json(executing.inspect(engine, _exec(engine, request)))
