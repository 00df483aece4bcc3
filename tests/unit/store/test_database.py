"""The database: transactions are whole, durable ones are said to be, and a newer file is refused."""

import ctypes
import errno
import os
import sqlite3
import subprocess
import sys
import threading

import pytest

from engine.daemon.store import fileversion, reserve
from engine.daemon.store.database import VERSION, Database
from engine.errors import SystemFailure, Unavailable
from tests.harness.daemon import PROJECT

SCHEMA = ("CREATE TABLE IF NOT EXISTS t (x INTEGER)",)


def rows(database):
    with database.reading() as connection:
        return [row["x"] for row in connection.execute("SELECT x FROM t ORDER BY x")]


def add(database, x, durable=False):
    with database.transaction(durable) as connection:
        connection.execute("INSERT INTO t VALUES (?)", (x,))


@pytest.fixture
def database(tmp_path):
    opened = Database(str(tmp_path / "db"), SCHEMA)
    yield opened
    opened.close()


def test_a_change_is_there_after_the_file_is_opened_again(tmp_path):
    for x in (1, 2):
        database = Database(str(tmp_path / "db"), SCHEMA)
        add(database, x, durable=x == 2)
        database.close()
    assert rows(Database(str(tmp_path / "db"), SCHEMA)) == [1, 2]


def test_an_exception_undoes_the_whole_change(database):
    with pytest.raises(KeyError), database.transaction() as connection:
        connection.execute("INSERT INTO t VALUES (1)")
        raise KeyError
    assert rows(database) == []
    add(database, 2)
    assert rows(database) == [2]


def test_the_log_is_written_ahead_and_durability_is_chosen_for_each_change(database):
    with database.reading() as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    for durable, level in ((True, 2), (False, 1), (True, 2)):
        with database.transaction(durable) as connection:
            assert connection.execute("PRAGMA synchronous").fetchone()[0] == level


def test_threads_take_turns(database):
    def work():
        for x in range(50):
            add(database, x)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(rows(database)) == 200


def test_reading_may_stand_inside_a_change(database):
    with database.transaction() as connection:
        connection.execute("INSERT INTO t VALUES (7)")
        assert rows(database) == [7]


def as_it_is(directory):
    """All that a file's owner could see of it, but for when it was read."""
    return {
        each.name: (each.read_bytes(), each.stat().st_mtime_ns, each.stat().st_ctime_ns, each.stat().st_mode)
        for each in directory.iterdir()
    }


def newer(connection, pages=0):
    connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    for _ in range(pages):
        connection.execute("INSERT INTO t VALUES (randomblob(5000))")


@pytest.mark.parametrize("left", ["whole", "log", "log and memory", "second round", "torn"])
def test_a_file_of_a_newer_engine_is_refused_and_stays_as_it_is(tmp_path, left):
    """Also when the newer one was killed, and its version stands in the log alone."""
    made, kept = tmp_path / "made", tmp_path / "kept"
    made.mkdir()
    kept.mkdir()
    connection = sqlite3.connect(made / "db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE t (x)")
    connection.execute(f"PRAGMA user_version = {VERSION}")
    if left in ("whole", "second round"):
        newer(connection, 3)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)" if left == "whole" else "PRAGMA wal_checkpoint(RESTART)")
        if left == "second round":
            connection.execute("INSERT INTO t VALUES (1)")
    else:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        newer(connection, 3)
    names = {"whole": ["db"], "log and memory": ["db", "db-wal", "db-shm"]}.get(left, ["db", "db-wal"])
    for name in names:
        (kept / name).write_bytes((made / name).read_bytes())
        (kept / name).chmod(0o640)
    connection.close()
    if left == "torn":
        log = (kept / "db-wal").read_bytes()
        (kept / "db-wal").write_bytes(log[:-2000])
    before = as_it_is(kept)
    with pytest.raises(Unavailable, match="written by a newer engine"):
        Database(str(kept / "db"), SCHEMA)
    assert as_it_is(kept) == before


def test_a_change_of_the_version_that_was_not_committed_is_none(tmp_path):
    """A newer engine was killed within its migration: the frames are there, and the log's end says that they are not.

    Neither does what stands behind the end of the log's present round, which an earlier one has left.
    """
    made, kept = tmp_path / "made", tmp_path / "kept"
    made.mkdir()
    kept.mkdir()
    connection = sqlite3.connect(made / "db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE t (x)")
    connection.execute("PRAGMA cache_size = 10")
    connection.execute("BEGIN")
    newer(connection, 200)  # more than the cache holds: they are written before the end of the transaction
    for name in ("db", "db-wal"):
        (kept / name).write_bytes((made / name).read_bytes())
    assert len((kept / "db-wal").read_bytes()) > 100_000
    assert fileversion.of(str(kept / "db")) == 0
    connection.execute("ROLLBACK")
    connection.close()
    Database(str(kept / "db"), SCHEMA).close()


