"""Pruning volumes: what goes, how much that was, and never two at once."""

import threading

import pytest

from engine.daemon.runtime.events import Events
from engine.daemon.store import volumes as table
from engine.daemon.store.database import Database
from engine.daemon.volumes import prune, usage
from engine.daemon.volumes.store import Volumes
from engine.errors import Conflict, Invalid


@pytest.fixture
def volumes(tmp_path):
    """`plain` of 7 bytes, one without a name, one that options mount, and one that a container has."""
    database = Database(f"{tmp_path}/db", table.SCHEMA)
    made = Volumes(database, str(tmp_path), Events())
    with open(f"{made.create('plain').path}/file", "w") as file:
        file.write("7 bytes")
    made.create()
    made.create("mounted", options={"type": "tmpfs", "device": "tmpfs"})
    made.create("used", user="c" * 64)
    yield made
    database.close()


def test_without_a_name_alone_unless_all_are_asked_for(volumes):
    (anonymous,) = (volume.name for volume in volumes.all() if volume.anonymous)
    assert prune.prune(volumes, {}, all_by_default=False) == ([anonymous], 0)
    assert prune.prune(volumes, {"all": ("1",)}, all_by_default=False) == (["plain"], 7)
    assert [volume.name for volume in volumes.all()] == ["mounted", "used"]


def test_what_a_container_takes_meanwhile_stays(volumes, monkeypatch):
    monkeypatch.setattr(usage, "size", lambda volume: volumes.create(volume.name, user="d" * 64) and 1)
    assert prune.prune(volumes, {}, all_by_default=True) == ([], 0)
    assert len(volumes.all()) == 4


def test_a_second_one_is_told_that_one_runs(volumes, monkeypatch):
    inside, go_on = threading.Event(), threading.Event()

    def slow(_volume):
        inside.set()
        assert go_on.wait(10)
        return 0

    monkeypatch.setattr(usage, "size", slow)
    first = threading.Thread(target=prune.prune, args=(volumes, {}, True))
    first.start()
    assert inside.wait(10)
    with pytest.raises(Conflict, match="a prune operation is already running"):
        prune.prune(volumes, {}, all_by_default=True)
    go_on.set()
    first.join(10)
    assert prune.prune(volumes, {}, all_by_default=True) == ([], 0)


def test_after_one_that_was_refused_the_next_runs(volumes):
    with pytest.raises(Invalid):
        prune.prune(volumes, {"until": ("1h",)}, all_by_default=True)
    assert prune.prune(volumes, {"label": ("none",)}, all_by_default=True) == ([], 0)
