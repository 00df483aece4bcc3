"""The tables of builds: what a step made before, what is not on the disk yet, and what a crash must not leave behind.

All functions take an open connection of `store.database` and run in the thread that holds it. A row of the cache goes
with its image. An image of a step is written without waiting for the disk: until the build's end it is in
`build_unsettled`, with the boot of the host in whose memory its files are whole.
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
    # A number is never given twice: it names the directory.
    """CREATE TABLE IF NOT EXISTS build_mounts (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL,
        created_ns INTEGER NOT NULL,
        used_ns INTEGER NOT NULL,
        uses INTEGER NOT NULL DEFAULT 0)""",
)


# The cache


def cached(connection: sqlite3.Connection, key: str) -> str | None:
    """The id of the image that a step with this key made, if it is still here."""
    row = connection.execute(
        "SELECT image FROM build_cache JOIN images ON images.id = image WHERE key = ? AND NOT removed", (key,)
    ).fetchone()
    return row[0] if row else None


def keep(connection: sqlite3.Connection, key: str, image: str, now_ns: int, step: str) -> None:
    """Remember what a step made; the newest counts."""
    connection.execute(
        "REPLACE INTO build_cache (key, image, created_ns, used_ns, step) VALUES (?, ?, ?, ?, ?)",
        (key, image, now_ns, now_ns, step),
    )


def use(connection: sqlite3.Connection, keys: Iterable[str], now_ns: int) -> None:
    """Note that these entries have served."""
    connection.executemany(
        "UPDATE build_cache SET used_ns = ?, uses = uses + 1 WHERE key = ?", ((now_ns, key) for key in keys)
    )


def entries(connection: sqlite3.Connection) -> list[sqlite3.Row]:
    """Every entry of the cache, the one that was used last first."""
    return connection.execute(
        "SELECT key, image, created_ns, used_ns, uses, step FROM build_cache ORDER BY used_ns DESC, key"
    ).fetchall()


def drop(connection: sqlite3.Connection, keys: Iterable[str]) -> None:
    """Forget entries; their images stay."""
    connection.executemany("DELETE FROM build_cache WHERE key = ?", ((key,) for key in keys))


# Images that are not on the disk yet


def unsettled(connection: sqlite3.Connection, image: str, boot: str) -> None:
    """The image's files are in this boot's memory alone."""
    connection.execute("INSERT OR REPLACE INTO build_unsettled (image, boot) VALUES (?, ?)", (image, boot))


def settle(connection: sqlite3.Connection, images: Iterable[str]) -> None:
    """The images are on the disk."""
    connection.executemany("DELETE FROM build_unsettled WHERE image = ?", ((image,) for image in images))


def torn(connection: sqlite3.Connection, boot: str) -> list[str]:
    """Images of an earlier boot, whose files may be anything."""
    rows = connection.execute("SELECT image FROM build_unsettled WHERE boot IS NOT ?", (boot,))
    return [row[0] for row in rows]


def all_unsettled(connection: sqlite3.Connection) -> list[str]:
    """Every image that is not settled."""
    return [row[0] for row in connection.execute("SELECT image FROM build_unsettled")]


# Containers of steps


def begin_step(connection: sqlite3.Connection, container: str) -> None:
    """The container is a step's, and goes with its build."""
    connection.execute("INSERT OR IGNORE INTO build_steps (container) VALUES (?)", (container,))


def end_step(connection: sqlite3.Connection, container: str) -> None:
    """The container is gone, or is to stay."""
    connection.execute("DELETE FROM build_steps WHERE container = ?", (container,))


def steps(connection: sqlite3.Connection) -> list[str]:
    """Ids of the containers of steps that were under way when their daemon ended."""
    return [row[0] for row in connection.execute("SELECT container FROM build_steps")]


# Directories of RUN --mount=type=cache


def new_mount(connection: sqlite3.Connection, name: str, now_ns: int) -> int:
    """The number of a new directory."""
    number = connection.execute(
        "INSERT INTO build_mounts (name, created_ns, used_ns) VALUES (?, ?, ?)", (name, now_ns, now_ns)
    ).lastrowid
    assert number is not None  # it is None only where nothing was inserted
    return number


def mounts(connection: sqlite3.Connection, name: str | None = None) -> list[sqlite3.Row]:
    """The directories of that name, or all, oldest first."""
    where, values = ("WHERE name = ?", (name,)) if name is not None else ("", ())
    return connection.execute(
        f"SELECT number, name, created_ns, used_ns, uses FROM build_mounts {where} ORDER BY number", values
    ).fetchall()


def use_mount(connection: sqlite3.Connection, number: int, now_ns: int) -> None:
    """Note that a step has mounted the directory."""
    connection.execute("UPDATE build_mounts SET used_ns = ?, uses = uses + 1 WHERE number = ?", (now_ns, number))


def drop_mount(connection: sqlite3.Connection, number: int) -> None:
    """Forget a directory."""
    connection.execute("DELETE FROM build_mounts WHERE number = ?", (number,))