def test_a_version_is_that_which_sqlite_tells(tmp_path):
    assert fileversion.of(str(tmp_path / "nothing")) == 0
    (tmp_path / "text").write_text("no database" * 20)
    assert fileversion.of(str(tmp_path / "text")) == 0
    path = str(tmp_path / "db")
    connection = sqlite3.connect(path, isolation_level=None)
    for mode in ("DELETE", "WAL"):
        connection.execute(f"PRAGMA journal_mode = {mode}")
        for version in (1, 5, 2):
            connection.execute(f"PRAGMA user_version = {version}")
            if mode == "DELETE":
                assert fileversion.of(path) == version
    assert fileversion.of(path) == 2
    connection.close()
    assert fileversion.of(path) == 2


def test_a_file_of_a_newer_engine_is_refused(tmp_path):
    connection = sqlite3.connect(tmp_path / "db")
    connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()
    with pytest.raises(Unavailable, match="newer engine"):
        Database(str(tmp_path / "db"), SCHEMA)


def test_a_file_that_is_no_database_is_refused(tmp_path):
    (tmp_path / "db").write_bytes(b"garbage" * 1000)
    with pytest.raises(Unavailable, match="cannot be used"):
        Database(str(tmp_path / "db"), SCHEMA)


def test_a_full_file_is_a_failure_of_the_system_and_undoes_the_change(database):
    with database.reading() as connection:
        connection.execute("PRAGMA max_page_count = 3")
    with pytest.raises(SystemFailure, match="full"), database.transaction() as connection:
        connection.executemany("INSERT INTO t VALUES (?)", ((x,) for x in range(100_000)))
    assert rows(database) == []
    add(database, 1)
    assert rows(database) == [1]


def test_nobody_else_may_read_it(tmp_path):
    path = tmp_path / "db"
    path.touch(0o644)
    database = Database(str(path), SCHEMA)
    add(database, 1)
    modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    database.close()
    assert modes == {"db": 0o600, "db-wal": 0o600, "db-shm": 0o600}


class Full:
    """fallocate(2) on a disk that is full, or on a file system that has no such thing."""

    def __init__(self, code):
        self.code = code

    def __call__(self, *_):
        ctypes.set_errno(self.code)
        return -1


def test_the_files_hold_more_than_is_in_them(database, tmp_path):
    for name, least in (("db", 1 << 20), ("db-wal", reserve.LOG_BYTES)):
        found = (tmp_path / name).stat()
        assert found.st_blocks * 512 >= least > found.st_size


def test_what_adds_takes_nothing_of_the_reserve_and_what_frees_may(tmp_path, monkeypatch):
    """There is room for a few more pages, and then for removals alone."""
    database = Database(str(tmp_path / "db"), SCHEMA)
    monkeypatch.setattr(reserve, "_fallocate", Full(errno.ENOSPC))
    with pytest.raises(SystemFailure, match="no space left on device"):
        for x in range(1000):
            with database.transaction() as connection:
                connection.execute("INSERT INTO t VALUES (?)", (x,))
                connection.execute("CREATE TABLE IF NOT EXISTS big (data BLOB)")
                connection.execute("INSERT INTO big VALUES (?)", (bytes(1 << 14),))
    before = rows(database)
    assert len(before) > 10
    with database.transaction(frees=True) as connection:
        connection.execute("DELETE FROM t")
    assert rows(database) == []
    database.close()


def test_a_file_system_without_fallocate_has_no_reserve_and_works(tmp_path, monkeypatch):
    monkeypatch.setattr(reserve, "_fallocate", Full(errno.EOPNOTSUPP))
    database = Database(str(tmp_path / "db"), SCHEMA)
    add(database, 1)
    assert rows(database) == [1]
    database.close()


def test_a_process_that_ends_leaves_the_log_with_its_blocks(tmp_path):
    """Closing would delete the log, and the next start would find no room for one."""
    path = str(tmp_path / "db")
    script = f"""
import sys
from engine.daemon.store import reserve
from engine.daemon.store.database import Database
database = Database({path!r}, ("CREATE TABLE IF NOT EXISTS t (x INTEGER)",), alone=True)
with database.transaction() as connection:
    connection.execute("INSERT INTO t VALUES (1)")
"""
    subprocess.run([sys.executable, "-c", script], check=True, cwd=PROJECT)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["db", "db-wal"]
    assert (tmp_path / "db-wal").stat().st_blocks * 512 >= reserve.LOG_BYTES
    database = Database(path, SCHEMA)
    assert rows(database) == [1]
    database.close()


def test_the_first_durable_change_syncs_what_was_made_without_waiting(tmp_path, monkeypatch):
    """SQLite deletes a write-ahead log beside a database file that a loss of power has left empty."""
    (tmp_path / "beside").write_text("made once")
    (tmp_path / "below").mkdir()
    database = Database(str(tmp_path / "db"), SCHEMA)
    done, fsync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (done.append(os.readlink(f"/proc/self/fd/{fd}")), fsync(fd)))
    with database.transaction():
        pass
    assert done == []
    for _ in range(2):
        with database.transaction(durable=True):
            pass
        assert done == [str(tmp_path / "db"), str(tmp_path / "beside"), str(tmp_path)]
    database.close()
