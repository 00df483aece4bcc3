"""The build cache's records: their listing for GET /system/df, and their removal by POST /build/prune.

Runs on the request's thread. Four kinds of things are kept for builds: the result of a node of the graph with its
layers, the image of a step of the classic builder, which is no more than a row that names it, the directories of cache
mounts, and the mirrors of clients' directories. Images are not removed here: `docker image prune` does that.
"""

import hashlib
import os
import time
from collections.abc import Callable

from engine.daemon import moments
from engine.daemon.builder import directories, mirrors
from engine.daemon.builder.graph.results import in_use
from engine.daemon.clock import rfc3339
from engine.daemon.images.image import Image
from engine.daemon.jsontext import Object
from engine.daemon.parts import ContainerParts
from engine.daemon.store import buildresults as results
from engine.daemon.store import builds as table
from engine.dataclass import dataclass, field
from engine.errors import Invalid

_STEP, _MOUNT, _MIRROR = "regular", "exec.cachemount", "source.local"
_ID_LENGTH = 25
_TRUE = frozenset({"1", "true", "t"})


@dataclass(frozen=True, slots=True)
class AskedPruning:
    """The parameters of a pruning.

    all: also take the steps that images with names are made of
    reserved: bytes that may stay; most: bytes that may stay at most; free: bytes of the disk that are to be free
    For each of the three 0 means that nothing is asked.
    test: chooses further among the records that the filters choose
    """

    all: bool = False
    filters: dict[str, tuple[str, ...]] = field(default_factory=dict)
    reserved: int = 0
    most: int = 0
    free: int = 0
    test: Callable[["Record"], bool] = lambda _: True


@dataclass(frozen=True, slots=True)
class Record:
    """One thing that is kept for builds: the result of a step, a cache directory, or a mirror of a client's directory.

    type: `regular`, `source.local` or `exec.cachemount`; parents: ids of the records of what a result stands on
    uses: how often a later build has used it; size: bytes that it alone takes; in_use: a build has it at this moment
    named: an image with a name stands on it, so that removing the record frees nothing
    result: key of a node's result; key: of a classic step's row; number: of a directory; mirror: its name
    """

    id: str
    type: str
    description: str
    created_ns: int
    used_ns: int
    uses: int
    size: int = 0
    in_use: bool = False
    named: bool = False
    key: str = ""
    number: int = 0
    mirror: str = ""
    result: str = ""
    parents: tuple[str, ...] = ()

    @property
    def mutable(self) -> bool:
        """Whether later builds change it in its place."""
        return bool(self.number or self.mirror)


def records(engine: ContainerParts) -> list[Record]:
    """Everything that is kept for builds, the most recently used first."""
    with engine.database.reading() as connection:
        rows, mounts = table.entries(connection), table.mounts(connection)
    named = _named(engine)
    found = _results(engine)
    found += [
        Record(
            row["key"][:_ID_LENGTH],
            _STEP,
            row["step"],
            row["created_ns"],
            row["used_ns"],
            row["uses"],
            named=row["image"] in named,
            key=row["key"],
        )
        for row in rows
    ]
    found += [
        Record(
            hashlib.sha256(b"mount %d" % row["number"]).hexdigest()[:_ID_LENGTH],
            _MOUNT,
            f"cached mount {row['name']}",
            row["created_ns"],
            row["used_ns"],
            row["uses"],
            size=directories.size(engine, row["number"]),
            in_use=directories.in_use(row["number"]),
            number=row["number"],
        )
        for row in mounts
    ]
    found += [
        Record(
            each.name[:_ID_LENGTH],
            _MIRROR,
            each.description,
            each.created_ns,
            each.used_ns,
            each.uses,
            size=each.size,
            in_use=each.in_use,
            mirror=each.name,
        )
        for each in mirrors.kept(engine.settings.data_root)
    ]
    return sorted(found, key=lambda record: record.used_ns, reverse=True)


def _results(engine: ContainerParts) -> list[Record]:
    """The results that the cache holds, with their layers."""
    with engine.database.reading() as connection:
        rows, below, tops = results.results(connection), results.parents(connection), results.tops(connection)
    named = {layer for image in engine.images.all() if image.names for layer in image.layers}
    held = {row.key for row in rows}
    parents: dict[str, list[str]] = {}
    for key, parent in below:
        if parent in held:
            parents.setdefault(key, []).append(parent[:_ID_LENGTH])
    return [
        Record(
            row.key[:_ID_LENGTH],
            row.kind,
            row.description,
            row.created_ns,
            row.used_ns,
            row.uses,
            size=row.size,
            in_use=in_use(row.key),
            named=not named.isdisjoint(map(str, tops.get(row.key, ()))),
            result=row.key,
            parents=tuple(parents.get(row.key, ())),
        )
        for row in rows
    ]


def figures(engine: ContainerParts) -> list[Object]:
    """Everything that is kept for builds, in the form of BuildCache in GET /system/df."""
    return [
        {
            "ID": record.id,
            "Type": record.type,
            "Description": record.description,
            "InUse": record.in_use,
            "Shared": record.named,
            "Size": record.size,
            "CreatedAt": rfc3339(record.created_ns),
            "LastUsedAt": rfc3339(record.used_ns),
            "UsageCount": record.uses,
            **({"Parents": list(record.parents)} if record.parents else {}),
        }
        for record in records(engine)
    ]


