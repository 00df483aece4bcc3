"""Where our answer departs from dockerd's: status, content type, JSON keys and types, error text, framed output.

Pure. Values are not compared, they differ from host to host; texts that say what is wrong are, with ids put as ID.
"""

import io
import json
import re
import tarfile
from collections.abc import Iterator
from typing import NamedTuple

from tests.harness import frames
from tests.harness.http import Answer
from tests.replay.script import Call

IDS = re.compile(r"(sha256:)?\b[0-9a-f]{12,64}\b")
STAMPS = re.compile(r"\d{4}-\d\d-\d\dT[0-9:.]+Z")
# Maps whose keys are data (names that somebody chose), not fields of the API.
OPEN_MAPS = {"Labels", "Networks", "Ports", "Runtimes", "IndexConfigs", "PortBindings", "Volumes"}
# Those whose keys differ from run to run: of their values the first is compared, where both have one.
MAPS_BY_ID = {"Containers", "Subnets"}
TEXTS = ("message", "State.Error", "error", "errorDetail.message")
NUMBERS = (int, float)
# What the recording has in the place of one.
ARCHIVE = "(a tar archive)"


class Departure(NamedTuple):
    """What differs (`status`, `type`, `missing`, `extra`, `text`, `content-type`), where, and how."""

    what: str
    where: str
    how: str


def neutral(text: str) -> str:
    """A text without what differs from run to run."""
    return STAMPS.sub("TIME", IDS.sub("ID", text))


def departures(call: Call, ours: Answer) -> list[Departure]:
    """Everything in which our answer departs from dockerd's."""
    found = []
    if ours.status != call.status:
        found.append(Departure("status", "", f"{call.status}, ours {ours.status}: {ours.body[:300]!r}"))
    kinds = [headers.get("content-type", "").split(";")[0] for headers in (call.answered, ours.headers)]
    if kinds[0] != kinds[1]:
        found.append(Departure("content-type", "", f"{kinds[0]!r}, ours {kinds[1]!r}"))
    if call.wanted == ARCHIVE:
        if not tarfile.is_tarfile(io.BytesIO(ours.body)):
            found.append(Departure("type", "", f"a tar archive, ours {ours.body[:200]!r}"))
    elif isinstance(call.wanted, str):
        found += plain(call.wanted, ours.body)
    elif isinstance(wanted := call.wanted, dict | list):
        try:
            found += shape(wanted, ours.json())
        except json.JSONDecodeError:
            found.append(Departure("type", "", f"JSON, ours {ours.body[:200]!r}"))
    return found


def plain(wanted: str, ours: bytes) -> Iterator[Departure]:
    """A text or a framed stream; frames of two streams may come in either order."""
    try:
        pairs = [sorted(frames.split(side)) for side in (wanted.encode("latin-1"), ours)]
        texts = ["".join(f"{stream}:{payload!r} " for stream, payload in side) for side in pairs]
    except ValueError:
        texts = [wanted, ours.decode(errors="replace")]
    if neutral(texts[0]) != neutral(texts[1]):
        yield Departure("text", "", f"{neutral(texts[0])[:300]!r}, ours {neutral(texts[1])[:300]!r}")


def shape(wanted: object, ours: object, where: str = "") -> Iterator[Departure]:
    """Keys and types all the way down; of lists the first element, where both have one."""
    if isinstance(wanted, NUMBERS) and isinstance(ours, NUMBERS) and isinstance(wanted, bool) == isinstance(ours, bool):
        return
    if type(wanted) is not type(ours):
        yield Departure("type", where, f"{type(wanted).__name__}, ours {type(ours).__name__} ({ours!r:.100})")
    elif isinstance(wanted, dict):
        yield from fields(wanted, ours, where)
    elif isinstance(wanted, list) and wanted and ours:
        yield from shape(wanted[0], ours[0], f"{where}[]")
    elif isinstance(wanted, str) and where in TEXTS and neutral(wanted) != neutral(ours):
        yield Departure("text", where, f"{neutral(wanted)!r}, ours {neutral(ours)!r}")


def fields(wanted: dict, ours: dict, where: str) -> Iterator[Departure]:
    """One object's keys, and below them."""
    if where.split(".")[-1] in MAPS_BY_ID:
        yield from shape(list(wanted.values()), list(ours.values()), where)
        return
    if where.split(".")[-1] not in OPEN_MAPS:
        for key in sorted(wanted.keys() - ours.keys()):
            yield Departure("missing", f"{where}.{key}".lstrip("."), f"{wanted[key]!r:.100}")
        for key in sorted(ours.keys() - wanted.keys()):
            yield Departure("extra", f"{where}.{key}".lstrip("."), f"{ours[key]!r:.100}")
    for key in wanted.keys() & ours.keys():
        yield from shape(wanted[key], ours[key], f"{where}.{key}".lstrip("."))
