"""The everyday endpoints of containers: create, list, inspect, start, wait, logs, attach, stop, kill, resize and
remove.

Each function runs in its request's thread and calls a verb of `containers`. It decides only what belongs to HTTP: the
query's defaults, the content types, and when which part of the answer is sent.
"""

from collections.abc import Generator

from engine.daemon.api import versions
from engine.daemon.api.answers import JSON_TYPE, Empty, Json, Response, encode_json
from engine.daemon.api.request import Request
from engine.daemon.api.streams import around_last
from engine.daemon.containers.life import current
from engine.daemon.containers.record import Container
from engine.daemon.parts import DaemonParts
from engine.dataclass import replace
from engine.errors import EngineError, Invalid, NotBuilt, SystemFailure
from engine.late import TYPE_CHECKING, late
from engine.literals import INT64, integer, natural, quoted
from engine.sandbox.spec import LARGEST_SIDE

if TYPE_CHECKING:  # each is loaded by the first request for it: most engines that wake up are only asked for a list
    from engine.daemon import signals
    from engine.daemon.api import createform, schemas
    from engine.daemon.containers import naming
    from engine.daemon.containers.endpoints import legacylinks
    from engine.daemon.containers.output import attach as attaching
    from engine.daemon.containers.output import logs as reading
    from engine.daemon.containers.output import resize as resizing
    from engine.daemon.containers.verbs import create as creating
    from engine.daemon.containers.verbs import inspect as inspecting
    from engine.daemon.containers.verbs import kill as killing
    from engine.daemon.containers.verbs import listing
    from engine.daemon.containers.verbs import remove as removing
    from engine.daemon.containers.verbs import start as starting
    from engine.daemon.containers.verbs import stop as stopping
    from engine.daemon.containers.verbs import wait as waiting
    from engine.daemon.jsontext import Object
    from engine.logs import query as logs_query
else:
    signals = late("engine.daemon.signals")
    createform = late("engine.daemon.api.createform")
    schemas = late("engine.daemon.api.schemas")
    naming = late("engine.daemon.containers.naming")
    legacylinks = late("engine.daemon.containers.endpoints.legacylinks")
    attaching = late("engine.daemon.containers.output.attach")
    reading = late("engine.daemon.containers.output.logs")
    resizing = late("engine.daemon.containers.output.resize")
    creating = late("engine.daemon.containers.verbs.create")
    inspecting = late("engine.daemon.containers.verbs.inspect")
    killing = late("engine.daemon.containers.verbs.kill")
    listing = late("engine.daemon.containers.verbs.listing")
    removing = late("engine.daemon.containers.verbs.remove")
    starting = late("engine.daemon.containers.verbs.start")
    stopping = late("engine.daemon.containers.verbs.stop")
    waiting = late("engine.daemon.containers.verbs.wait")
    logs_query = late("engine.logs.query")

# The most bytes of a body that counts as empty: an empty object and the spaces around it. Older clients send it with a
# start, and it means nothing.
_EMPTY_BODY = 7
_NO_BODY = "starting container with non-empty request body was deprecated since API v1.22 and removed in v1.24"


def _waited(chunked: bool) -> tuple[tuple[bytes, bytes, bytes], bytes]:
    """The body of the answer to a wait, in parts for the monitor's process, which knows nothing of HTTP: see
    `engine.wire.waits.Wait`.
    """
    code, rest = b'{"StatusCode":', b"}\n"
    (one, after), (two, _), (three, _) = (
        around_last(len(code) + digits + len(rest), chunked=chunked) for digits in (1, 2, 3)
    )
    return (one + code, two + code, three + code), rest + after


_WAITED = {chunked: _waited(chunked) for chunked in (False, True)}


def _container(engine: DaemonParts, request: Request) -> Container:
    return current.find(engine, request.parameters["id"])


def _stream_type(container: Container, request: Request) -> str:
    return versions.stream_type(request.version, container.config["Tty"])


