"""The one SQLite database of a data root: its connection, its transactions and how durable each of them is.

Runs in the daemon, on any of its threads: one connection, guarded by one lock, so that a reader never meets half of a
writer's change. The SQL itself stands in the other files of this package, one a table. Never hold a transaction over
anything slow (a download, a container's start): every other thread waits for it.

The daemon's connection has the file alone: SQLite needs no file of shared memory then, for which there is no room when
a daemon starts on a full disk.
"""

import contextlib
import ctypes
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping

from engine.daemon import locks
from engine.daemon.store import fileversion
from engine.daemon.store.reserve import Reserve
from engine.errors import SystemFailure, Unavailable

# Raised when a table changes in a way that CREATE TABLE IF NOT EXISTS does not bring about by itself.
VERSION = 3

# 512 KiB of pages: the tables are small and an idle daemon's memory is a feature.
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA cache_size = -512",
    "PRAGMA foreign_keys = ON",
    "PRAGMA temp_store = MEMORY",
)


class Database:
    """The connection to the database file at `path`, with every table of `schema` there.

    schema: CREATE statements that do nothing when their object exists; migrations: version → the statements that make a
    file of that version one of the next, before `schema` is looked at
    alone: for the life of the process, and nobody else may open it. The process ends without closing it, as closing
    deletes the log and its reserve with it; the next start reads the log as after a crash
    Raises Unavailable when the file was written by a newer engine, or is no database.
    """

    def __init__(
        self,
        path: str,
        schema: Iterable[str] = (),
        migrations: Mapping[int, Iterable[str]] | None = None,
        *,
        alone: bool = False,
    ) -> None:
        self._lock = locks.Reentrant("database")
        self._durable: bool | None = None
        self._page = 0
        _refuse_newer(path, _version_of(path))  # before anything is touched: it is the newer engine's
        self._reserve = Reserve(_private(path))
        # Autocommit: BEGIN and COMMIT are said by `transaction` alone, never by the module behind our back.
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=64)
        self._connection.row_factory = sqlite3.Row
        try:
            if alone:
                self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._prepare(path, schema, migrations or {})
        except (sqlite3.DatabaseError, OSError) as error:
            self.close()
            raise Unavailable(f"the database {path} cannot be used: {error}") from error
        except Unavailable:
            self.close()
            raise
        if alone:  # else the interpreter would close it at its end
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._connection))

    def _prepare(self, path: str, schema: Iterable[str], migrations: Mapping[int, Iterable[str]]) -> None:
        for pragma in _PRAGMAS:
            self._connection.execute(pragma)
        self._page = self._connection.execute("PRAGMA page_size").fetchone()[0]
        version = self._connection.execute("PRAGMA user_version").fetchone()[0]
        _refuse_newer(path, version)
        self._reserve.begin(f"{path}-wal", self._size())
        with self.transaction(durable=True, frees=True) as connection:
            # A new file is of version 0, and has nothing to be changed.
            for step in range(version or VERSION, VERSION):
                for statement in migrations.get(step, ()):
                    connection.execute(statement)
            for statement in schema:
                connection.execute(statement)
            if version != VERSION:  # a write, and on a full disk a daemon has to start without any
                connection.execute(f"PRAGMA user_version = {VERSION}")

    @contextlib.contextmanager
    def transaction(self, durable: bool = False, frees: bool = False) -> Iterator[sqlite3.Connection]:
        """One change, whole or not at all; an exception inside undoes it.

        durable: on the disk when this returns (synchronous=FULL), for what a client is told exists or is gone;
            else only safe from a crash of the daemon, not of the power (synchronous=NORMAL).
        frees: it takes something away, or says what has happened anyway: on a full disk the reserve is for it
        Raises SystemFailure where the file cannot be written: a full disk, a failing one.
        """
        try:
            with self._transaction(durable, frees) as connection:
                yield connection
        except sqlite3.OperationalError as error:
            what = "no space left on device" if error.sqlite_errorcode == sqlite3.SQLITE_FULL else "it fails"
            raise SystemFailure(f"{what}: the database cannot be written: {error}") from error

    @contextlib.contextmanager
    def _transaction(self, durable: bool, frees: bool) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if not frees:
                self._reserve.check(self._size())
            # The pragma is ignored inside a transaction, so it is said before, and only when it changes.
            if durable != self._durable:
                self._connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
                self._durable = durable
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                # SQLite itself has rolled back after some failures, a full disk among them.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The connection, for reading only, with no writer between two statements. May stand inside a transaction."""
        with self._lock:
            yield self._connection

    def _size(self) -> int:
        """The bytes of all pages, those in the log too."""
        pages: int = self._connection.execute("PRAGMA page_count").fetchone()[0]
        return pages * self._page

    def close(self) -> None:
        """Write the log back into the file and close it."""
        with self._lock:
            self._connection.close()
            self._reserve.close()


def _version_of(path: str) -> int:
    try:
        return fileversion.of(path)
    except OSError as error:
        raise Unavailable(f"the database {path} cannot be used: {error.strerror}") from error


def _refuse_newer(path: str, version: int) -> None:
    if version > VERSION:
        raise Unavailable(f"the database {path} was written by a newer engine (version {version}, ours {VERSION})")


def _private(path: str) -> int:
    """Make the file, or take it back from others: containers' variables hold secrets. A descriptor of it.

    SQLite gives the files beside it the same mode.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Unavailable(f"the database {path} cannot be used: {error.strerror}") from error
    os.fchmod(descriptor, 0o600)
    return descriptor
