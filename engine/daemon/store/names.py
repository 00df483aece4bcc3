"""The names of containers, for one who looks into the database of a daemon from outside and must not disturb it.

The daemon has the file alone, for as long as it lives. So a copy is looked into, of the database and of its log as they
are on the disk; the log first, because what moves from the log to the database meanwhile is then in both.
"""

import contextlib
import os
import shutil
import sqlite3
import tempfile

_COPY = "copy"


def of_containers(path: str) -> dict[str, str]:
    """id → name of every container in the database file at `path`. Raises OSError; sqlite3.Error for a torn copy."""
    with tempfile.TemporaryDirectory(prefix="engine-names-") as directory:
        copy = os.path.join(directory, _COPY)
        with contextlib.suppress(FileNotFoundError):  # no log: all of it is in the database
            shutil.copyfile(f"{path}-wal", f"{copy}-wal")
        shutil.copyfile(path, copy)
        with contextlib.closing(sqlite3.connect(copy)) as connection:
            return dict(connection.execute("SELECT id, name FROM containers"))
