"""The trace of a build that has ended: what was done when, as `docker buildx history trace` shows it.

Pure. A trace is a line of JSON for each span, in the form of OpenTelemetry's exporter to standard output for Go: one
span for the build, and below it one for each vertex of its progress that began.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence

from engine.daemon.buildkit.messages.control import BuildHistoryRecord, Vertex
from engine.daemon.buildkit.messages.known import Timestamp
from engine.daemon.clock import rfc3339
from engine.daemon.jsontext import Object

KIND = "application/vnd.buildkit.otlp.json.v0"
_PARENT = re.compile(rb"00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")  # W3C Trace Context, section 3.2
_NOBODY = "0" * 16
_INTERNAL, _SERVER = 1, 2


def spans(record: BuildHistoryRecord, vertices: Iterable[Vertex], parent: bytes) -> Iterator[bytes]:
    """The lines of a build's trace. parent: the field `traceparent` of the call that began it; any bytes at all"""
    told = _PARENT.fullmatch(parent)
    known = hashlib.sha256(record["Ref"].encode("utf-8", "replace")).hexdigest()
    trace = told[1].decode() if told else known[:32]
    root, above = known[32:48], told[2].decode() if told else _NOBODY
    created, completed = record["CreatedAt"], record.get("CompletedAt")
    error = record.get("error")
    made = list(vertices)
    began = [each for each in made if each.get("started")]
    names = [("ref", record["Ref"])]
    yield _line(
        *("moby.buildkit.v1.Control/Solve", trace, root, above, _SERVER, created, completed or created),
        *(error["message"] if error else "", names, len(began)),
    )
    for vertex in began:
        own = hashlib.sha256(f"{record['Ref']} {vertex['digest']}".encode("utf-8", "replace")).hexdigest()[:16]
        start = vertex["started"]
        end = vertex.get("completed") or completed or start
        facts: list[tuple[str, str | bool]] = [("vertex", vertex["digest"]), ("cached", vertex.get("cached", False))]
        yield _line(vertex["name"], trace, own, root, _INTERNAL, start, end, vertex.get("error", ""), facts, 0)


def _line(
    name: str,
    trace: str,
    own: str,
    parent: str,
    kind: int,
    start: Timestamp | None,
    end: Timestamp | None,
    error: str,
    facts: Sequence[tuple[str, str | bool]],
    children: int,
) -> bytes:
    span: Object = {
        "Name": name,
        "SpanContext": _context(trace, own),
        "Parent": _context(trace if parent != _NOBODY else _NOBODY * 2, parent),
        "SpanKind": kind,
        "StartTime": _moment(start),
        "EndTime": _moment(end),
        "Attributes": [_fact(key, value) for key, value in facts],
        "Events": None,
        "Links": None,
        "Status": {"Code": "Error" if error else "Unset", "Description": error},
        "DroppedAttributes": 0,
        "DroppedEvents": 0,
        "DroppedLinks": 0,
        "ChildSpanCount": children,
        "Resource": [_fact("service.name", "engine")],
        "InstrumentationLibrary": {"Name": "engine", "Version": "", "SchemaURL": "", "Attributes": None},
    }
    return json.dumps(span, separators=(",", ":")).encode() + b"\n"


def _context(trace: str, span: str) -> Object:
    return {"TraceID": trace, "SpanID": span, "TraceFlags": "01", "TraceState": "", "Remote": False}


def _fact(key: str, value: str | bool) -> Object:
    return {"Key": key, "Value": {"Type": "BOOL" if isinstance(value, bool) else "STRING", "Value": value}}


def _moment(moment: Timestamp | None) -> str:
    return rfc3339(moment["seconds"] * 1_000_000_000 + moment["nanos"] if moment else 0)
