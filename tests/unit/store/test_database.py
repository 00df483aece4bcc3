"""The database: transactions are whole, durable ones are said to be, and a newer file is refused."""

import ctypes
import errno
import sqlite3
import subprocess
import sys
import threading

import pytest

from engine.daemon.store import reserve
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
