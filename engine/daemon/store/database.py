"""The connection to the daemon's SQLite database: opening it, its schema version, its transactions and their
durability.

A data root has one database. Any thread of the daemon uses the one connection, under one lock, so that a reader never
sees half of a writer's change. The SQL stands in the other files of this package. Never hold a transaction over
anything slow (a download, a container's start): every other thread waits for it.

A data root that nobody was told anything of yet need not survive a loss of power. So a start on an empty one waits for
no disk: the first durable change syncs the database file, and the other files beside it that a daemon makes once.

The daemon opens the database file exclusively. SQLite then needs no shared memory file (`-shm`), for which there is no
room when a daemon starts on a full disk.
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
from engine.kernel import reasons, wholefile

# This number is incremented when a table changes in a way that CREATE TABLE IF NOT EXISTS does not bring about.
VERSION = 3

# cache_size: 512 KiB of pages. The tables are small, and an idle daemon is to use little memory.
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA cache_size = -512",
    "PRAGMA foreign_keys = ON",
    "PRAGMA temp_store = MEMORY",
)


class Database:
    """The connection to the database file at `path`, in which every table of `schema` exists.

    schema: CREATE statements that do nothing when their object exists
    migrations: version of a file → the statements that bring it to the next version; they run before `schema`
    alone: the file is locked exclusively for the life of the process, and no other process may open it. The process
    ends without closing the connection, since closing would delete the write-ahead log and its reserve. The next start
    reads the log as it does after a crash.
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
        self._path = path
        self._durable: bool | None = None
        self._founded = False  # what the database stands on is known to be on the disk
        self._page = 0
        _refuse_newer(path, _version_of(path))  # before anything is written: a newer engine's file stays as it is
        self._reserve = Reserve(_private(path))
        # Autocommit: only `transaction` executes BEGIN and COMMIT, and the sqlite3 module never does so implicitly.
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=64)
        self._connection.row_factory = sqlite3.Row
        try:
            if alone:
                self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._prepare(path, schema, migrations or {})
        except (sqlite3.DatabaseError, OSError) as error:
            self.close()
            raise Unavailable(f"the database {path} cannot be used: {reasons.whole(error)}") from error
        except Unavailable:
            self.close()
            raise
        if alone:  # an extra reference, or the interpreter would close the connection when it ends
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._connection))

    def _prepare(self, path: str, schema: Iterable[str], migrations: Mapping[int, Iterable[str]]) -> None:
        for pragma in _PRAGMAS if os.fstat(self._reserve.fileno()).st_size else ("PRAGMA synchronous = OFF", *_PRAGMAS):
            self._connection.execute(pragma)
        self._page = self._connection.execute("PRAGMA page_size").fetchone()[0]
        version = self._connection.execute("PRAGMA user_version").fetchone()[0]
        _refuse_newer(path, version)
        self._reserve.begin(f"{path}-wal", self._size())
        with self.transaction(durable=version not in (0, VERSION), frees=True) as connection:
            # A new file has version 0 and needs no migration.
            for step in range(version or VERSION, VERSION):
                for statement in migrations.get(step, ()):
                    connection.execute(statement)
            for statement in schema:
                connection.execute(statement)
            if version != VERSION:  # only then: it is a write, and on a full disk a daemon has to start without any
                connection.execute(f"PRAGMA user_version = {VERSION}")

    @contextlib.contextmanager
    def transaction(self, durable: bool = False, frees: bool = False) -> Iterator[sqlite3.Connection]:
        """Make one change, whole or not at all; an exception inside rolls it back.

        durable: the change is on the disk when this returns (synchronous=FULL); for what a client is told exists or is
            gone. Without it the change survives a crash of the daemon, but not a loss of power (synchronous=NORMAL).
        frees: the change removes something, or records what has happened anyway; on a full disk it may use the reserve
        Raises SystemFailure where the file cannot be written, because the disk is full or fails.
        """
        try:
            with self._transaction(durable, frees) as connection:
                yield connection
        except sqlite3.OperationalError as error:
            why = "no space left on device: " if error.sqlite_errorcode == sqlite3.SQLITE_FULL else ""
            raise SystemFailure(f"{why}the database cannot be written: {error}") from error

    @contextlib.contextmanager
    def _transaction(self, durable: bool, frees: bool) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if durable and not self._founded:
                self._found()
            if not frees:
                self._reserve.check(self._size())
            # SQLite ignores this pragma inside a transaction, so it is executed before BEGIN, and only when it changes.
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
        """The connection, for reading only, with no write between two statements. May be used inside a transaction."""
        with self._lock:
            yield self._connection

    def _found(self) -> None:
        """Make durable what an earlier daemon, or this one, has made without waiting for the disk."""
        directory, name = os.path.split(self._path)
        try:
            # SQLite takes a write-ahead log beside an empty file for one of another database, and deletes it.
            self._reserve.sync()
            wholefile.sync_all(directory or ".", but=name)
        except OSError as error:
            raise SystemFailure(f"the database cannot be written: {reasons.whole(error)}") from error
        self._founded = True

    def _size(self) -> int:
        """The bytes of all pages of the database, those that are only in the write-ahead log too."""
        pages: int = self._connection.execute("PRAGMA page_count").fetchone()[0]
        return pages * self._page

    def close(self) -> None:
        """Close the connection; SQLite writes the log back into the file first."""
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
    """Make the database file if it is missing, and give it mode 0600; returns a descriptor of it.

    Environment variables of containers hold secrets. SQLite gives the log beside the file the same mode.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Unavailable(f"the database {path} cannot be used: {error.strerror}") from error
    os.fchmod(descriptor, 0o600)
    return descriptor
