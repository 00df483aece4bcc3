"""The endpoint GET /events: sends one client the past events that are kept, then new ones until it leaves or its time
is over.

It runs in the request's thread. The thread sleeps on the event subscription and on the connection together, and wakes
for nothing else.
"""

import logging
import time

from engine.daemon.api import versions
from engine.daemon.api.answers import encode_json
from engine.daemon.api.eventfilter import SCOPE, compile_filters
from engine.daemon.api.negotiation import choose
from engine.daemon.api.request import Request
from engine.daemon.api.versions import Version
from engine.daemon.clock import SECOND
from engine.daemon.parts import DaemonParts
from engine.daemon.runtime.events import Event
from engine.errors import Invalid
from engine.literals import timestamp

log = logging.getLogger(__name__)

_JSON_SEQUENCE = "application/json-seq"
_MOST_REMEMBERED = 4096  # bytes; few lines are longer, and a longer one is not kept in memory with its event
_RECORD_SEPARATOR = b"\x1e"  # before each text of a JSON sequence, RFC 7464


def events(engine: DaemonParts, request: Request) -> None:
    """GET /events: stream events in the content type that the client accepts."""
    query = request.query
    since_ns, until_ns = _moment(request, "since"), _moment(request, "until")
    if since_ns is not None and until_ns is not None and until_ns < since_ns:
        texts = query.text("since"), query.text("until")
        raise Invalid("`since` time ({}) cannot be after `until` time ({})".format(*texts))
    wanted = compile_filters(query.filters())
    content_type = choose(request.headers.get("accept", ""), versions.event_types(request.version))
    prefix = _RECORD_SEPARATOR if content_type == _JSON_SEQUENCE else b""
    version = request.version

    def lines(some: list[Event]) -> list[bytes]:
        shown = (event for event in some if versions.knows_event(version, event.kind, event.action) and wanted(event))
        return [prefix + _line(version, event) for event in shown]

    past, subscription = engine.events.subscribe()
    with subscription, request.stream(200, content_type) as stream:
        stream.write_each(lines(_kept(past, since_ns, until_ns)))
        while (left := _left(until_ns)) is None or left > 0:
            request.wait(subscription.fileno(), left)
            stream.write_each(lines(subscription.take()))
            if subscription.dropped:
                log.warning("a client of GET /events does not read its events: its stream is closed")
                request.abort()
                return


def _moment(request: Request, name: str) -> int | None:
    text = request.query.text(name)
    if not text:
        return None
    try:
        return timestamp(text)
    except Invalid as error:
        raise Invalid(f"invalid value for '{name}': {error}") from error


def _kept(past: list[Event], since_ns: int | None, until_ns: int | None) -> list[Event]:
    """The kept events within the bounds that the client gave; none when it gave no bound. An `until` of
    0 is no bound.
    """
    if since_ns is None and until_ns is None:
        return []
    return [event for event in past if event.time_ns >= (since_ns or 0) and (not until_ns or event.time_ns <= until_ns)]


def _left(until_ns: int | None) -> float | None:
    return None if until_ns is None else (until_ns - time.time_ns()) / SECOND


def _line(version: Version, event: Event) -> bytes:
    """The event as one line of JSON. It is made once for all clients that get events in the same form."""
    form = versions.event_form(version)
    line = event.lines.get(form)
    if line is None:
        shown = {
            "Type": event.kind,
            "Action": event.action,
            "Actor": {"ID": event.actor, "Attributes": dict(sorted(event.attributes.items()))},
            "scope": SCOPE,
            "time": event.time_ns // SECOND,
            "timeNano": event.time_ns,
        }
        line = encode_json(versions.event(version, shown)) + b"\n"
        if len(line) <= _MOST_REMEMBERED:
            event.lines[form] = line
    return line
