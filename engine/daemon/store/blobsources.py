"""The database table of which repository of a registry holds which blob, with all of its SQL.

A push reads it to have the registry copy a blob from another of its repositories, so that the blob need not be sent
twice to one registry; and an image's `Identity` shows from where its manifest came. Every function takes the connection
of a transaction or reading of `Database`. A row is a hint that may be wrong by now. So nothing depends on it, writing
it need not be durable, and only the newest rows are kept.
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

# A row takes about 200 bytes. An image has about ten blobs, and each blob has a row for each repository it was pushed
# to.
MOST_ROWS = 4096


def remember(
    connection: sqlite3.Connection, registry: str, repository: str, digests: Iterable[str], most: int = MOST_ROWS
) -> None:
    """Record that the repository holds these blobs; beyond `most` rows those that were seen longest ago are deleted."""
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
    """At most `most` repositories of that registry in which the blob was seen, the one seen last first."""
    rows = connection.execute(
        "SELECT repository FROM blob_sources WHERE registry = ? AND digest = ? ORDER BY seen DESC, repository LIMIT ?",
        (registry, digest, most),
    )
    return [row[0] for row in rows]


def everywhere(connection: sqlite3.Connection, digest: str) -> list[str]:
    """The repositories of all registries in which the blob was seen, each with its registry before it."""
    rows = connection.execute(
        "SELECT registry || '/' || repository FROM blob_sources WHERE digest = ? ORDER BY seen, 1", (digest,)
    )
    return [row[0] for row in rows]


def forget(connection: sqlite3.Connection, registry: str, digest: str, repository: str) -> None:
    """Delete a row, because the repository does not hold the blob or the registry does not copy it from there."""
    connection.execute(
        "DELETE FROM blob_sources WHERE registry = ? AND digest = ? AND repository = ?", (registry, digest, repository)
    )
