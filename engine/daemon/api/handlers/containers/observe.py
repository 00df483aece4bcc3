"""The endpoints that look at a running container: stats (resource usage) and top (its processes).

Each function runs in its request's thread. It imports its code at the first request: most daemons are never asked, and
save the memory.
"""

from engine.daemon.api.answers import JSON_TYPE, Json, Response
from engine.daemon.api.request import Request
from engine.daemon.containers.life import current
from engine.daemon.parts import DaemonParts
from engine.errors import Invalid, SystemFailure
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # each is loaded by the first request for it
    from engine.daemon.containers.stats import watching
    from engine.daemon.containers.top import table as looking
else:
    watching = late("engine.daemon.containers.stats.watching")
    looking = late("engine.daemon.containers.top.table")


def stats(engine: DaemonParts, request: Request) -> Response | None:
    """GET /containers/{id}/stats: resource usage, once or as a stream of JSON lines."""
    query = request.query
    container = current.find(engine, request.parameters["id"])
    streamed, one_shot = query.flag("stream", True), query.flag("one-shot")
    if streamed and one_shot:
        raise Invalid("cannot have stream=true and one-shot=true")
    if not engine.cgroups.holds_processes:
        raise SystemFailure("only cgroups count what a container uses, and none are mounted on this host")
    if not streamed:
        line = watching.once(engine, container, request.gone, two=not one_shot)
        if line is None:
            request.abort()
            return Response(200, JSON_TYPE, b"")  # the client has gone, so no bytes are sent
        return Response(200, JSON_TYPE, line)
    with request.stream(200, JSON_TYPE) as body:
        if not watching.stream(engine, container, body.fileno(), request.wait, chunked=body.raw_chunks):
            request.abort()
    return None


def top(engine: DaemonParts, request: Request) -> Response:
    """GET /containers/{id}/top: the processes of a container, in the columns that `ps_args` asks for."""
    container = current.find(engine, request.parameters["id"])
    titles, processes = looking.top(engine, container, request.query.text("ps_args") or "-ef")
    return Json({"Processes": processes, "Titles": titles})
