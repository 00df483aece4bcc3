"""The history of builds: which run, which have ended and how, and those who listen.

Records are kept in the database, and what they refer to in files (`historyblobs`), so both outlive the daemon. As in
BuildKit a record goes when it is neither one of the last 50 nor of the last 48 hours, and stays while it is pinned. All
records together are bounded too. Runs on the threads of calls. `_lock` guards the table of builds that run and that of
listeners, and is held while records change, so that no file is removed that a new record refers to; nobody waits for a
client while holding it.
"""

import logging
import os
import queue
import threading
import time
from collections.abc import Iterator, Sequence

from engine.annotating import Protocol
from engine.daemon.buildkit import historyblobs, historyfilters
from engine.daemon.buildkit.historyblobs import Blob
from engine.daemon.buildkit.messages.control import (
    COMPLETE,
    DELETED,
    STARTED,
    BuildHistoryEvent,
    BuildHistoryRecord,
    BuildHistoryRequest,
)
from engine.daemon.parts import DatabasePart, SettingsPart
from engine.daemon.store import buildrecords as table
from engine.errors import EngineError, Invalid, NotFound, Unavailable
from engine.protocols import protobuf

KEPT = 50
KEPT_NS = 48 * 3600 * 1_000_000_000
"""A record goes when it is none of the last so many, and older than that."""
MOST = 1000
"""Records that are kept whatever their age, pinned ones aside."""
_MOST_PARTS = 100  # the files of those take a hundredth of the disk at most
_MOST_UNREAD = 10_000  # events that wait for a listener
_LOOK_SECONDS = 1.0
log = logging.getLogger(__name__)


class HistoryParts(DatabasePart, SettingsPart, Protocol):
    """For the history: where its rows and files are."""


_lock = threading.Lock()
_active: dict[str, BuildHistoryRecord] = {}
_listeners: set["_Listener"] = set()
_swept: set[str] = set()  # data roots; a process has more than one in tests alone


class _Listener:
    """One who listens. ref: of the one build that it asks for, empty for all"""

    def __init__(self, ref: str) -> None:
        self.ref = ref
        self.lost = False  # it did not keep up
        self.events: queue.SimpleQueue[BuildHistoryEvent] = queue.SimpleQueue()


def _publish(kind: int, record: BuildHistoryRecord) -> None:
    """Tell those who listen; the caller holds the lock."""
    for each in _listeners:
        if each.ref in ("", record["Ref"]) and not each.lost:
            each.events.put({"type": kind, "record": record})
            each.lost = each.events.qsize() > _MOST_UNREAD


def begin(record: BuildHistoryRecord) -> None:
    """A build has begun."""
    with _lock:
        _active[record["Ref"]] = record
        _publish(STARTED, record)


def complete(
    engine: HistoryParts, record: BuildHistoryRecord, blobs: Sequence[Blob], others: Sequence[tuple[str, int]]
) -> None:
    """A build has ended. The history must know it before its client is told.

    blobs: files that the record refers to, which are kept with it
    others: (digest, size) of blobs of the image store that it refers to
    Raises SystemFailure; the build is then forgotten.
    """
    ref = record["Ref"]
    with _lock:
        _active.pop(ref, None)
        _sweep(engine)
        for blob in blobs:
            historyblobs.keep(engine.settings.data_root, blob)
        held = [(blob.digest, blob.size) for blob in blobs]
        with engine.database.transaction() as connection:
            older = table.blobs(connection, ref)
            encoded = protobuf.encode(BuildHistoryRecord, record)
            table.put(connection, ref, time.time_ns(), False, encoded, [*held, *others])
        _let_go(engine, older)
        _publish(COMPLETE, record)
        _tidy(engine)


def forget(ref: str) -> None:
    """A build has ended of which nothing could be recorded."""
    with _lock:
        _active.pop(ref, None)


def _sweep(engine: HistoryParts) -> None:
    """At the daemon's first use, remove the files that an earlier one has left; the caller holds the lock."""
    root = engine.settings.data_root
    if root in _swept:
        return
    with engine.database.reading() as connection:
        held = table.all_held(connection)
    historyblobs.sweep(root, held)
    _swept.add(root)


