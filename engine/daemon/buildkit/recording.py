"""The record of one build, from its begin to its end, as the history keeps it.

Runs on the thread of Control/Solve. The exporters add what they make about the result with `attest`, by the build's
ref. What cannot be recorded is logged, and is no fault of the build.
"""

import base64
import contextlib
import json
import operator
import struct
import threading
from collections.abc import Iterator, Mapping, Sequence

from engine.daemon.buildkit import buildhistory, historyblobs, tracing
from engine.daemon.buildkit.buildhistory import HistoryParts
from engine.daemon.buildkit.historyblobs import Blob
from engine.daemon.buildkit.messages.control import (
    BuildHistoryRecord,
    BuildResultInfo,
    Descriptor,
    Exporter,
    SolveRequest,
    StatusResponse,
    Vertex,
)
from engine.daemon.buildkit.messages.known import Status
from engine.daemon.buildkit.progress import Progress, now
from engine.daemon.buildkit.serving import status_of
from engine.daemon.images.reference import check_digest
from engine.dataclass import dataclass, field
from engine.errors import EngineError, Invalid
from engine.protocols import grpc, protobuf
from engine.redact import redacted

LOGS = "application/vnd.buildkit.status.v0"
_ERROR = "application/vnd.googleapis.google.rpc.status+proto"
_IN_TOTO = "application/vnd.in-toto+json"
_PREDICATE = "in-toto.io/predicate-type"
_LENGTH = struct.Struct("<I")
_LONGEST_VALUE = 16 * 1024  # characters of one option that a record keeps
_MOST_VALUES = 512 * 1024  # and of all
_CLIPPED = "..."


@dataclass(frozen=True, slots=True)
class _Attestation:
    """A document about the result. predicate: its type, a URI; platform: empty for the only one"""

    predicate: str
    document: bytes
    platform: str


@dataclass(slots=True, eq=False)
class Recording:
    """One build. told: what its client is told of the result; attestations: guarded by `_lock`"""

    record: BuildHistoryRecord
    progress: Progress
    parent: bytes
    told: Mapping[str, str] = field(default_factory=dict)
    attestations: list[_Attestation] = field(default_factory=list)


_lock = threading.Lock()
_recordings: dict[str, Recording] = {}


def attest(ref: str, predicate: str, document: bytes, platform: str = "") -> None:
    """Add a document about a build's result, such as its provenance, to the build's record.

    predicate: the type of the document, a URI; platform: that it is about, where the build has several
    A build that is not recorded, as those are not that a client makes for itself, takes no document.
    """
    with _lock:
        recording = _recordings.get(ref)
        if recording is not None:
            recording.attestations.append(_Attestation(predicate, document, platform))


@contextlib.contextmanager
def recorded(
    engine: HistoryParts, asked: SolveRequest, exporters: Sequence[Exporter], progress: Progress, parent: bytes
) -> Iterator[Recording]:
    """The build of the `with` is recorded: that it has begun, and at the end how it went.

    parent: the field `traceparent` of its call. At the end nothing more is added to the progress. A build that a client
    makes for itself (Internal) is not recorded.
    """
    record: BuildHistoryRecord = {
        "Ref": asked["Ref"],
        "Frontend": asked["Frontend"],
        "FrontendAttrs": _clipped(asked["FrontendAttrs"]),
        "Exporters": [{"Type": each["Type"], "Attrs": _clipped(each["Attrs"])} for each in exporters],
        "CreatedAt": now(),
    }
    recording = Recording(record, progress, parent)
    if asked["Internal"]:
        yield recording
        return
    with _lock:
        _recordings[asked["Ref"]] = recording
    buildhistory.begin(record)
    failure: BaseException | None = None
    try:
        yield recording
    except BaseException as error:
        failure = error
        raise
    finally:
        with _lock:
            del _recordings[asked["Ref"]]
        progress.close()
        try:
            _complete(engine, recording, failure)
        except (EngineError, OSError) as error:
            buildhistory.forget(asked["Ref"])
            buildhistory.log_failure(asked["Ref"], error)


def _clipped(values: Mapping[str, str]) -> dict[str, str]:
    """The options as a record keeps them: a client may send any number of any length."""
    found, left = {}, _MOST_VALUES
    for key, value in values.items():
        value = redacted(value)
        kept = value if len(value) <= _LONGEST_VALUE else value[:_LONGEST_VALUE] + _CLIPPED
        left -= len(key) + len(kept)
        if left < 0:
            break
        found[key] = kept
    return found


