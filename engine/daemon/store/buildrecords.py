"""The database tables of BuildKit's build history: a record of each build that has ended, and the blobs it refers to.

All functions take an open connection of `store.database` and run in the thread that holds it. A record is a message in
binary form, which this file does not read.
"""

import sqlite3
from collections.abc import Iterable

SCHEMA = (
    """CREATE TABLE IF NOT EXISTS build_records (
        ref TEXT PRIMARY KEY,
        completed_ns INTEGER NOT NULL,
        pinned INTEGER NOT NULL,
        record BLOB NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS build_record_blobs (
        ref TEXT NOT NULL REFERENCES build_records ON DELETE CASCADE,
        digest TEXT NOT NULL,
        size INTEGER NOT NULL,
        PRIMARY KEY (ref, digest)) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS build_record_blobs_by_digest ON build_record_blobs (digest)",
)


def put(
    connection: sqlite3.Connection,
    ref: str,
    completed_ns: int,
    pinned: bool,
    record: bytes,
    blobs: Iterable[tuple[str, int]],
) -> None:
    """Record a build that has ended, in place of an older one of this ref.

    blobs: (digest, size) of what it refers to
    """
    drop(connection, ref)
    connection.execute(
        "INSERT INTO build_records (ref, completed_ns, pinned, record) VALUES (?, ?, ?, ?)",
        (ref, completed_ns, pinned, record),
    )
    connection.executemany(
        "INSERT OR IGNORE INTO build_record_blobs (ref, digest, size) VALUES (?, ?, ?)",
        ((ref, digest, size) for digest, size in blobs),
    )


def change(connection: sqlite3.Connection, ref: str, pinned: bool, record: bytes) -> None:
    """Replace the record of a ref, which keeps its blobs."""
    connection.execute("UPDATE build_records SET pinned = ?, record = ? WHERE ref = ?", (pinned, record, ref))


def get(connection: sqlite3.Connection, ref: str) -> bytes | None:
    """The record of a ref; None where there is none."""
    row = connection.execute("SELECT record FROM build_records WHERE ref = ?", (ref,)).fetchone()
    return row[0] if row else None


def refs(connection: sqlite3.Connection) -> list[str]:
    """The refs of all records, of the build that ended last first."""
    return [row[0] for row in connection.execute("SELECT ref FROM build_records ORDER BY completed_ns DESC, ref")]


def drop(connection: sqlite3.Connection, ref: str) -> bool:
    """Delete a record; whether there was one. Its blobs that no other record has are then `unheld`."""
    return connection.execute("DELETE FROM build_records WHERE ref = ?", (ref,)).rowcount > 0


def blobs(connection: sqlite3.Connection, ref: str) -> list[str]:
    """The digests of the blobs that a record refers to."""
    return [row[0] for row in connection.execute("SELECT digest FROM build_record_blobs WHERE ref = ?", (ref,))]


def held(connection: sqlite3.Connection, digest: str) -> bool:
    """Whether a record refers to this blob."""
    return bool(connection.execute("SELECT 1 FROM build_record_blobs WHERE digest = ? LIMIT 1", (digest,)).fetchone())


def all_held(connection: sqlite3.Connection) -> set[str]:
    """The digests of all blobs that records refer to."""
    return {row[0] for row in connection.execute("SELECT DISTINCT digest FROM build_record_blobs")}


def surplus(connection: sqlite3.Connection, kept: int, before_ns: int, most: int, weight: int) -> list[str]:
    """The refs of the records that are to go, which are never pinned ones.

    kept, before_ns: all but the last `kept` records go that ended before this moment
    most, weight: all go but the last `most` records, and but those of them whose blobs together have `weight` bytes
    """
    rows = connection.execute(
        """SELECT ref, completed_ns, (SELECT SUM(size) FROM build_record_blobs AS b WHERE b.ref = r.ref)
        FROM build_records AS r WHERE NOT pinned ORDER BY completed_ns DESC, ref"""
    )
    found, total = [], 0
    for number, (ref, completed_ns, size) in enumerate(rows.fetchall()):
        total += size or 0
        if (number >= kept and completed_ns < before_ns) or number >= most or (number and total > weight):
            found.append(ref)
    return found
