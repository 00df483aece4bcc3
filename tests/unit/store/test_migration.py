"""Files of older engines: each version is opened with all that is in it, and is one of this version afterwards."""

import json
import sqlite3

import pytest

from engine.daemon.store import containers as table
from engine.daemon.store import images as image_table
from engine.daemon.store.database import VERSION, Database
from engine.daemon.store.migrations import MIGRATIONS
from engine.errors import Unavailable

SCHEMA = (*table.SCHEMA, *image_table.SCHEMA)
# As the engine of version 1 made and filled it.
VERSION_1 = """
    CREATE TABLE containers (
        id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, created_ns INTEGER NOT NULL, image TEXT NOT NULL,
        image_id TEXT NOT NULL, settings TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE container_states (
        id TEXT PRIMARY KEY, status TEXT NOT NULL, pid INTEGER NOT NULL, pid_start INTEGER NOT NULL,
        exit_code INTEGER NOT NULL, error TEXT NOT NULL, oom_killed INTEGER NOT NULL, started_ns INTEGER NOT NULL,
        finished_ns INTEGER NOT NULL, restart_count INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE container_images (image_id TEXT PRIMARY KEY, descriptor TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE layers (
        number INTEGER PRIMARY KEY AUTOINCREMENT, diff_id TEXT UNIQUE, size INTEGER NOT NULL DEFAULT 0,
        ready INTEGER NOT NULL DEFAULT 0
    );
    CREATE TABLE images (
        id TEXT PRIMARY KEY, media_type TEXT NOT NULL, descriptor_size INTEGER NOT NULL, manifest TEXT NOT NULL,
        config TEXT NOT NULL, created TEXT NOT NULL, parent TEXT NOT NULL DEFAULT '',
        removed INTEGER NOT NULL DEFAULT 0
    ) WITHOUT ROWID;
    CREATE TABLE image_layers (
        image TEXT NOT NULL REFERENCES images ON DELETE CASCADE, manifest TEXT NOT NULL, position INTEGER NOT NULL,
        layer INTEGER NOT NULL REFERENCES layers, PRIMARY KEY (image, manifest, position)
    ) WITHOUT ROWID;
    CREATE INDEX image_layers_by_layer ON image_layers (layer);
    CREATE TABLE image_blobs (
        image TEXT NOT NULL REFERENCES images ON DELETE CASCADE, digest TEXT NOT NULL, size INTEGER NOT NULL,
        PRIMARY KEY (image, digest)
    ) WITHOUT ROWID;
    CREATE INDEX image_blobs_by_digest ON image_blobs (digest);
    CREATE TABLE image_names (
        name TEXT PRIMARY KEY, image TEXT NOT NULL REFERENCES images ON DELETE CASCADE, tagged_ns INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX image_names_by_image ON image_names (image);
    INSERT INTO layers VALUES (1, 'sha256:a', 10, 1), (2, 'sha256:b', 20, 1), (3, 'sha256:c', 30, 1);
    INSERT INTO images VALUES ('sha256:i', 'index', 5, 'sha256:m2', '{"os":"linux"}', '2026', '', 0);
    INSERT INTO images VALUES ('sha256:r', 'manifest', 6, 'sha256:r', '{}', '', 'sha256:i', 1);
    INSERT INTO image_layers VALUES
        ('sha256:i', 'sha256:m1', 0, 1), ('sha256:i', 'sha256:m2', 0, 2), ('sha256:r', 'sha256:r', 0, 3);
    INSERT INTO image_blobs VALUES
        ('sha256:i', 'sha256:i', 5), ('sha256:i', 'sha256:m2', 7), ('sha256:r', 'sha256:r', 6);
    INSERT INTO image_names VALUES ('docker.io/library/x:1', 'sha256:i', 9);
    PRAGMA user_version = 1;
"""
SETTINGS = {"config": {}, "host_config": {}, "networking": {}, "path": "true", "args": [], "layers": ["1", "2"]}


