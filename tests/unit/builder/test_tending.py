"""The build cache is kept from filling the disk: which records go by themselves, and which stay."""

import os
import time
from pathlib import Path

import pytest

from engine.daemon.builder import directories, tending
from engine.daemon.builder.prune import records
from engine.daemon.builder.tending import Rule
from engine.daemon.runtime.events import Events
from engine.daemon.store import buildresults, builds, images
from engine.daemon.store.database import Database
from engine.dataclass import replace
from engine.settings.gcpolicy import GcPolicy, GcRule
from tests.harness.parts import Parts, settings, told

DAY = 24 * 3600 * 10**9


class Images:
    """A store without images."""

    def all(self) -> list:
        """None."""
        return []

    def release_bases(self) -> None:
        """There are none."""


@pytest.fixture
def engine(tmp_path: Path) -> Parts:
    """Cache directories of 1 MB that were used 1 and 3 days ago, and results of 5 and 100 days ago with 1 MB each."""
    database = Database(str(tmp_path / "engine.db"), (*images.SCHEMA, *builds.SCHEMA))
    made = Parts(database=database, settings=settings(data_root=str(tmp_path)), images=Images(), events=Events())
    now = time.time_ns()
    with database.transaction() as connection:
        for days in (1, 3):
            number = builds.new_mount(connection, f"mount {days}", now - days * DAY)
            place = Path(directories.room(made)) / str(number)
            place.mkdir()
            (place / "f").write_bytes(b"x" * (1 << 20))
        for days in (5, 100):
            used = now - days * DAY
            row = buildresults.ResultRow(f"{days:064}", "regular", f"step {days}", 1, 1 << 20, True, "", used, used, 0)
            buildresults.add(connection, row, (), ())
    return made


def left(engine: Parts) -> list[str]:
    """What is still there."""
    return sorted(record.description for record in records(engine))


def disk(monkeypatch: pytest.MonkeyPatch, size: int, free: int) -> None:
    """The disk has so many bytes."""
    found = os.statvfs_result((1, 1, size, free, free, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _path: found)


def test_a_small_cache_stays_whole(engine: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    disk(monkeypatch, 1 << 40, 1 << 39)
    tending.tend(engine)
    assert len(left(engine)) == 4 and told(engine.events) == []


def test_what_was_not_used_for_long_goes_where_the_cache_is_large(
    engine: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk(monkeypatch, 20 << 20, 15 << 20)  # a tenth of which, 2 MB, may stay
    tending.tend(engine)
    assert left(engine) == ["cached mount mount 1", "cached mount mount 3", "step 5"]


def test_contexts_and_cache_directories_go_first(engine: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tending.RULES[0]
    monkeypatch.setattr(tending, "RULES", (Rule(first.kinds, first.idle_ns, reserved_bytes=1 << 20),))
    tending.tend(engine)
    assert left(engine) == ["cached mount mount 1", "step 100", "step 5"]


def test_a_full_disk_takes_all_but_a_tenth_the_oldest_first(engine: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    disk(monkeypatch, 15 << 20, 1 << 20)
    tending.tend(engine)
    assert left(engine) == ["cached mount mount 1"]


def test_it_is_done_once_in_a_while(engine: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    monkeypatch.setattr(tending, "later", lambda work, *given: calls.append((work, given)))
    monkeypatch.setattr(tending, "_next_at", 0.0)
    tending.begin(engine)
    tending.begin(engine)
    assert calls == [(tending.tend, (engine,))]
    monkeypatch.setattr(tending, "_next_at", time.monotonic() - 1)
    tending.begin(engine)
    assert len(calls) == 2


def test_the_settings_may_switch_it_off_or_have_bounds_and_rules_of_their_own(
    engine: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk(monkeypatch, 15 << 20, 1 << 20)
    engine.settings = replace(engine.settings, gc=GcPolicy(enabled=False))
    tending.tend(engine)
    assert len(left(engine)) == 4
    engine.settings = replace(engine.settings, gc=GcPolicy(default=GcRule(reserved=3 << 20)))
    tending.tend(engine)
    assert left(engine) == ["cached mount mount 1", "cached mount mount 3", "step 5"]
    rule = GcRule(filters=(("type", "exec.cachemount"), ("unused-for", "48h")))
    engine.settings = replace(engine.settings, gc=GcPolicy(rules=(rule,)))
    tending.tend(engine)
    assert left(engine) == ["cached mount mount 1", "step 5"]
