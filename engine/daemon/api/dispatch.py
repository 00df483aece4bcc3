"""Finds the handler of a request in the table of routes, calls it, and turns its failure into an HTTP status and error
body.

No other module chooses the status of a failure. It runs in the request's thread. A dispatcher is made once, from a
table of routes, and never changes.
"""

import logging
from collections.abc import Callable, Iterable

from engine.daemon import busy
from engine.daemon.api.answers import RAW_STREAM, Empty, Json, Response, Text
from engine.daemon.api.request import Request
from engine.daemon.api.streams import ClientGone
from engine.daemon.api.versions import (
    NEWEST,
    check_version,
    parse_version,
    plain_errors,
    split_version,
    unknown_parameters,
)
from engine.daemon.parts import DaemonParts
from engine.dataclass import dataclass
from engine.errors import (
    CommandFailed,
    Conflict,
    EngineError,
    Forbidden,
    Invalid,
    NotBuilt,
    NotFound,
    NotModified,
    SystemFailure,
    Unauthorized,
    Unavailable,
)
from engine.kernel import reasons

log = logging.getLogger(__name__)

Handler = Callable[[DaemonParts, Request], Response | None]
"""A function that answers a request. It returns a whole answer, or None once it has streamed one or taken the
connection over.
"""

STATUSES = {
    Invalid: 400,
    Unauthorized: 401,
    Forbidden: 403,
    NotFound: 404,
    Conflict: 409,
    NotModified: 304,
    NotBuilt: 501,
    Unavailable: 503,
    SystemFailure: 500,
    CommandFailed: 500,
    EngineError: 500,
}
_CONTAINERS = "/containers/"
_NOT_FOUND = {"message": "page not found"}


@dataclass(frozen=True, slots=True)
class Route:
    """One row of the table of routes.

    pattern: a path without its version; `{id}` is one segment, `{name...}` one or more; the first row that fits wins
    raw_errors: failures are told as the first line of a raw stream, as attach does
    """

    method: str
    pattern: str
    handler: Handler
    raw_errors: bool = False


class Dispatcher:
    """Calls the handler of each request. One look into a dict finds the route, except for patterns of
    several segments.
    """

    def __init__(self, engine: DaemonParts, routes: Iterable[Route]):
        self._engine = engine
        self._fixed: dict[tuple[str, str], Route] = {}
        self._one_segment: dict[tuple[str, str, str], tuple[str, Route]] = {}
        self._several: dict[tuple[str, str], list[tuple[str, str, Route]]] = {}
        for route in routes:
            self._add(route)

    def _add(self, route: Route) -> None:
        prefix, brace, rest = route.pattern.partition("{")
        if not brace:
            self._fixed[route.method, route.pattern] = route
            return
        name, _, suffix = rest.partition("}")
        if prefix.count("/") != 2 or "{" in suffix:
            raise ValueError(f"{route.pattern}: only the second segment of a path can be a parameter")
        if name.endswith("..."):
            rows = self._several.setdefault((route.method, prefix), [])
            rows.append((suffix, name.removesuffix("..."), route))
        else:
            self._one_segment[route.method, prefix, suffix] = (name, route)

    def find(self, method: str, path: str) -> tuple[Route, dict[str, str]] | None:
        """The route for a path without its version, and the parameters in the path; None when no route fits.

        A container may also be named by a link that another one has to it, in two segments.
        """
        route = self._fixed.get((method, path))
        if route is not None:
            return route, {}
        cut = path.find("/", 1) + 1
        prefix, rest = path[:cut], path[cut:]
        parameter, slash, tail = rest.partition("/")
        row = self._one_segment.get((method, prefix, slash + tail))
        if row is not None and parameter:
            name, route = row
            return route, {name: parameter}
        for suffix, name, route in self._several.get((method, prefix), ()):
            if rest.endswith(suffix) and len(rest) > len(suffix):
                return route, {name: rest[: len(rest) - len(suffix)]}
        if prefix == _CONTAINERS:
            alias, slash, tail = tail.partition("/")
            row = self._one_segment.get((method, prefix, slash + tail))
            if row is not None and parameter and alias:
                name, route = row
                return route, {name: f"{parameter}/{alias}"}
        return None

    def __call__(self, request: Request) -> Response | None:
        """Answer a request; raises nothing but ClientGone."""
        text, path = split_version(request.path)
        # Some clients end a path with a slash, and mean the same path. The root itself is no endpoint.
        path = request.path = path.rstrip("/") or "/"
        log.debug("%s %r", request.method, path)
        if request.method == "OPTIONS":
            return Empty(200)
        found = self.find(request.method, path)
        if found is None:
            return Json(_NOT_FOUND, 404)
        route, request.parameters = found
        if path.startswith(_CONTAINERS):
            busy.concern(request.parameters.get("id", ""))
        try:
            request.version = parse_version(text)
            check_version(text, request.version)
            if request.version < NEWEST:
                request.query.drop(unknown_parameters(request.version, f"{route.method} {route.pattern}"))
            answer = route.handler(self._engine, request)
        except ClientGone:
            raise
        except EngineError as error:
            return self._failed(request, route, error)
        except Exception as error:
            # This is the boundary: an error that a handler did not foresee ends its own request and nothing else.
            log.exception("the request has failed")
            return self._failed(request, route, SystemFailure(f"internal error: {reasons.whole(error)}"))
        if answer is None and not request.started:
            log.error("the request was not answered")
            return Json({"message": "internal error: no answer"}, 500)
        return answer

    def _failed(self, request: Request, route: Route, error: EngineError) -> Response | None:
        if request.started:
            log.error("the request failed after its answer had begun: %s", error)
            request.abort()
            return None
        status = status_of(error)
        if status == 500:
            log.warning("%s", error)
        if status == 304:
            return Empty(304)
        if route.raw_errors:
            return Response(status, RAW_STREAM, f"{error}\r\n".encode("utf-8", "replace"))
        if plain_errors(request.version):
            return Text(f"{error}\n", status)
        return Json({"message": str(error)}, status)


def status_of(error: EngineError) -> int:
    """The HTTP status of a failure: that of its class, or of the nearest base class that has one."""
    return next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)
