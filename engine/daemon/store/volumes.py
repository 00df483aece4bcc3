"""The database table of volumes, with all of its SQL.

Runs in the daemon, on any thread, inside a transaction or reading of `Database`. Which containers use a volume is
recorded with the containers. The contents of a volume are in its directory.
"""

import json
import sqlite3

Texts = dict[str, str]

SCHEMA = (
    """CREATE TABLE IF NOT EXISTS volumes (
        name TEXT PRIMARY KEY,
        driver TEXT NOT NULL,
        labels TEXT NOT NULL,
        options TEXT NOT NULL,
        created_ns INTEGER NOT NULL) WITHOUT ROWID""",
)


def insert(
    connection: sqlite3.Connection, name: str, driver: str, labels: Texts | None, options: Texts | None, created_ns: int
) -> None:
    """Add the row of a volume; labels and options are None where the client gave none."""
    connection.execute(
        "INSERT INTO volumes (name, driver, labels, options, created_ns) VALUES (?, ?, ?, ?, ?)",
        (name, driver, json.dumps(labels), json.dumps(options), created_ns),
    )


def delete(connection: sqlite3.Connection, name: str) -> None:
    """Delete the row of a volume."""
    connection.execute("DELETE FROM volumes WHERE name = ?", (name,))


def load_all(connection: sqlite3.Connection) -> list[tuple[str, str, Texts | None, Texts | None, int]]:
    """(name, driver, labels, options, created_ns) of every volume, sorted by name."""
    rows = connection.execute("SELECT name, driver, labels, options, created_ns FROM volumes ORDER BY name")
    return [
        (name, driver, json.loads(labels), json.loads(options), made) for name, driver, labels, options, made in rows
    ]