@pytest.fixture
def old(tmp_path):
    """A file of version 1 with a container that runs and one that has ended."""
    path = str(tmp_path / "engine.db")
    with sqlite3.connect(path) as connection:
        connection.executescript(VERSION_1)
        for number, status in enumerate(("running", "exited")):
            identifier = str(number) * 64
            row = (identifier, f"name{number}", number, "busybox", "sha256:0", json.dumps(SETTINGS))
            connection.execute("INSERT INTO containers VALUES (?, ?, ?, ?, ?, ?)", row)
            row = (identifier, status, 12, 34, 5, "error", 1, 6, 7, 8)
            connection.execute("INSERT INTO container_states VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    connection.close()
    return path


def load(path):
    database = Database(path, SCHEMA, MIGRATIONS)
    with database.reading() as connection:
        containers = table.load_all(connection)
        version = connection.execute("PRAGMA user_version").fetchone()[0]
    return database, containers, version


def test_a_file_of_version_1_is_opened_with_all_that_is_in_it(old):
    database, containers, version = load(old)
    assert version == VERSION
    assert [container.name for container in containers] == ["name0", "name1"]
    for container, status in zip(containers, ("running", "exited"), strict=True):
        state = container.state
        assert (state.status, state.pid, state.pid_start, state.exit_code) == (status, 12, 34, 5)
        assert (state.error, state.oom_killed, state.started_ns, state.finished_ns) == ("error", True, 6, 7)
        assert (state.restart_count, state.stopped_by_hand) == (8, False)
        assert container.layers == ("1", "2")
    database.close()


def test_an_image_of_one_platform_at_a_time_is_one_of_several(old):
    """The platform that was replaced is a removed one: its layers are held for the containers that stand on them."""
    database, _, _ = load(old)
    with database.reading() as connection:
        assert [row["id"] for row in image_table.images(connection)] == ["sha256:i"]
        (here,) = image_table.platforms(connection, "sha256:i")
        assert tuple(here) == ("sha256:m2", '{"os":"linux"}', "2026")
        assert image_table.platforms_kept(connection, image_table.FOR_CONTAINERS) == [
            ("sha256:i", "sha256:m1"),
            ("sha256:r", "sha256:r"),
        ]
        assert image_table.image_blobs(connection, "sha256:i", "sha256:m2") == [("sha256:i", 5), ("sha256:m2", 7)]
        assert image_table.image_names(connection, "sha256:i") == [("docker.io/library/x:1", 9)]
        assert image_table.idle_layers(connection) == []
    with database.transaction() as connection:
        image_table.forget_platform(connection, "sha256:i", "sha256:m1")
        image_table.forget_platform(connection, "sha256:r", "sha256:r")
        assert image_table.idle_layers(connection) == [1, 3]
        assert image_table.any_image(connection, "sha256:r") is None
    database.close()


def test_what_is_new_is_kept_in_it_from_then_on(old):
    database, containers, _ = load(old)
    containers[0].state.stopped_by_hand = True
    with database.transaction() as connection:
        table.save_state(connection, containers[0])
        table.rename(connection, containers[1], "other")
    database.close()
    database, containers, _ = load(old)
    assert [container.state.stopped_by_hand for container in containers] == [True, False]
    assert [container.name for container in containers] == ["name0", "other"]
    database.close()


def test_a_migration_that_fails_changes_nothing(old):
    broken = {1: (*MIGRATIONS[1], "ALTER TABLE nowhere ADD COLUMN x INTEGER")}
    with pytest.raises((Unavailable, Exception), match="nowhere"):
        Database(old, SCHEMA, broken)
    database, containers, version = load(old)
    assert version == VERSION and len(containers) == 2
    database.close()


def test_a_new_file_needs_no_migration(tmp_path):
    database, containers, version = load(str(tmp_path / "new.db"))
    assert (containers, version) == ([], VERSION)
    database.close()


def test_every_older_version_has_its_migration():
    assert set(MIGRATIONS) == set(range(1, VERSION)) and all(MIGRATIONS.values())
