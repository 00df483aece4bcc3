"""The graphs that one build is asked for, and how much of them it remembers."""

import uuid
from collections.abc import Iterator

import pytest

from engine.daemon.builder.graph.node import Input
from engine.daemon.builder.graph.snapshot import Snapshot
from engine.daemon.buildkit import jobs
from engine.daemon.buildkit.jobs import Job
from engine.daemon.buildkit.llb import nested, solving
from engine.errors import Invalid
from tests.harness.graphs import MKFILE, Writer


class Room:
    """A workroom whose solver makes nothing."""

    def solver(self, *_: object) -> "Room":
        return self

    def snapshot(self, _wanted: Input) -> Snapshot:
        return Snapshot()


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    monkeypatch.setattr(Job, "workroom", lambda *_: Room())
    monkeypatch.setattr(solving, "_MOST_BYTES", 10_000)
    made = jobs.begin({"Ref": uuid.uuid4().hex, "Session": "", "SourcePolicy": None, "SourcePolicySession": ""})
    yield made
    jobs.end(made)


def test_what_a_build_is_asked_for_is_bounded_in_all(job: Job) -> None:
    """Also what cannot be, of which a frontend is promised nothing: its names and nodes were met."""
    solver = solving.of(None, job)  # type: ignore[arg-type]
    writer = Writer(source={"locations": {}, "infos": [{"data": bytes(500)}]})
    asked = writer.decoded(writer.local("x" * 500, {"local.session": "s"}))
    bad = Writer(source=writer.source)
    wrong = bad.decoded(bad.local("y" * 500, {"local.session": "s", "local.differ": "what"}))
    for _ in range(4):
        solver.reference(asked)
        with pytest.raises(Invalid, match="differ"):
            solver.reference(wrong)
    with pytest.raises(Invalid, match="at most 10000 bytes in all"):
        for _ in range(4):
            solver.node(asked)


def test_graphs_within_graphs_count_too(job: Job) -> None:
    inner, outer = Writer(), Writer()
    file = outer.files({"mkfile": {**MKFILE, "path": "/d", "data": b""}})
    asked = outer.add({"build": {"builder": -1, "inputs": {"buildkit.llb.definition": {"input": 0}}}}, file)
    wanted = solving.of(None, job).node(outer.decoded(asked))  # type: ignore[arg-type]
    assert wanted is not None and isinstance(wanted.node.operation, nested.Nested)
    found = inner.decoded(inner.local("x" * 3000, {"local.session": "s"}))
    for _ in range(3):
        wanted.node.operation.solve(found)
    with pytest.raises(Invalid, match="at most 10000 bytes in all"):
        wanted.node.operation.solve(found)
