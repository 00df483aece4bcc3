"""The results of build steps that are kept between builds, each under its identity: finding, keeping and using them.

A result counts once its row is in the database. It is pinned for the build that finds it; one whose layers or blobs
have gone is forgotten. Only what this engine itself has made in that very step is ever found here.
"""

import collections
import threading
import time
from collections.abc import Iterable, Sequence

from engine.daemon.builder.graph.keeper import Keeper
from engine.daemon.builder.graph.snapshot import Part, Snapshot
from engine.daemon.images.image import descriptor as describe
from engine.daemon.store import buildresults as table
from engine.daemon.store.database import Database
from engine.dataclass import dataclass
from engine.kernel.syscalls import boot_id
from engine.redact import redacted

_using = collections.Counter[str]()  # identities of results that running builds have; guarded by `_lock`
_lock = threading.Lock()


def in_use(identity: str) -> bool:
    """Whether a running build has this result."""
    with _lock:
        return identity in _using


@dataclass(frozen=True, slots=True)
class Result:
    """What a step has made. identity: its key in the cache; created_ns: when it was made, since the epoch"""

    identity: str
    outputs: tuple[Snapshot, ...]
    created_ns: int


class Results:
    """The cache as one build sees it; its threads may call it at once.

    held: what the build makes or uses is held until the cache is pruned. The classic builder has a cache of images
    instead: what it makes is no more than an offer to the other door, as long as an image has it.
    """

    def __init__(self, database: Database, keeper: Keeper, held: bool) -> None:
        self._database = database
        self._keeper = keeper
        self._held = held
        self._used: dict[str, None] = {}
        self._made: dict[str, None] = {}

    def find(self, identity: str, now: bool = False) -> Result | None:
        """What a step of this identity has made, pinned for the build; None where there is none any more.

        now: it was made by another build at this moment, so whoever keeps it may have it
        """
        with self._database.reading() as connection:
            row = table.result(connection, identity)
            rows = table.parts(connection, identity) if row is not None else []
        if row is None or not (row.held or self._held or now):
            return None
        outputs: list[list[Part]] = [[] for _ in range(row.outputs)]
        for output, diff_id, _number, media_type, digest, size in rows:
            part = self._keeper.part(diff_id, describe(media_type, digest, size))
            if part is None:
                self._forget(identity)
                return None
            outputs[output].append(part)
        self._take(identity, self._used)
        return Result(identity, tuple(Snapshot(tuple(parts)) for parts in outputs), row.created_ns)

    def keep(
        self,
        identity: str,
        outputs: Sequence[Snapshot],
        inputs: Sequence[Snapshot],
        kind: str,
        title: str,
        parents: Iterable[str],
    ) -> Result:
        """Remember what a step has made. kind, title: of its record; parents: identities of the results below it"""
        now = time.time_ns()
        below = {part.layer.diff_id for each in inputs for part in each.parts}
        own = {part.layer.diff_id: part for each in outputs for part in each.parts if part.layer.diff_id not in below}
        size = sum(part.layer.size + part.descriptor["size"] for part in own.values())
        row = table.ResultRow(identity, kind, redacted(title), len(outputs), size, self._held, boot_id(), now, now, 0)
        with self._database.transaction() as connection:
            older = table.result(connection, identity)
            if self._held or older is None or not older.held:  # an offer does not take the place of what is held
                table.add(connection, row, _rows(outputs), parents)
        self._take(identity, self._made)
        return Result(identity, tuple(outputs), now)

    def _take(self, identity: str, kind: dict[str, None]) -> None:
        with _lock:
            if identity not in self._used and identity not in self._made:
                _using[identity] += 1
            kind[identity] = None

    def _forget(self, identity: str) -> None:
        with self._database.transaction(frees=True) as connection:
            table.drop(connection, [identity])

    def settled(self) -> None:
        """Record that all files of this build were synced to the disk."""
        if self._made:
            with self._database.transaction() as connection:
                table.settle(connection, list(self._made))

    def close(self) -> None:
        """Write the time of use of all results that were found, in one transaction at the end of the build."""
        with _lock:
            _using.subtract({*self._used, *self._made})
            for identity in [each for each, count in _using.items() if not count]:
                del _using[identity]
        if self._used:
            with self._database.transaction() as connection:
                table.use(connection, list(self._used), time.time_ns(), self._held)


def _rows(outputs: Sequence[Snapshot]) -> list[table.PartRow]:
    return [
        table.PartRow(
            index,
            part.layer.number,
            part.descriptor["mediaType"],
            part.descriptor["digest"],
            part.descriptor["size"],
        )
        for index, output in enumerate(outputs)
        for part in output.parts
    ]