def create(engine: DaemonParts, request: Request) -> Response:
    """POST /containers/create: make a container from an image."""
    asked = request.required_json(schemas.CONTAINER_CREATE)
    body, more = createform.created(request.version, asked, engine.cgroups.version)
    container, warnings = creating.create(
        engine,
        request.query.text("name"),
        body,
        request.query.text("platform"),
        shallow=versions.binds_shallowly(request.version),
    )
    return Json({"Id": container.id, "Warnings": warnings + more}, 201)


def list_(engine: DaemonParts, request: Request) -> Response:
    """GET /containers/json: list containers."""
    current.bring_all(engine)
    query = request.query
    filters = query.filters()
    for name in ("since", "before"):
        # The parameters of old clients mean the same as the filters of these names.
        if value := query.text(name):
            filters.setdefault(name, (value,))
    asked = listing.AskedListing(
        all=query.flag("all"), limit=query.number("limit") or 0, size=query.flag("size"), filters=filters
    )
    version = request.version
    if asked.size:
        return Json([versions.listed_container(version, each) for each in listing.list_containers(engine, asked)])
    entries = listing.encoded(
        engine, asked, version, lambda part: encode_json(versions.listed_container(version, part))
    )
    return Response(200, JSON_TYPE, b"[%b]\n" % b",".join(entries))


def inspect(engine: DaemonParts, request: Request) -> Response:
    """GET /containers/{id}/json: show one container."""
    container = _container(engine, request)
    version = request.version

    def encode(shown: "Object") -> bytes:
        return encode_json(versions.container(version, shown, inspecting.asked_mac(container))) + b"\n"

    if request.query.flag("size"):
        return Response(200, JSON_TYPE, encode(inspecting.inspect(engine, container, size=True)))
    return Response(200, JSON_TYPE, inspecting.encoded(engine, container, version, encode))


def start(engine: DaemonParts, request: Request) -> Response:
    """POST /containers/{id}/start: start a container; the body must be empty or `{}`."""
    if len(request.body.read(_EMPTY_BODY + 1)) > _EMPTY_BODY:
        raise Invalid(_NO_BODY)
    # Whatever is wrong with the request is told before the container is looked for, as dockerd does.
    if checkpoint := request.query.text("checkpoint"):
        naming.check_checkpoint(checkpoint)
        raise NotBuilt("starting from a checkpoint is not built yet in this engine")
    starting.start(engine, _container(engine, request))
    return Empty()


def wait(engine: DaemonParts, request: Request) -> None:
    """POST /containers/{id}/wait: the head is sent at once, so that a client knows that its wait has begun."""
    condition = request.query.text("condition") or "not-running"
    if condition not in waiting.CONDITIONS:
        raise Invalid(f"invalid condition: {quoted(condition)}")
    request.park(_wait(engine, request, waiting.subscribe(_container(engine, request), condition)))


def _wait(engine: DaemonParts, request: Request, waiter: "waiting.Waiter") -> Generator[int, None, None]:
    """The steps of the answer to a wait. There may be a thousand of these, so it keeps little."""
    texts = _WAITED[request.chunked]
    # The wait is entrusted to the monitor before the head is sent: a client that has read the head gets its answer,
    # whatever becomes of this daemon.
    with (
        waiter.entrusted(engine, request.fileno(), *texts, full_close=request.full_close) as held,
        request.stream(200, "application/json") as stream,
    ):
        request.shared(held)
        del request, held
        exit_code, error = yield from waiter.steps()
        answer: Object = {"StatusCode": exit_code}
        if error:
            answer["Error"] = {"Message": error}
        stream.end(encode_json(answer) + b"\n")


def logs(engine: DaemonParts, request: Request) -> None:
    """GET /containers/{id}/logs: stream what the log driver has kept, and with `follow` the lines to come."""
    query = _log_query(request)  # what is wrong with it is told before the container is looked for
    container = _container(engine, request)
    reading.check(engine, container)
    prefix = reading.prefix(engine, container) if request.query.flag("details") else b""
    query = replace(query, prefix=prefix, tty=container.config["Tty"])
    follow = request.query.flag("follow")
    with request.stream(200, _stream_type(container, request)) as stream:
        chunked = stream.raw_chunks
        reading.send(engine, container, stream.fileno(), query, follow, chunked, request.query.flag("details"))


