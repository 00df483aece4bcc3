"""The endpoints of execs (commands run in a container): create, start, resize and inspect.

Each function runs in its request's thread, calls `containers.exec`, and decides only what belongs to HTTP.
"""

from engine.daemon.api import schemas, versions
from engine.daemon.api.answers import Empty, Json, Response
from engine.daemon.api.handlers.containers.everyday import terminal_size
from engine.daemon.api.request import Request
from engine.daemon.containers.exec import verbs as executing
from engine.daemon.containers.exec.known import Exec
from engine.daemon.containers.life import current
from engine.daemon.jsontext import Object
from engine.daemon.parts import DaemonParts
from engine.errors import Invalid
from engine.sandbox.spec import LARGEST_SIDE


def _exec(engine: DaemonParts, request: Request) -> Exec:
    return engine.execs.find(request.parameters["id"])


def create(engine: DaemonParts, request: Request) -> Response:
    """POST /containers/{id}/exec: prepare a command that is to run in a container."""
    asked = request.json(schemas.EXEC_CREATE)
    if not asked.get("Cmd"):
        raise Invalid("No exec command specified")
    if _size(request, asked) is None:
        asked.pop("ConsoleSize", None)
    container = current.find(engine, request.parameters["id"])
    return Json({"Id": executing.create(engine, container, asked).id}, 201)


def start(engine: DaemonParts, request: Request) -> Response | None:
    """POST /exec/{id}/start: run the command, detached or with the client's connection as its input and output."""
    asked = request.json(schemas.EXEC_START)
    one = _exec(engine, request)
    detach, tty = bool(asked.get("Detach")), bool(asked.get("Tty"))
    content_type = versions.stream_type(request.version, tty)
    how = executing.AskedExec(detach, tty, _size(request, asked) if tty else None)
    executing.start(engine, one, how, lambda: request.give(content_type))
    return Empty(200) if detach else None


def _size(request: Request, asked: Object) -> tuple[int, int] | None:
    """The (rows, columns) of ConsoleSize; None when it is not given, or when the client's version cannot ask for it."""
    size = asked.get("ConsoleSize")
    if not size or not versions.takes_console_size(request.version):
        return None
    rows, columns = (min(number, LARGEST_SIDE) for number in size)
    return rows, columns


def resize(engine: DaemonParts, request: Request) -> Response:
    """POST /exec/{id}/resize: set the size of the command's terminal."""
    size = terminal_size(request)
    executing.resize(engine, _exec(engine, request), *size)
    return Empty(200)


def inspect(engine: DaemonParts, request: Request) -> Response:
    """GET /exec/{id}/json: the state of a command, with its exit code."""
    return Json(executing.inspect(engine, _exec(engine, request)))
