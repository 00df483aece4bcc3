"""The table of where blobs stand in registries: what a push asks so that a blob need not be sent twice to one registry.

All of its SQL; every function takes the connection of a transaction or reading of `Database`. A row is a hint that may
be wrong by now, so nothing depends on it, its writing need not be durable, and only the newest rows are kept.
"""

import sqlite3
from collections.abc import Iterable

SCHEMA = (
    """CREATE TABLE IF NOT EXISTS blob_sources (
        registry TEXT NOT NULL,
        digest TEXT NOT NULL,
        repository TEXT NOT NULL,
        seen INTEGER NOT NULL,
        PRIMARY KEY (registry, digest, repository)) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS blob_sources_by_age ON blob_sources (seen)",
)

# About 200 bytes each. An image has ten blobs or so, of which each repository that it was pushed to makes a row.
MOST_ROWS = 4096


def remember(
    connection: sqlite3.Connection, registry: str, repository: str, digests: Iterable[str], most: int = MOST_ROWS
) -> None:
    """These blobs stand in that repository; the rows that were seen longest ago make place."""
    now = connection.execute("SELECT COALESCE(MAX(seen), 0) + 1 FROM blob_sources").fetchone()[0]
    connection.executemany(
        "INSERT OR REPLACE INTO blob_sources (registry, digest, repository, seen) VALUES (?, ?, ?, ?)",
        ((registry, digest, repository, now) for digest in digests),
    )
    extra = connection.execute("SELECT COUNT(*) FROM blob_sources").fetchone()[0] - most
    if extra > 0:
        connection.execute(
            """DELETE FROM blob_sources WHERE (registry, digest, repository) IN (
                SELECT registry, digest, repository FROM blob_sources ORDER BY seen LIMIT ?)""",
            (extra,),
        )


def repositories(connection: sqlite3.Connection, registry: str, digest: str, most: int) -> list[str]:
    """The repositories of that registry in which the blob was seen, the last one first."""
    rows = connection.execute(
        "SELECT repository FROM blob_sources WHERE registry = ? AND digest = ? ORDER BY seen DESC, repository LIMIT ?",
        (registry, digest, most),
    )
    return [row[0] for row in rows]


def forget(connection: sqlite3.Connection, registry: str, digest: str, repository: str) -> None:
    """The registry does not have the blob there, or does not give it away."""
    connection.execute(
        "DELETE FROM blob_sources WHERE registry = ? AND digest = ? AND repository = ?", (registry, digest, repository)
    )