def _log_query(request: Request) -> "logs_query.Query":
    query = request.query
    stdout, stderr = query.flag("stdout"), query.flag("stderr")
    if not (stdout or stderr):
        raise Invalid("must specify at least one of 'stdout' or 'stderr'")
    asked = logs_query.Query(
        stdout=stdout,
        stderr=stderr,
        since_ns=query.timestamp("since") or 0,
        until_ns=query.timestamp("until") or 0,
        tail=_tail(query.text("tail")),
        timestamps=query.flag("timestamps"),
    )
    if form := query.text("format"):
        if form != "json":
            raise Invalid("unsupported log format")
        raise NotBuilt("logs as a stream of JSON (format=json) are not built in this engine")
    return asked


def _tail(text: str) -> int | None:
    # dockerd takes every text that is no number it can hold, and every negative number, for "all".
    return natural(text, INT64[1])


def attach(engine: DaemonParts, request: Request) -> None:
    """POST /containers/{id}/attach: connect the client with the container's input and output."""
    container = _container(engine, request)
    query = request.query
    asked = attaching.AskedAttach(
        logs=query.flag("logs"),
        stream=query.flag("stream"),
        stdin=query.flag("stdin"),
        stdout=query.flag("stdout"),
        stderr=query.flag("stderr"),
        detach_keys=query.text("detachKeys"),
        reference=request.parameters["id"],
    )
    content_type = _stream_type(container, request)
    attaching.attach(engine, container, asked, request.await_body, lambda: request.hijack(True, content_type))


def stop(engine: DaemonParts, request: Request) -> Response:
    """POST /containers/{id}/stop: signal the container's process, and kill it after the timeout."""
    query, reference = request.query, request.parameters["id"]
    timeout = query.number("t")
    container = _container(engine, request)
    try:
        stopping.stop(engine, container, query.text("signal") or None, timeout)
    except (Invalid, SystemFailure) as error:
        kind = Invalid if isinstance(error, Invalid) else SystemFailure
        raise kind(f"cannot stop container: {reference}: {error}") from error
    return Empty()


def kill(engine: DaemonParts, request: Request) -> Response:
    """POST /containers/{id}/kill: send a signal, SIGKILL by default."""
    reference = request.parameters["id"]
    try:
        number = signals.check_sent(signals.parse_signal(request.query.text("signal") or "SIGKILL"))
        killing.kill(engine, _container(engine, request), number)
    except EngineError as error:
        raise type(error)(f"cannot kill container: {reference}: {error}") from error
    return Empty()


def resize(engine: DaemonParts, request: Request) -> Response:
    """POST /containers/{id}/resize: set the size of the container's terminal."""
    size = terminal_size(request)
    resizing.resize(engine, _container(engine, request), *size)
    return Empty(200)


def terminal_size(request: Request) -> tuple[int, int]:
    """The (rows, columns) that the query asks for; both are required. Raises Invalid in dockerd's words."""
    return _terminal_side(request, "height", "h"), _terminal_side(request, "width", "w")


def _terminal_side(request: Request, side: str, name: str) -> int:
    text = request.query.text(name)
    try:
        return integer(text, 0, LARGEST_SIDE, reader="")
    except Invalid as reason:
        raise Invalid(f"invalid resize {side} {quoted(text)}: {reason}") from reason


def remove(engine: DaemonParts, request: Request) -> Response:
    """DELETE /containers/{id}: remove a container, or with `link` a legacy link."""
    query = request.query
    if query.flag("link"):
        legacylinks.unlink(engine, request.parameters["id"])
        return Empty()
    container = _container(engine, request)
    removing.remove(engine, container, query.flag("force"), query.flag("v"), name=request.parameters["id"])
    return Empty()
