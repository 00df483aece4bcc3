"""The database: transactions are whole, durable ones are said to be, and a newer file is refused."""

import sqlite3
import threading

import pytest

from engine.daemon.store.database import VERSION, Database
from engine.errors import SystemFailure, Unavailable

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
