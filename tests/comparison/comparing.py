"""In what two answers to one call differ: status, kind of body, JSON to its last value, words, framed output. Pure.

What differs from run to run (ids, times, addresses of devices, measurements) is put out of the way first.
"""

import io
import json
import re
import tarfile
from collections.abc import Iterator

from tests.comparison.step import Step
from tests.harness import frames
from tests.harness.http import Answer
from tests.replay.compare import IDS, STAMPS, Departure

MACS = re.compile(r"\b([0-9a-f]{2}:){5}[0-9a-f]{2}\b")
HOSTNAMES = re.compile(r"\b[0-9a-f]{12}\b")
# The data root of either side.
ROOTS = re.compile(r"/tmp/engine-\w+/(t/d|o/data)\b")
# The IPv6 subnets that a daemon without a pool of its own draws.
DRAWN = re.compile(r"\bfd[0-9a-f]{2}:[0-9a-f]{1,4}:[0-9a-f]{1,4}::(?=1?\b|/64)")
# An exec whose stream has ended may not be recorded as ended yet.
OVER = re.compile(r"exec command ID (is already running|has already run)")
# Values that are measured, drawn or those of one daemon's own places; their types are compared all the same.
VOLATILE = frozenset(
    {
        *("Created", "CreatedAt", "StartedAt", "FinishedAt", "Pid", "SandboxKey", "Mountpoint", "ResolvConfPath"),
        *("HostnamePath", "HostsPath", "LogPath", "Data", "Start", "End", "time", "timeNano", "Digest", "digest"),
        *("SizeRw", "SizeRootFs", "Size", "SharedSize", "VirtualSize", "size", "LastTagTime", "aux", "progress"),
        *("EndpointID", "NetworkID", "SandboxID", "Id", "ID", "ImageID", "Parent", "MacAddress", "Status", "HostPort"),
        *("RepoDigests", "Name.", "execID", "stream", "TotalCount", "SpaceReclaimed"),
    }
)
# Lists whose order says nothing.
UNORDERED = frozenset({"Volumes", "Warnings", "Aliases", "DNSNames", "RepoTags", "Mounts", "ContainersDeleted"})


def neutral(text: str) -> str:
    """A text without what differs from run to run."""
    for pattern, stands in ((HOSTNAMES, "ID"), (IDS, "ID"), (MACS, "MAC"), (STAMPS, "TIME"), (ROOTS, "/ROOT")):
        text = pattern.sub(stands, text)
    return OVER.sub("exec command ID is over", DRAWN.sub("ULA::", text))


def departures(step: Step, theirs: Answer, ours: Answer) -> list[Departure]:
    """Everything in which our answer departs from dockerd's."""
    found = []
    if theirs.status != ours.status:
        how = f"{theirs.status}, ours {ours.status}: {theirs.body[:200]!r}, ours {ours.body[:200]!r}"
        return [Departure("status", "", neutral(how))]
    kinds = [answer.headers.get("content-type", "").split(";")[0] for answer in (theirs, ours)]
    if kinds[0] != kinds[1]:
        found.append(Departure("content-type", "", f"{kinds[0]!r}, ours {kinds[1]!r}"))
    pair = [decoded(answer) for answer in (theirs, ours)]
    if isinstance(pair[0], str) and isinstance(pair[1], str):
        said = [neutral(framed(text)) for text in pair]
        differs = not step.shape and said[0] != said[1]
        return found + ([Departure("text", "", f"{said[0][:300]!r}, ours {said[1][:300]!r}")] if differs else [])
    if isinstance(pair[0], list) and re.search(r"^/networks|/changes$", step.path):  # in no order
        pair = [sorted(side, key=_rank) for side in pair]
    return found + list(values(*pair, "", step.shape))


def framed(text: str) -> str:
    """A framed stream as what each stream said, whatever its pieces; any other text as it is."""
    try:
        pieces = list(frames.split(text.encode("latin-1")))
    except ValueError:
        return text
    return " ".join(f"{stream}: {b''.join(data for each, data in pieces if each == stream)!r}" for stream in (1, 2))


def decoded(answer: Answer) -> object:
    """A body: JSON, the list of JSON lines, the names in a tar, or text as latin-1."""
    kind = answer.headers.get("content-type", "")
    if "json" in kind and answer.body:
        try:
            return json.loads(answer.body)
        except json.JSONDecodeError:
            return [json.loads(line) for line in answer.body.splitlines() if line.strip()]
    if kind == "application/x-tar" and tarfile.is_tarfile(io.BytesIO(answer.body)):
        with tarfile.open(fileobj=io.BytesIO(answer.body)) as archive:
            return {entry.name: f"{entry.type!r} {entry.mode:o} {entry.uid}:{entry.gid}" for entry in archive}
    return answer.body.decode("latin-1")


def values(theirs: object, ours: object, where: str, shape: bool) -> Iterator[Departure]:
    """Keys, types and, without `shape`, values, all the way down."""
    name = where.rpartition(".")[2].removesuffix("[]")
    numbers = isinstance(theirs, int | float) and isinstance(ours, int | float)
    if type(theirs) is not type(ours) and not (numbers and bool not in (type(theirs), type(ours))):
        yield Departure("type", where, f"{neutral(f'{theirs!r:.120}')}, ours {neutral(f'{ours!r:.120}')}")
    elif isinstance(theirs, dict):
        yield from fields(theirs, ours, where, shape)
    elif isinstance(theirs, list):
        yield from items(theirs, ours, where, shape)
    elif not shape and name not in VOLATILE and neutral(str(theirs)) != neutral(str(ours)):
        yield Departure("value", where, f"{neutral(str(theirs))[:300]!r}, ours {neutral(str(ours))[:300]!r}")


def fields(theirs: dict, ours: dict, where: str, shape: bool) -> Iterator[Departure]:
    """One object's keys, and below them."""
    pair = [{neutral(key): value for key, value in side.items()} for side in (theirs, ours)]
    for key in sorted(pair[0].keys() - pair[1].keys()):
        yield Departure("missing", f"{where}.{key}".lstrip("."), neutral(f"{pair[0][key]!r:.120}"))
    for key in sorted(pair[1].keys() - pair[0].keys()):
        yield Departure("extra", f"{where}.{key}".lstrip("."), neutral(f"{pair[1][key]!r:.120}"))
    for key in sorted(pair[0].keys() & pair[1].keys()):
        yield from values(pair[0][key], pair[1][key], f"{where}.{key}".lstrip("."), shape)


def items(theirs: list, ours: list, where: str, shape: bool) -> Iterator[Departure]:
    """One list: with `shape` its first element alone, where both have one."""
    if shape:
        if theirs and ours:
            yield from values(theirs[0], ours[0], f"{where}[]", shape)
        return
    if where.rpartition(".")[2] in UNORDERED:
        theirs, ours = (sorted(side, key=_rank) for side in (theirs, ours))
    if len(theirs) != len(ours):
        yield Departure("length", where, f"{neutral(f'{theirs!r:.400}')}, ours {neutral(f'{ours!r:.400}')}")
        return
    for one, other in zip(theirs, ours, strict=True):
        yield from values(one, other, f"{where}[]", shape)


def _rank(item: object) -> str:
    if isinstance(item, dict):
        return str(item.get("Name") or item.get("Names") or item.get("Destination") or neutral(json.dumps(item)))
    return neutral(str(item))
