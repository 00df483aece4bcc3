"""The names of containers, for one who looks into the database of a daemon from outside and must not disturb it.

A connection of its own, for reading only: in the mode of the write-ahead log a reader waits for nobody, and nobody for
it, even where the daemon hangs within a transaction.
"""

import contextlib
import sqlite3
from urllib.parse import quote

_PATIENCE_SECONDS = 1.0


def of_containers(path: str) -> dict[str, str]:
    """id → name of every container in the database file at `path`. Raises sqlite3.Error."""
    uri = f"file:{quote(path)}?mode=ro"
    with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=_PATIENCE_SECONDS)) as connection:
        return dict(connection.execute("SELECT id, name FROM containers"))