def _named(engine: ContainerParts) -> set[str]:
    """Ids of the images that have a name, and of all images that those were made from."""
    images = {image.id: image for image in engine.images.all()}
    found: set[str] = set()
    for image in images.values():
        if not image.names:
            continue
        current: Image | None = image
        while current is not None and current.id not in found:
            found.add(current.id)
            current = images.get(current.parent)
    return found


def prune(engine: ContainerParts, asked: AskedPruning) -> tuple[list[str], int]:
    """Remove what the filters and limits choose. Returns the ids of the removed records and the bytes freed.

    Raises Invalid, in dockerd's words.
    """
    try:
        if unknown := asked.filters.keys() - _FILTERS.keys():
            raise Invalid(f"invalid filter '{min(unknown)}'")
        if asked.filters.get("until") and asked.filters.get("unused-for"):
            raise Invalid('conflicting filters: "until" and "unused-for"')
        for name, values in asked.filters.items():
            if len(values) > 1 and not name.startswith("label"):
                raise Invalid("filters expect only one value")
        removed = pruned(engine, asked)
    except Invalid as error:
        raise Invalid(f"failed to prune build cache: {error}") from error
    return [record.id for record in removed], sum(record.size for record in removed)


def pruned(engine: ContainerParts, asked: AskedPruning, told: bool = True) -> list[Record]:
    """Remove what the filters and limits choose. Returns the removed records. Raises Invalid.

    told: an event is published, as for every client that asks for it
    """
    tests = [_FILTERS[name](values) for name, values in asked.filters.items()]
    everything = records(engine)
    total = sum(record.size for record in everything)
    directories.sweep(engine)
    deleted, freed = list[Record](), 0
    for record in reversed(everything):
        if record.in_use or (record.named and not asked.all) or not asked.test(record):
            continue
        if not all(test(record) for test in tests):
            continue
        if _enough(engine, asked, total - freed, record):
            continue
        if record.mirror:
            if not mirrors.remove(engine.settings.data_root, record.mirror):
                continue
        elif record.number and not directories.remove(engine, record.number):
            continue
        deleted.append(record)
        freed += record.size
    _drop(engine, deleted)
    if told:
        engine.events.publish("builder", "prune", "", {"reclaimed": str(freed)})
    return deleted


def _drop(engine: ContainerParts, deleted: list[Record]) -> None:
    """Let go of the results among the records. Their layers and blobs go too, unless an image or a build has them."""
    steps, nodes = [each.key for each in deleted if each.key], [each.result for each in deleted if each.result]
    if steps or nodes:
        _drop_rows(engine, steps, nodes)
    engine.images.release_bases()


def _drop_rows(engine: ContainerParts, steps: list[str], nodes: list[str]) -> None:
    with engine.database.transaction(frees=True) as connection:
        table.drop(connection, steps)
        # What classic steps have made goes with them, whichever of them that were.
        offered = results.offered(connection) if steps else []
        digests = results.drop(connection, [*nodes, *offered])
    if digests:
        engine.images.layers.collect()
        engine.images.drop_unheld(digests)


def _enough(engine: ContainerParts, asked: AskedPruning, total: int, record: Record) -> bool:
    """Whether this record stays, as the space that was asked for is there.

    Where any space was asked for, a record that takes none always stays.
    """
    if not (asked.reserved or asked.most or asked.free):
        return False
    if not record.size or total <= asked.reserved:
        return True
    if not (asked.most or asked.free):
        return False
    if asked.most and total > asked.most:
        return False
    found = os.statvfs(engine.settings.data_root)
    return not (asked.free and found.f_bavail * found.f_frsize < asked.free)


Test = Callable[[Record], bool]


def _until(name: str) -> Callable[[tuple[str, ...]], Test]:
    def compiled(values: tuple[str, ...]) -> Test:
        if not values:
            return lambda _record: True
        try:
            moment = moments.parse(values[0], time.time_ns())
        except Invalid as error:
            raise Invalid(f"\"{name}\" filter expects a duration (e.g., '24h') or a timestamp: {error}") from error
        return lambda record: record.used_ns <= moment

    return compiled


def _text(name: str) -> Callable[[tuple[str, ...]], Test]:
    return lambda values: lambda record: getattr(record, name) in values


def _parent(values: tuple[str, ...]) -> Test:
    return lambda record: not set(values).isdisjoint(record.parents)


def _flag(name: str, wanted: bool = True) -> Callable[[tuple[str, ...]], Test]:
    def compiled(values: tuple[str, ...]) -> Test:
        said = not values or any(value.lower() in _TRUE or not value for value in values)
        return lambda record: getattr(record, name) == (said == wanted)

    return compiled


def _always(answer: bool) -> Callable[[tuple[str, ...]], Test]:
    return lambda _values: lambda _record: answer


_FILTERS: dict[str, Callable[[tuple[str, ...]], Test]] = {
    "until": _until("until"),
    "unused-for": _until("unused-for"),
    "id": _text("id"),
    "type": _text("type"),
    "description": _text("description"),
    "inuse": _flag("in_use"),
    "parent": _parent,
    "mutable": _flag("mutable"),
    "immutable": _flag("mutable", wanted=False),
    "shared": _flag("named"),
    "private": _flag("named", wanted=False),
    # No record has a label; `docker system prune` sends this filter all the same.
    "label": _always(False),
    "label!": _always(True),
}