def _complete(engine: HistoryParts, recording: Recording, failure: BaseException | None) -> None:
    root, blobs = engine.settings.data_root, list[Blob]()
    buildhistory.prepare(engine)
    record: BuildHistoryRecord = {**recording.record, "CompletedAt": now()}

    def written(kind: str, pieces: Iterator[bytes], **annotations: str) -> Descriptor:
        blob = historyblobs.write(root, kind, pieces)
        blobs.append(blob)
        return {"media_type": kind, "digest": blob.digest, "size": blob.size, "annotations": annotations}

    try:
        counted = _Counted()
        record["logs"] = written(LOGS, _logged(recording.progress, counted))
        record |= counted.numbers()
        if failure is not None:
            status = _status(failure)
            record["error"] = {"code": status["code"], "message": status["message"]}
            record["externalError"] = written(_ERROR, iter((protobuf.encode(Status, status),)))
        else:
            record["ExporterResponse"] = _clipped(recording.told)
        record["trace"] = written(tracing.KIND, tracing.spans(record, counted.vertices.values(), recording.parent))
        whole, several = BuildResultInfo(), dict[str, BuildResultInfo]()
        for each in recording.attestations:
            info = several.setdefault(each.platform, BuildResultInfo()) if each.platform else whole
            descriptor = written(_IN_TOTO, iter((each.document,)), **{_PREDICATE: each.predicate})
            info.setdefault("Attestations", []).append(descriptor)
        image = _image(recording.told)
        if image is not None:
            whole |= {"ResultDeprecated": image, "Results": {0: image}}
        if whole:
            record["Result"] = whole
        record["Results"] = several
        buildhistory.complete(engine, record, blobs, [(image["digest"], image["size"])] if image else [])
    finally:
        for blob in blobs:
            historyblobs.discard(blob)


class _Counted:
    """The steps of a build, counted as its progress is read. vertices: by their digests, as they were told last"""

    def __init__(self) -> None:
        self.vertices: dict[str, Vertex] = {}
        self._cached: set[str] = set()
        self._warnings = 0

    def take(self, event: StatusResponse) -> None:
        """Count one event."""
        self._warnings += len(event.get("warnings", ()))
        for vertex in event.get("vertexes", ()):
            self.vertices[vertex["digest"]] = vertex
            if vertex.get("cached"):
                self._cached.add(vertex["digest"])

    def numbers(self) -> BuildHistoryRecord:
        """The fields of a record."""
        return {
            "numTotalSteps": len(self.vertices),
            "numCompletedSteps": sum(bool(each.get("completed")) for each in self.vertices.values()),
            "numCachedSteps": len(self._cached),
            "numWarnings": self._warnings,
        }


def _logged(progress: Progress, counted: _Counted) -> Iterator[bytes]:
    """The events of a build that has ended, each with its length before it (4 bytes, little-endian)."""
    for event in progress.follow():
        if event is not None:
            counted.take(event)
            data = protobuf.encode(StatusResponse, event)
            yield _LENGTH.pack(len(data)) + data


def replayed(engine: HistoryParts, ref: str) -> Iterator[StatusResponse] | None:
    """What a build has told that has ended; None for one that the history does not know. Raises NotFound."""
    record = buildhistory.find(engine, ref)
    logs = record.get("logs") if record else None
    if logs is None:
        return None
    return _events(engine.settings.data_root, logs["digest"])


def _events(data_root: str, digest: str) -> Iterator[StatusResponse]:
    with historyblobs.opened(data_root, digest) as file:
        while len(head := file.read(_LENGTH.size)) == _LENGTH.size:
            (length,) = _LENGTH.unpack(head)
            data = file.read(length)
            if len(data) < length:  # a loss of power has torn it: nobody has waited for the disk
                return
            yield protobuf.decode(StatusResponse, data)


def _status(failure: BaseException) -> Status:
    """How a build failed, with all details."""
    if not isinstance(failure, EngineError):
        return {"code": grpc.INTERNAL, "message": "internal error: see the daemon's log"}
    status = status_of(failure)
    if not status.details:
        return {"code": status.code, "message": status.words}
    try:
        return protobuf.decode(Status, status.details)
    except Invalid:  # a client's own frontend has sent it
        return {"code": status.code, "message": status.words}


def _image(told: Mapping[str, str]) -> Descriptor | None:
    """The image that was made, as the exporter told its client; None where none was."""
    try:
        found = json.loads(base64.b64decode(told.get("containerimage.descriptor", "")))
        digest, size = str(found["digest"]), operator.index(found["size"])
        check_digest(digest)
    except (ValueError, KeyError, TypeError, Invalid):
        return None
    annotations = {str(key): str(value) for key, value in (found.get("annotations") or {}).items()}
    return {"media_type": str(found.get("mediaType", "")), "digest": digest, "size": size, "annotations": annotations}
