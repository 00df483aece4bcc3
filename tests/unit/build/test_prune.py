"""What is kept for builds: how it is shown, and what a pruning lets go of."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.daemon.build import directories, prune
from engine.daemon.store import builds, images
from engine.daemon.store.database import Database
from engine.errors import Invalid, SystemFailure
from tests.harness import schema

HOUR = 3600 * 10**9


@pytest.fixture
def engine(tmp_path: Path) -> SimpleNamespace:
    """Two steps, one of them below a name, and two directories of 1 and 2 MB; `told` are the events."""
    database = Database(str(tmp_path / "engine.db"), (*images.SCHEMA, *builds.SCHEMA))
    kept = [SimpleNamespace(id=name, names=names, parent=parent) for name, names, parent in IMAGES]
    told: list[tuple] = []
    made = SimpleNamespace(
        database=database,
        settings=SimpleNamespace(data_root=str(tmp_path)),
        images=SimpleNamespace(all=lambda: kept),
        events=SimpleNamespace(publish=lambda *event: told.append(event)),
        told=told,
    )
    with database.transaction() as connection:
        for name, _, _ in IMAGES:
            connection.execute("INSERT INTO images (id, media_type, descriptor_size) VALUES (?, '', 0)", (name,))
        builds.keep(connection, "a" * 64, "sha256:below", HOUR, "RUN below")
        builds.keep(connection, "b" * 64, "sha256:dangling", 2 * HOUR, "RUN dangling")
        for number, size in enumerate((1, 2), start=1):
            builds.new_mount(connection, f"cache{number}", (2 + number) * HOUR)
            place = Path(directories.room(made)) / str(number)
            place.mkdir()
            (place / "f").write_bytes(b"x" * (size << 20))
    return made


IMAGES = (("sha256:named", ("n",), "sha256:below"), ("sha256:below", (), ""), ("sha256:dangling", (), "sha256:base"))


def pruned(engine: SimpleNamespace, **asked: object) -> list[str]:
    """What a pruning takes, by its description."""
    shown = {record.id: record.description for record in prune.records(engine)}
    deleted, freed = prune.prune(engine, prune.AskedPruning(**asked))
    assert engine.told[-1] == ("builder", "prune", "", {"reclaimed": str(freed)})
    return [shown[identity] for identity in deleted]


def test_all_is_shown_as_the_definition_wants_it(engine: SimpleNamespace) -> None:
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
def test_what_goes_is_what_was_used_longest_ago(engine: SimpleNamespace, asked: dict, taken: list[str]) -> None:
    before = len(prune.records(engine))
    assert pruned(engine, **asked) == taken
    assert len(prune.records(engine)) == before - len(taken)
    assert len(list(Path(directories.room(engine)).iterdir())) == 2 - sum("mount" in name for name in taken)


def test_what_is_in_use_stays(engine: SimpleNamespace) -> None:
    with directories.taken(engine, "cache1", "locked", (0, 0, 0o755), lambda _: None, lambda: None) as path:
        assert path.endswith("/1")
        assert pruned(engine, filters={"type": ("exec.cachemount",)}) == ["cached mount cache2"]
    assert pruned(engine, filters={"type": ("exec.cachemount",)}) == ["cached mount cache1"]


def test_two_ages_are_one_too_many(engine: SimpleNamespace) -> None:
    with pytest.raises(Invalid):
        prune.prune(engine, prune.AskedPruning(filters={"until": ("1h", "2h")}))


def test_a_directory_that_a_crash_left_goes(engine: SimpleNamespace) -> None:
    left = Path(directories.room(engine)) / "new-1"
    left.mkdir()
    (left / "f").write_text("x")
    pruned(engine, filters={"type": ("nothing",)})
    assert not left.exists()


def test_a_directory_that_the_database_has_no_room_for_leaves_nothing(
    engine: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
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
