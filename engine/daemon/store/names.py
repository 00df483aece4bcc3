"""Reading the names of containers from outside the daemon, out of a copy of its database.

`engine inspect-processes` uses it, and must not disturb the daemon. The daemon locks the database file for as long as
it lives. So the database and its log are copied as they are on the disk, and the copy is read. The log is copied first:
what SQLite moves from the log to the database meanwhile is then in both copies.
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
        with contextlib.suppress(FileNotFoundError):  # without a log, everything is in the database file
            shutil.copyfile(f"{path}-wal", f"{copy}-wal")
        shutil.copyfile(path, copy)
        with contextlib.closing(sqlite3.connect(copy)) as connection:
            return dict(connection.execute("SELECT id, name FROM containers"))
