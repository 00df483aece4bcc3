"""Cache directories of builds: who fills one keeps nobody waiting but those who want that one."""

import os
import queue
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.daemon.builder import directories
from engine.daemon.store import builds
from engine.daemon.store.database import Database
from tests.harness.parts import Parts, settings

SECONDS = 30
OWNER = (os.getuid(), os.getgid(), 0o755)


@pytest.fixture
def engine(tmp_path: Path) -> Parts:
    """The part of an engine that has such directories."""
    database = Database(str(tmp_path / "engine.db"), builds.SCHEMA)
    return Parts(database=database, settings=settings(data_root=str(tmp_path)))


class Step(threading.Thread):
    """A step that takes a directory, in a thread of its own; `path` is told once it has it, kept until `done`."""

    def __init__(self, engine: object, name: str, sharing: str = "shared", gate: threading.Event | None = None):
        super().__init__(daemon=True)
        self.paths: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.filling, self.done = threading.Event(), threading.Event()
        self._engine, self._name, self._sharing, self._gate = engine, name, sharing, gate
        self.start()

    def run(self) -> None:
        """Take it, and give it back."""
        with directories.taken(self._engine, self._name, self._sharing, OWNER, self._fill, lambda: None) as path:
            self.paths.put(path)
            self.done.wait(SECONDS)

    def _fill(self, _sink: int) -> None:
        self.filling.set()
        if self._gate is not None:
            assert self._gate.wait(SECONDS)


@pytest.fixture
def filling(engine: Parts) -> Iterator[tuple[Step, threading.Event]]:
    """A step that copies a tree into the directory `slow`, and what ends that."""
    gate = threading.Event()
    step = Step(engine, "slow", gate=gate)
    assert step.filling.wait(SECONDS)
    yield step, gate
    for event in (gate, step.done):
        event.set()
    step.join(SECONDS)


def test_a_directory_that_is_filled_holds_up_no_other(engine: Parts, filling: tuple) -> None:
    """Neither another step's, nor a prune."""
    other = Step(engine, "other")
    path = other.paths.get(timeout=SECONDS)
    assert directories.in_use(int(os.path.basename(path)))
    other.done.set()
    other.join(SECONDS)
    assert directories.remove(engine, int(os.path.basename(path)))
    directories.sweep(engine)
    step, gate = filling
    gate.set()
    assert os.path.isdir(step.paths.get(timeout=SECONDS))


@pytest.mark.parametrize("sharing", ["shared", "locked"])
def test_who_wants_the_same_one_waits_for_it(engine: Parts, filling: tuple, sharing: str) -> None:
    """And does not fill another."""
    step, gate = filling
    second = Step(engine, "slow", sharing)
    assert second.paths.empty() and not second.filling.is_set()
    gate.set()
    path = step.paths.get(timeout=SECONDS)
    step.done.set()
    assert second.paths.get(timeout=SECONDS) == path and not second.filling.is_set()
    second.done.set()
    second.join(SECONDS)


def test_who_wants_one_alone_gets_another_at_once(engine: Parts, filling: tuple) -> None:
    step, gate = filling
    second = Step(engine, "slow", "private")
    path = second.paths.get(timeout=SECONDS)
    gate.set()
    assert step.paths.get(timeout=SECONDS) != path
    second.done.set()
    second.join(SECONDS)


def test_one_that_cannot_be_filled_leaves_the_way_to_the_next(engine: Parts) -> None:
    def fail(_sink: int) -> None:
        raise ValueError("no room")

    for _ in range(2):
        with (
            pytest.raises(ValueError, match="no room"),
            directories.taken(engine, "one", "shared", OWNER, fail, lambda: None),
        ):
            pass
    assert os.listdir(directories.room(engine)) == []


def test_who_shares_does_not_wait_for_who_locks(engine: Parts) -> None:
    one = Step(engine, "one", "locked")
    locked = one.paths.get(timeout=SECONDS)
    other = Step(engine, "one", "shared")
    assert other.paths.get(timeout=SECONDS) != locked
    for step in (one, other):
        step.done.set()
        step.join(SECONDS)


def test_one_that_is_emptied_is_another_one_for_the_next(engine: Parts) -> None:
    """Whose name it is, or which begins with a tree's files under that name; also while a step uses it."""
    used, idle, filled, other = (Step(engine, name) for name in ("one", "two", "one tree", "one/more"))
    before = {step: step.paths.get(timeout=SECONDS) for step in (used, idle, filled, other)}
    for step in (idle, filled, other):
        step.done.set()
        step.join(SECONDS)
    directories.empty(engine, "one")
    directories.sweep(engine)
    assert [os.path.exists(path) for path in before.values()] == [True, True, False, True]
    again = Step(engine, "one")
    assert again.paths.get(timeout=SECONDS) != before[used]
    for step in (used, again):
        step.done.set()
        step.join(SECONDS)
    directories.sweep(engine)
    assert not os.path.exists(before[used])
