"""The database tables of builds: the build cache, images not yet synced to disk, containers of steps and RUN cache
mounts.

All functions take an open connection of `store.database` and run in the thread that holds it. A row of the cache is
deleted with its image. The image of a step is written without waiting for the disk. Until the build ends, the image has
a row in `build_unsettled`, with the id of the host's boot: only while that boot lasts are its files known to be whole.
"""

import sqlite3
from collections.abc import Iterable

SCHEMA = (
    """CREATE TABLE IF NOT EXISTS build_cache (
        key TEXT PRIMARY KEY,
        image TEXT NOT NULL REFERENCES images ON DELETE CASCADE,
        created_ns INTEGER NOT NULL,
        used_ns INTEGER NOT NULL,
        uses INTEGER NOT NULL DEFAULT 0,
        step TEXT NOT NULL) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS build_cache_by_image ON build_cache (image)",
    """CREATE TABLE IF NOT EXISTS build_unsettled (
        image TEXT PRIMARY KEY REFERENCES images ON DELETE CASCADE,
        boot TEXT NOT NULL) WITHOUT ROWID""",
    "CREATE TABLE IF NOT EXISTS build_steps (container TEXT PRIMARY KEY) WITHOUT ROWID",
    # AUTOINCREMENT, so that a number is never given twice: the number names the directory.
    """CREATE TABLE IF NOT EXISTS build_mounts (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL,
        created_ns INTEGER NOT NULL,
        used_ns INTEGER NOT NULL,
        uses INTEGER NOT NULL DEFAULT 0)""",
)


# The cache


def cached(connection: sqlite3.Connection, key: str) -> str | None:
    """The id of the image that a step with this key made; None when there is none or the image was removed."""
    row = connection.execute(
        "SELECT image FROM build_cache JOIN images ON images.id = image WHERE key = ? AND NOT removed", (key,)
    ).fetchone()
    return row[0] if row else None


def keep(connection: sqlite3.Connection, key: str, image: str, now_ns: int, step: str) -> None:
    """Record the image that a step made under its key; an older entry of the same key is replaced."""
    connection.execute(
        "REPLACE INTO build_cache (key, image, created_ns, used_ns, step) VALUES (?, ?, ?, ?, ?)",
        (key, image, now_ns, now_ns, step),
    )


def use(connection: sqlite3.Connection, keys: Iterable[str], now_ns: int) -> None:
    """Record that a build has used these entries of the cache, now."""
    connection.executemany(
        "UPDATE build_cache SET used_ns = ?, uses = uses + 1 WHERE key = ?", ((now_ns, key) for key in keys)
    )


def entries(connection: sqlite3.Connection) -> list[sqlite3.Row]:
    """Every entry of the cache, the one that was used last first."""
    return connection.execute(
        "SELECT key, image, created_ns, used_ns, uses, step FROM build_cache ORDER BY used_ns DESC, key"
    ).fetchall()


def drop(connection: sqlite3.Connection, keys: Iterable[str]) -> None:
    """Delete entries of the cache; their images stay."""
    connection.executemany("DELETE FROM build_cache WHERE key = ?", ((key,) for key in keys))


# Images that are not on the disk yet


def unsettled(connection: sqlite3.Connection, image: str, boot: str) -> None:
    """Record that the image's files were not synced to the disk yet: they may be in this boot's page cache alone."""
    connection.execute("INSERT OR REPLACE INTO build_unsettled (image, boot) VALUES (?, ?)", (image, boot))


def settle(connection: sqlite3.Connection, images: Iterable[str]) -> None:
    """Record that the images' files are synced to the disk."""
    connection.executemany("DELETE FROM build_unsettled WHERE image = ?", ((image,) for image in images))


def torn(connection: sqlite3.Connection, boot: str) -> list[str]:
    """Ids of the images that were not synced when an earlier boot ended; their files may hold anything."""
    rows = connection.execute("SELECT image FROM build_unsettled WHERE boot IS NOT ?", (boot,))
    return [row[0] for row in rows]


def all_unsettled(connection: sqlite3.Connection) -> list[str]:
    """Ids of all images whose files were not synced to the disk yet."""
    return [row[0] for row in connection.execute("SELECT image FROM build_unsettled")]


# Containers of steps


def begin_step(connection: sqlite3.Connection, container: str) -> None:
    """Record that the container belongs to a build step, and is to be removed with its build."""
    connection.execute("INSERT OR IGNORE INTO build_steps (container) VALUES (?)", (container,))


def end_step(connection: sqlite3.Connection, container: str) -> None:
    """Delete the record of a step's container, because the container is gone or is to stay."""
    connection.execute("DELETE FROM build_steps WHERE container = ?", (container,))


def steps(connection: sqlite3.Connection) -> list[str]:
    """Ids of the containers of steps that were under way when their daemon ended."""
    return [row[0] for row in connection.execute("SELECT container FROM build_steps")]


# Directories of RUN --mount=type=cache


def new_mount(connection: sqlite3.Connection, name: str, now_ns: int) -> int:
    """Add a row for a new cache directory; returns its number."""
    number = connection.execute(
        "INSERT INTO build_mounts (name, created_ns, used_ns) VALUES (?, ?, ?)", (name, now_ns, now_ns)
    ).lastrowid
    assert number is not None  # it is None only where nothing was inserted
    return number


def mounts(connection: sqlite3.Connection, name: str | None = None) -> list[sqlite3.Row]:
    """The rows of the cache directories of that name, or of all where `name` is None, oldest first."""
    where, values = ("WHERE name = ?", (name,)) if name is not None else ("", ())
    return connection.execute(
        f"SELECT number, name, created_ns, used_ns, uses FROM build_mounts {where} ORDER BY number", values
    ).fetchall()


def use_mount(connection: sqlite3.Connection, number: int, now_ns: int) -> None:
    """Record that a build step has mounted the directory, now."""
    connection.execute("UPDATE build_mounts SET used_ns = ?, uses = uses + 1 WHERE number = ?", (now_ns, number))


def drop_mount(connection: sqlite3.Connection, number: int) -> None:
    """Delete the row of a directory; the directory itself is not touched."""
    connection.execute("DELETE FROM build_mounts WHERE number = ?", (number,))