def prepare(engine: HistoryParts) -> None:
    """Have the place of the files ready to be written to. Raises OSError."""
    with _lock:
        _sweep(engine)


def _let_go(engine: HistoryParts, digests: Sequence[str]) -> None:
    with engine.database.reading() as connection:
        historyblobs.remove(engine.settings.data_root, digests, lambda digest: table.held(connection, digest))


def _drop(engine: HistoryParts, ref: str) -> None:
    """Remove a record; the caller holds the lock."""
    with engine.database.transaction(frees=True) as connection:
        digests = table.blobs(connection, ref)
        dropped = table.drop(connection, ref)
    _let_go(engine, digests)
    if dropped:
        _publish(DELETED, {"Ref": ref})


def _tidy(engine: HistoryParts) -> None:
    """Remove the records that are too old and too many; the caller holds the lock."""
    state = os.statvfs(engine.settings.data_root)
    weight = state.f_blocks * state.f_frsize // _MOST_PARTS
    with engine.database.reading() as connection:
        surplus = table.surplus(connection, KEPT, time.time_ns() - KEPT_NS, MOST, weight)
    for ref in surplus:
        _drop(engine, ref)


def delete(engine: HistoryParts, ref: str) -> None:
    """Remove the record of a build, if there is one. Raises SystemFailure."""
    with _lock:
        _drop(engine, ref)


def pin(engine: HistoryParts, ref: str, pinned: bool) -> None:
    """Have a record stay, or not any more. Raises NotFound, SystemFailure."""
    with _lock:
        with engine.database.transaction() as connection:
            record = _read(table.get(connection, ref))
            if record is None:
                raise NotFound(f"failed to retrieve ref {ref}: file does not exist")
            record["pinned"] = pinned
            record["Generation"] += 1
            table.change(connection, ref, pinned, protobuf.encode(BuildHistoryRecord, record))
        _publish(COMPLETE, record)


def find(engine: DatabasePart, ref: str) -> BuildHistoryRecord | None:
    """The record of a build that has ended; None where there is none."""
    with engine.database.reading() as connection:
        return _read(table.get(connection, ref))


def _read(data: bytes | None) -> BuildHistoryRecord | None:
    return None if data is None else protobuf.decode(BuildHistoryRecord, data)


def listen(engine: HistoryParts, asked: BuildHistoryRequest) -> Iterator[BuildHistoryEvent | None]:
    """What a client asks to hear: builds that run, then those that have ended, then what happens; None about each
    second in which nothing does.

    Raises Invalid, and Unavailable for a listener that does not keep up.
    """
    test, limit, ref = historyfilters.compiled(asked["Filter"]), asked["Limit"], asked["Ref"]
    if limit < 0:
        raise Invalid(f"invalid limit {limit}")
    listener = _Listener(ref)
    with _lock:
        _tidy(engine)
        running = [record for record in _active.values() if ref in ("", record["Ref"])]
        if not asked["EarlyExit"]:
            _listeners.add(listener)
    try:
        for record in running:
            yield {"type": STARTED, "record": record}
        if not asked["ActiveOnly"]:
            yield from _ended(engine, ref, test, limit)
        while not asked["EarlyExit"]:
            try:
                yield listener.events.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                yield None
            if listener.lost:
                raise Unavailable("too many events wait for this listener")
    finally:
        with _lock:
            _listeners.discard(listener)


def _ended(engine: DatabasePart, ref: str, test: historyfilters.Test, limit: int) -> Iterator[BuildHistoryEvent]:
    """The builds that have ended, the last one first; one record is in memory at a time."""
    with engine.database.reading() as connection:
        refs = [ref] if ref else table.refs(connection)
    left = limit or len(refs)
    for each in refs:
        record = find(engine, each)
        if record is not None and test(record):
            yield {"type": COMPLETE, "record": record}
            left -= 1
            if not left:
                return


def holds(engine: DatabasePart, digest: str) -> bool:
    """Whether a record refers to this blob."""
    with engine.database.reading() as connection:
        return table.held(connection, digest)


def log_failure(ref: str, error: EngineError | OSError) -> None:
    """A build's record could not be kept, which is no fault of the build."""
    log.warning("the history has no record of the build %s: %s", ref, error)
