"""The table of where blobs stand: the newest first, bounded, one registry's apart from another's."""

import pytest

from engine.daemon.store import blobsources as table
from engine.daemon.store.database import Database


@pytest.fixture
def connection(tmp_path):
    database = Database(str(tmp_path / "db"), table.SCHEMA)
    with database.transaction() as opened:
        yield opened
    database.close()


def test_the_newest_repository_comes_first(connection):
    for repository in ("one", "two", "three", "one"):
        table.remember(connection, "r.io", repository, ["sha256:a"])
    assert table.repositories(connection, "r.io", "sha256:a", 9) == ["one", "three", "two"]
    assert table.repositories(connection, "r.io", "sha256:a", 2) == ["one", "three"]


def test_registries_are_kept_apart(connection):
    table.remember(connection, "r.io", "one", ["sha256:a"])
    assert table.repositories(connection, "s.io", "sha256:a", 9) == []
    assert table.repositories(connection, "r.io", "sha256:b", 9) == []


def test_all_registries_that_have_a_blob(connection):
    for registry, repository in (("s.io", "b/c"), ("r.io", "one")):
        table.remember(connection, registry, repository, ["sha256:a"])
    assert table.everywhere(connection, "sha256:a") == ["s.io/b/c", "r.io/one"]
    assert table.everywhere(connection, "sha256:b") == []


def test_what_was_refused_is_forgotten(connection):
    table.remember(connection, "r.io", "one", ["sha256:a", "sha256:b"])
    table.forget(connection, "r.io", "sha256:a", "one")
    assert table.repositories(connection, "r.io", "sha256:a", 9) == []
    assert table.repositories(connection, "r.io", "sha256:b", 9) == ["one"]


def test_the_oldest_rows_make_place(connection):
    for number in range(20):
        table.remember(connection, "r.io", f"r{number}", ["sha256:a", "sha256:b"], most=10)
    assert table.repositories(connection, "r.io", "sha256:a", 99) == ["r19", "r18", "r17", "r16", "r15"]
    assert connection.execute("SELECT COUNT(*) FROM blob_sources").fetchone()[0] == 10
