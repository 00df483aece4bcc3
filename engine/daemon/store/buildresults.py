"""The database tables of what build steps have made: a step's result under its key, and the layers it consists of.

All functions take an open connection of `store.database` and run in the thread that holds it. A result that is `held`
keeps its layers and blobs from removal, until the cache is pruned. One that is not held serves as long as an image
keeps them. `boot` is the id of the host's boot in which the result was made, until its files are synced to the disk;
then it is empty. A result has one or more outputs, which are trees of layers, and an output may have no layer.
"""

import sqlite3
from collections.abc import Iterable, Sequence

from engine.dataclass import dataclass

SCHEMA = (
    """CREATE TABLE IF NOT EXISTS build_results (
        key TEXT PRIMARY KEY,
        kind TEXT NOT NULL,
        description TEXT NOT NULL,
        outputs INTEGER NOT NULL,
        size INTEGER NOT NULL,
        held INTEGER NOT NULL,
        boot TEXT NOT NULL,
        created_ns INTEGER NOT NULL,
        used_ns INTEGER NOT NULL,
        uses INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS build_parts (
        result TEXT NOT NULL REFERENCES build_results ON DELETE CASCADE,
        output INTEGER NOT NULL,
        position INTEGER NOT NULL,
        layer INTEGER NOT NULL REFERENCES layers,
        media_type TEXT NOT NULL,
        digest TEXT NOT NULL,
        size INTEGER NOT NULL,
        PRIMARY KEY (result, output, position)) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS build_parts_by_layer ON build_parts (layer)",
    "CREATE INDEX IF NOT EXISTS build_parts_by_digest ON build_parts (digest)",
    """CREATE TABLE IF NOT EXISTS build_parents (
        result TEXT NOT NULL REFERENCES build_results ON DELETE CASCADE,
        parent TEXT NOT NULL,
        PRIMARY KEY (result, parent)) WITHOUT ROWID""",
)

_HELD = "JOIN build_results ON key = result AND held"


@dataclass(frozen=True, slots=True)
class PartRow:
    """One layer of an output: the number of its directory, and the descriptor of its blob."""

    output: int
    layer: int
    media_type: str
    digest: str
    size: int


@dataclass(frozen=True, slots=True)
class ResultRow:
    """One result without its layers. size: bytes of what the step itself has added, unpacked and as blobs"""

    key: str
    kind: str
    description: str
    outputs: int
    size: int
    held: bool
    boot: str
    created_ns: int
    used_ns: int
    uses: int


def add(connection: sqlite3.Connection, row: ResultRow, parts: Iterable[PartRow], parents: Iterable[str]) -> None:
    """Record what a step has made; an older result of the same key is replaced. parents: keys of results below it"""
    connection.execute("DELETE FROM build_results WHERE key = ?", (row.key,))
    connection.execute(
        "INSERT INTO build_results (key, kind, description, outputs, size, held, boot, created_ns, used_ns, uses)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            row.key,
            row.kind,
            row.description,
            row.outputs,
            row.size,
            row.held,
            row.boot,
            row.created_ns,
            row.used_ns,
            row.uses,
        ),
    )
    connection.executemany(
        "INSERT INTO build_parts (result, output, position, layer, media_type, digest, size)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            (row.key, part.output, position, part.layer, part.media_type, part.digest, part.size)
            for position, part in enumerate(parts)
        ),
    )
    connection.executemany(
        "INSERT OR IGNORE INTO build_parents (result, parent) VALUES (?, ?)", ((row.key, each) for each in parents)
    )


def result(connection: sqlite3.Connection, key: str) -> ResultRow | None:
    """The result under this key; None when there is none."""
    row = connection.execute(f"{_EVERY} WHERE key = ?", (key,)).fetchone()
    return _row(row) if row else None


def parts(connection: sqlite3.Connection, key: str) -> list[tuple[int, str, int, str, str, int]]:
    """(output, diff id, layer's number, media type, digest, size of the blob) of a result, the lowest layer first."""
    return [
        tuple(row)
        for row in connection.execute(
            "SELECT output, diff_id, number, media_type, digest, build_parts.size FROM build_parts"
            " JOIN layers ON number = layer WHERE result = ? ORDER BY position",
            (key,),
        )
    ]


def results(connection: sqlite3.Connection) -> list[ResultRow]:
    """Every result that is held, the one that was used last first."""
    return [_row(row) for row in connection.execute(f"{_EVERY} WHERE held ORDER BY used_ns DESC, key")]


def tops(connection: sqlite3.Connection) -> dict[str, list[int]]:
    """The number of the uppermost layer of each output of each result, by the key of the result."""
    found: dict[str, list[int]] = {}
    for key, layer, _ in connection.execute(
        "SELECT result, layer, MAX(position) FROM build_parts GROUP BY result, output ORDER BY result, output"
    ):
        found.setdefault(key, []).append(layer)
    return found


def offered(connection: sqlite3.Connection) -> list[str]:
    """Keys of the results that are not held."""
    return [row[0] for row in connection.execute("SELECT key FROM build_results WHERE NOT held")]


def parents(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    """(key of a result, key of one below it) of all results."""
    return [
        tuple(row) for row in connection.execute("SELECT result, parent FROM build_parents ORDER BY result, parent")
    ]


_EVERY = "SELECT key, kind, description, outputs, size, held, boot, created_ns, used_ns, uses FROM build_results"


def _row(row: sqlite3.Row) -> ResultRow:
    key, kind, description, outputs, size, held, boot, created_ns, used_ns, uses = row
    return ResultRow(key, kind, description, outputs, size, bool(held), boot, created_ns, used_ns, uses)


def use(connection: sqlite3.Connection, keys: Iterable[str], now_ns: int, held: bool) -> None:
    """Record that a build has used these results, now. held: from now on they are held"""
    connection.executemany(
        "UPDATE build_results SET used_ns = ?, uses = uses + 1, held = max(held, ?) WHERE key = ?",
        ((now_ns, held, key) for key in keys),
    )


def drop(connection: sqlite3.Connection, keys: Iterable[str]) -> set[str]:
    """Delete results; returns the digests of the blobs that they had. Their layers stay until they are collected."""
    digests: set[str] = set()
    for key in keys:
        digests |= {row[0] for row in connection.execute("SELECT digest FROM build_parts WHERE result = ?", (key,))}
        connection.execute("DELETE FROM build_results WHERE key = ?", (key,))
    return digests


def settle(connection: sqlite3.Connection, keys: Sequence[str]) -> None:
    """Record that the files of these results are synced to the disk."""
    connection.executemany("UPDATE build_results SET boot = '' WHERE key = ?", ((key,) for key in keys))


def torn(connection: sqlite3.Connection, boot: str) -> list[str]:
    """Keys of the results that were not synced when an earlier boot ended: their files may hold anything."""
    return [row[0] for row in connection.execute("SELECT key FROM build_results WHERE boot NOT IN ('', ?)", (boot,))]


def drop_with_layers(connection: sqlite3.Connection, numbers: Iterable[int]) -> None:
    """Delete the results that have any of these layers, which are about to be removed."""
    connection.executemany(
        "DELETE FROM build_results WHERE key IN (SELECT result FROM build_parts WHERE layer = ?)",
        ((number,) for number in numbers),
    )


def held_layers(connection: sqlite3.Connection) -> set[int]:
    """Numbers of the layers that held results have."""
    return {row[0] for row in connection.execute(f"SELECT DISTINCT layer FROM build_parts {_HELD}")}


def held_blobs(connection: sqlite3.Connection) -> set[str]:
    """Digests of the blobs that held results have."""
    return {row[0] for row in connection.execute(f"SELECT DISTINCT digest FROM build_parts {_HELD}")}


def blob_is_held(connection: sqlite3.Connection, digest: str) -> bool:
    """True when a held result has the blob."""
    row = connection.execute(f"SELECT 1 FROM build_parts {_HELD} WHERE digest = ? LIMIT 1", (digest,)).fetchone()
    return row is not None
