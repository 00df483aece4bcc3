"""What is kept for builds: how it is shown, and what a pruning lets go of."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.daemon.builder import directories, prune
from engine.daemon.images.image import Image
from engine.daemon.runtime.events import Events
from engine.daemon.store import builds, images
from engine.daemon.store.database import Database
from engine.errors import Invalid, SystemFailure
from tests.harness import schema
from tests.harness.parts import Parts, image, settings, told

HOUR = 3600 * 10**9
IMAGES = (
    image(id="sha256:named", names=("n",), parent="sha256:below"),
    image(id="sha256:below"),
    image(id="sha256:dangling", parent="sha256:base"),
)


class Images:
    """A store of these images, as far as they are counted up."""

    def all(self) -> list[Image]:
        """Every one."""
        return list(IMAGES)

    def release_bases(self) -> None:
        """There are none."""


@pytest.fixture
def engine(tmp_path: Path) -> Parts:
    """Two steps, one of them below a name, and two directories of 1 and 2 MB."""
    database = Database(str(tmp_path / "engine.db"), (*images.SCHEMA, *builds.SCHEMA))
    made = Parts(database=database, settings=settings(data_root=str(tmp_path)), images=Images(), events=Events())
    with database.transaction() as connection:
        for one in IMAGES:
            connection.execute("INSERT INTO images (id, media_type, descriptor_size) VALUES (?, '', 0)", (one.id,))
        builds.keep(connection, "a" * 64, "sha256:below", HOUR, "RUN below")
        builds.keep(connection, "b" * 64, "sha256:dangling", 2 * HOUR, "RUN dangling")
        for number, size in enumerate((1, 2), start=1):
            builds.new_mount(connection, f"cache{number}", (2 + number) * HOUR)
            place = Path(directories.room(made)) / str(number)
            place.mkdir()
            (place / "f").write_bytes(b"x" * (size << 20))
    return made


def pruned(engine: Parts, **asked: object) -> list[str]:
    """What a pruning takes, by its description."""
    shown = {record.id: record.description for record in prune.records(engine)}
    deleted, freed = prune.prune(engine, prune.AskedPruning(**asked))
    last = told(engine.events)[-1]
    assert (last.kind, last.action, last.actor, last.attributes) == ("builder", "prune", "", {"reclaimed": str(freed)})
    return [shown[identity] for identity in deleted]


def test_all_is_shown_as_the_definition_wants_it(engine: Parts) -> None:
    figures = prune.figures(engine)
    assert [schema.problems({"$ref": "#/definitions/BuildCache"}, figure) for figure in figures] == [[]] * 4
    assert [figure["Description"] for figure in figures] == [
        "cached mount cache2",
        "cached mount cache1",
        "RUN dangling",
        "RUN below",
    ]
    assert [figure["Type"] for figure in figures] == ["exec.cachemount"] * 2 + ["regular"] * 2
    assert figures[0]["Size"] >= 2 << 20 and not figures[0]["InUse"] and figures[0]["UsageCount"] == 0
    assert [figure["Shared"] for figure in figures] == [False, False, False, True]


@pytest.mark.parametrize(
    ("asked", "taken"),
    [
        ({}, ["RUN dangling", "cached mount cache1", "cached mount cache2"]),
        ({"all": True}, ["RUN below", "RUN dangling", "cached mount cache1", "cached mount cache2"]),
        ({"filters": {"type": ("regular",)}}, ["RUN dangling"]),
        ({"filters": {"description": ("cached mount cache1",)}}, ["cached mount cache1"]),
        ({"filters": {"until": ("1970-01-01T02:30:00Z",)}}, ["RUN dangling"]),
        ({"all": True, "filters": {"shared": ("true",)}}, ["RUN below"]),
        ({"all": True, "filters": {"private": (), "type": ("regular",)}}, ["RUN dangling"]),
        ({"filters": {"inuse": ("1",)}}, []),
        ({"all": True, "filters": {"label": ("a=b",)}}, []),
        ({"filters": {"label!": ("a",), "type": ("regular",)}}, ["RUN dangling"]),
        ({"reserved": 5 << 19}, ["cached mount cache1"]),
        ({"most": 5 << 19}, ["cached mount cache1"]),
        ({"most": 64 << 20}, []),
        ({"free": 1}, []),
        ({"free": 1 << 60}, ["cached mount cache1", "cached mount cache2"]),
        ({"free": 1 << 60, "reserved": 5 << 19}, ["cached mount cache1"]),
    ],
)
def test_what_goes_is_what_was_used_longest_ago(engine: Parts, asked: dict, taken: list[str]) -> None:
    before = len(prune.records(engine))
    assert pruned(engine, **asked) == taken
    assert len(prune.records(engine)) == before - len(taken)
    assert len(list(Path(directories.room(engine)).iterdir())) == 2 - sum("mount" in name for name in taken)


def test_what_is_in_use_stays(engine: Parts) -> None:
    with directories.taken(engine, "cache1", "locked", (0, 0, 0o755), lambda _: None, lambda: None) as path:
        assert path.endswith("/1")
        assert pruned(engine, filters={"type": ("exec.cachemount",)}) == ["cached mount cache2"]
    assert pruned(engine, filters={"type": ("exec.cachemount",)}) == ["cached mount cache1"]


def test_two_ages_are_one_too_many(engine: Parts) -> None:
    with pytest.raises(Invalid):
        prune.prune(engine, prune.AskedPruning(filters={"until": ("1h", "2h")}))


def test_a_directory_that_a_crash_left_goes(engine: Parts) -> None:
    left = Path(directories.room(engine)) / "new-1"
    left.mkdir()
    (left / "f").write_text("x")
    pruned(engine, filters={"type": ("nothing",)})
    assert not left.exists()


def test_a_directory_that_the_database_has_no_room_for_leaves_nothing(
    engine: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not under its number either, which the next one would get."""
    real = engine.database.transaction

    @contextlib.contextmanager
    def full() -> Iterator[object]:
        with real() as connection:
            yield connection
            raise SystemFailure("database or disk is full")

    monkeypatch.setattr(engine.database, "transaction", full)
    with (
        pytest.raises(SystemFailure, match="is full"),
        directories.taken(engine, "new", "shared", (os.getuid(), os.getgid(), 0o755), lambda _: None, lambda: None),
    ):
        pytest.fail("it was made")
    assert sorted(os.listdir(directories.room(engine))) == ["1", "2"]
