"""Volumes are made once, stay while they are used, and are gone whole."""

import os

import pytest

from engine.daemon.runtime.events import Events
from engine.daemon.store import volumes as table
from engine.daemon.store.database import Database
from engine.daemon.volumes import usage
from engine.daemon.volumes.store import Volumes
from engine.errors import Conflict, Invalid, NotFound
from engine.kernel import wholefile


@pytest.fixture
def opened(tmp_path):
    """Open the volumes of one data root, as each start of a daemon does."""
    made = []

    def open_() -> Volumes:
        made.append(Database(f"{tmp_path}/db", table.SCHEMA))
        return Volumes(made[-1], str(tmp_path), Events())

    yield open_
    for database in made:
        database.close()


@pytest.fixture
def volumes(opened):
    """The volumes of an empty data root."""
    return opened()


def test_a_volume_is_made_once(volumes):
    made = volumes.create("one", labels={"a": "b"})
    assert volumes.create("one", labels={"c": "d"}) is made and volumes.get("one") is made
    assert os.path.isdir(made.path) and not made.anonymous


def test_a_volume_is_there_after_a_start(volumes, opened):
    made = volumes.create("one", options={"type": "tmpfs", "device": "tmpfs"})
    assert opened().all() == [made]


def test_what_a_volume_holds_does_not_come_back_with_its_name(volumes):
    made = volumes.create("one")
    with open(f"{made.path}/file", "w") as file:
        file.write("secret")
    volumes.remove("one")
    assert os.listdir(volumes.create("one").path) == []


def test_a_removal_that_was_cut_off_is_finished_at_the_next_start(volumes, opened, monkeypatch):
    made = volumes.create("one")
    monkeypatch.setattr(volumes, "_delete", lambda path: None)
    volumes.remove("one")
    aside = os.path.join(os.path.dirname(os.path.dirname(made.path)), ".removed")
    assert len(os.listdir(aside)) == 1
    assert opened().all() == [] and os.listdir(aside) == []


class Lost(Exception):
    """The daemon has died here."""


class Dying:
    """A database whose next transaction does not come to its end."""

    def transaction(self, **_: object) -> object:
        raise Lost


def precious(made):
    """A file in a volume; its path."""
    path = f"{made.path}/file"
    with open(path, "w") as file:
        file.write("precious")
    return path


def test_a_volume_whose_removal_failed_has_its_files(volumes):
    kept = precious(volumes.create("one"))
    database, volumes._database = volumes._database, Dying()
    with pytest.raises(Lost):
        volumes.remove("one")
    assert os.path.exists(kept)
    volumes._database = database
    volumes.remove("one")
    assert not os.path.exists(kept)


def test_a_volume_whose_removal_was_cut_off_before_its_row_went_has_its_files(volumes, opened, monkeypatch):
    kept = precious(volumes.create("one"))
    volumes._database = Dying()
    monkeypatch.setattr(volumes, "_put_back", lambda *_: None)
    with pytest.raises(Lost):
        volumes.remove("one")
    assert not os.path.exists(kept)
    again = opened()
    assert [volume.name for volume in again.all()] == ["one"] and os.path.exists(kept)


def test_files_of_a_removed_volume_do_not_come_to_a_later_one_of_its_name(volumes, opened, monkeypatch):
    made = volumes.create("one")
    precious(made)
    monkeypatch.setattr(volumes, "_delete", lambda path: None)
    volumes.remove("one")
    os.rmdir(volumes.create("one").path)
    os.rmdir(os.path.dirname(made.path))  # as a loss of power leaves it
    again = opened()
    again.mend(again.get("one"))
    assert os.listdir(made.path) == []


def test_files_are_put_aside_on_the_disk_before_the_row_goes(volumes, monkeypatch):
    done = []
    monkeypatch.setattr(wholefile, "sync_directory", lambda path: done.append(os.path.basename(path)))
    transaction = volumes._database.transaction

    def noted(**durability):
        done.append(durability)
        return transaction(**durability)

    volumes.create("zero")
    volumes.remove("zero")  # the first durable change of a daemon syncs more than its own
    volumes.create("one")
    done.clear()
    monkeypatch.setattr(volumes._database, "transaction", noted)
    volumes.remove("one")
    assert done == [".removed", {"durable": True, "frees": True}]


def test_a_directory_that_nobody_wrote_down_is_left_alone(volumes, opened, tmp_path):
    volumes.create("one")
    os.makedirs(f"{tmp_path}/volumes/mine/_data/precious")
    again = opened()
    assert [volume.name for volume in again.all()] == ["one"]
    assert os.path.isdir(f"{tmp_path}/volumes/mine/_data/precious")


def test_who_has_a_volume_keeps_it(volumes):
    volumes.create("one", user="c1")
    volumes.create("one", user="c2")
    with pytest.raises(Conflict, match=r"^remove one: volume is in use - \[c1, c2\]$"):
        volumes.remove("one")
    volumes.release("one", "c1")
    with pytest.raises(Conflict):
        volumes.remove("one", force=True)
    volumes.release("one", "c2")
    volumes.remove("one")
    with pytest.raises(NotFound, match=r"^get one: no such volume$"):
        volumes.get("one")


@pytest.mark.parametrize("name", ["../x", ".removed", "a/b", "a b", "x", "-x", "ü1", "a\n"])
def test_a_name_that_is_none_makes_nothing(volumes, tmp_path, name):
    with pytest.raises(Invalid):
        volumes.create(name)
    assert os.listdir(f"{tmp_path}/volumes") == [".removed"] and volumes.all() == []


def test_a_volume_that_a_power_cut_took_is_mended(volumes):
    made = volumes.create("one")
    os.rmdir(made.path)
    volumes.mend(made)
    assert os.path.isdir(made.path)


def test_the_size_of_a_volume_follows_no_link_and_counts_hard_links_once(volumes):
    made = volumes.create("one")
    with open(f"{made.path}/file", "w") as file:
        file.write("x" * 1000)
    os.link(f"{made.path}/file", f"{made.path}/again")
    os.symlink("/usr", f"{made.path}/out")
    assert usage.size(made) == 1000 + len("/usr")
