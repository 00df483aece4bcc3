"""A build as those see it that wait for it, watch it and give it up; and the mirrors that builds share."""

import os
import threading
import time
import uuid
from pathlib import Path

import pytest

from engine.daemon.builder import mirrors
from engine.daemon.buildkit import jobs, sessions
from engine.daemon.buildkit.llb import references
from engine.daemon.buildkit.messages.control import StatusResponse
from engine.daemon.buildkit.progress import STDOUT, Progress
from engine.daemon.buildkit.serving import Cancelled
from engine.errors import Conflict, Invalid, NotFound, Unavailable
from tests.harness.descriptors import none_left

LONG = 20


def begun() -> jobs.Job:
    return jobs.begin({"Ref": uuid.uuid4().hex, "Session": "s"})


def test_whoever_comes_late_sees_all_from_the_first() -> None:
    progress, seen = Progress("r"), []
    vertex = progress.vertex("[1/2] FROM x")
    vertex.begin()
    thread = threading.Thread(target=lambda: seen.extend(each for each in progress.follow() if each))
    thread.start()
    vertex.log(b"words", STDOUT)
    vertex.cached()
    vertex.count("part", 3, 7, "named", ended=True)
    vertex.end("a fault")
    progress.close()
    thread.join(LONG)
    assert seen == [each for each in progress.follow() if each]
    assert len(seen) == 5
    last = seen[-1]["vertexes"][0]
    assert (last["name"], last["cached"], last["error"]) == ("[1/2] FROM x", True, "a fault")
    assert last["started"] and last["completed"]
    assert seen[2]["logs"][0]["msg"] == b"words"
    (counted,) = seen[3]["statuses"]
    assert (counted["ID"], counted["current"], counted["total"], counted["name"]) == ("part", 3, 7, "named")


def test_what_a_step_writes_is_clipped() -> None:
    progress = Progress("r")
    vertex = progress.vertex("x")
    for _ in range(50):
        vertex.log(bytes(100_000), STDOUT)
    progress.close()
    events: list[StatusResponse] = [each for each in progress.follow() if each]
    written = b"".join(log["msg"] for each in events for log in each.get("logs", []))
    assert written.endswith(b"[output clipped, log limit 2MiB reached]\n")
    assert len(written) < (2 << 20) + 100


def test_vertices_of_one_name_are_several() -> None:
    progress = Progress("r")
    assert progress.vertex("x").digest != progress.vertex("x").digest


def test_a_build_is_found_when_it_begins_later(monkeypatch: pytest.MonkeyPatch) -> None:
    ref, found = uuid.uuid4().hex, []
    thread = threading.Thread(target=lambda: found.append(jobs.find(ref)))
    thread.start()
    job = jobs.begin({"Ref": ref, "Session": ""})
    thread.join(LONG)
    assert found == [job]
    with pytest.raises(Conflict):
        jobs.begin({"Ref": ref, "Session": ""})
    jobs.end(job)
    monkeypatch.setattr(jobs, "_PATIENCE_SECONDS", 0.0)
    with pytest.raises(NotFound):
        jobs.find(ref)
    assert jobs.watched(ref) is job.progress


def test_only_some_that_have_ended_are_kept() -> None:
    for _ in range(20):
        jobs.end(begun())
    assert len(jobs._ended) == jobs._MOST_ENDED


def test_no_more_than_so_many_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_MOST_RUNNING", 2)
    running = [begun(), begun()]
    with pytest.raises(Unavailable, match="builds run already"):
        begun()
    jobs.end(running.pop())
    running.append(begun())
    for job in running:
        jobs.end(job)


def test_a_frontend_is_promised_only_so_many_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(references, "_MOST", 1)
    known = references.References()
    known.add(references.Reference({}, lambda: None))  # type: ignore[arg-type,return-value]
    with pytest.raises(Invalid, match="promised at most 1 results"):
        known.add(references.Reference({}, lambda: None))  # type: ignore[arg-type,return-value]


def test_programs_at_work_for_a_build_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may ask for a hundred further ones at once, and these again."""
    monkeypatch.setattr(jobs, "_MOST_PROGRAMS", 2)
    job = begun()
    with jobs.program(job), jobs.program(job), pytest.raises(Invalid, match="2 frontends of images"):
        with jobs.program(job):
            pass
    with jobs.program(job):
        jobs.end(begun())
    jobs.end(job)


def test_steps_are_not_without_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.daemon.buildkit.progress._MOST_STEPS", 3)
    progress = Progress("r")
    for _ in range(3):
        progress.vertex("x" * 100_000)
    with pytest.raises(Invalid, match="at most 3 steps"):
        progress.vertex("x")
    progress.close()
    assert sum(len(each["name"]) for event in progress.follow() if event for each in event["vertexes"]) < 50_000


def test_a_transfer_of_a_year_is_one_event_for_who_comes_late() -> None:
    """A client may send a byte now and then, for ever; each is told to those who watch."""
    progress, seen = Progress("r"), list[StatusResponse]()
    following = progress.follow()
    vertex = progress.vertex("x")
    for count in range(100):
        vertex.count("a", count)
        vertex.count("b", count, ended=count == 99)
        if count == 50:
            while event := next(following):
                seen.append(event)
    progress.close()
    seen += [each for each in following if each]
    told = [(each["ID"], each["current"]) for event in seen for each in event.get("statuses", [])]
    assert told == [("a", 50), ("b", 50), ("a", 99), ("b", 99)]
    late = [each for each in progress.follow() if each]
    assert [(each["ID"], each["current"]) for event in late[1:] for each in event["statuses"]] == [("a", 99), ("b", 99)]
    assert all(event is not None for event in late)


def test_a_build_that_is_given_up_ends_every_wait() -> None:
    job = begun()
    try:
        threading.Timer(0.05, job.give_up, ("the client has gone",)).start()
        with pytest.raises(Cancelled, match="context canceled: the client has gone"):
            job.wait_for_answer()
        assert job.gone()
        with pytest.raises(Cancelled):
            job.check()
    finally:
        jobs.end(job)
    job.give_up("again")


def test_an_answer_ends_the_wait_and_the_first_one_counts() -> None:
    job, failing = begun(), begun()
    try:
        job.answer({"ref": {"id": "x"}})
        job.answer(None, Invalid("no"))
        job.wait_for_answer()
        assert job.returned == {"ref": {"id": "x"}}
        failing.answer(None, Invalid("no"))
        failing.answer({"ref": {"id": "x"}})
        with pytest.raises(Invalid, match="no"):
            failing.wait_for_answer()
        assert failing.returned is None
    finally:
        jobs.end(job)
        jobs.end(failing)


def test_a_build_does_not_end_below_a_call_that_works_for_it() -> None:
    job, order = begun(), []
    entered = threading.Event()

    def work() -> None:
        with jobs.used(job.ref) as mine:
            entered.set()
            with pytest.raises(Cancelled):
                mine.wait_for_answer()
            order.append("the call")

    thread = threading.Thread(target=work)
    thread.start()
    assert entered.wait(LONG)
    jobs.end(job)
    order.append("the build")
    thread.join(LONG)
    assert order == ["the call", "the build"]


def test_words_to_a_build_that_has_ended_reach_nobody_else() -> None:
    """The numbers of its descriptors are others' by then."""
    job = begun()
    jobs.end(job)
    others = [os.eventfd(0, os.EFD_NONBLOCK) for _ in range(8)]
    try:
        job.give_up("late")
        job.answer(None)
        for other in others:
            with pytest.raises(BlockingIOError):
                os.eventfd_read(other)
    finally:
        for other in others:
            os.close(other)


def test_a_build_leaves_no_descriptor() -> None:
    with none_left():
        jobs.end(begun())


def test_the_end_of_a_session_is_told_once_and_to_those_who_come_late() -> None:
    told: list[str] = []
    session = sessions.Session("s", "", frozenset(), None)  # type: ignore[arg-type]
    session.watch(lambda: told.append("first"))
    never = lambda: told.append("never")  # noqa: E731
    session.watch(never)
    session.unwatch(never)
    session.end()
    session.end()
    session.watch(lambda: told.append("late"))
    assert told == ["first", "late"]


def nothing() -> None:
    """Nobody ends the wait."""


def test_a_mirror_is_one_builds_at_a_time(tmp_path: Path) -> None:
    (tmp_path / "contexts").mkdir()
    order: list[str] = []

    def second() -> None:
        with mirrors.held(str(tmp_path), ("a", "b"), "a source", nothing):
            order.append("second")

    with mirrors.held(str(tmp_path), ("a", "b"), "a source", nothing) as mirror:
        os.mkdir("inside", dir_fd=mirror.root)
        thread = threading.Thread(target=second)
        thread.start()
        with mirrors.held(str(tmp_path), ("a", "c"), "a source", nothing) as other:
            assert os.listdir(other.root) == []
        time.sleep(0.05)
        order.append("first")
    thread.join(LONG)
    assert order == ["first", "second"]
    with mirrors.held(str(tmp_path), ("a", "b"), "a source", nothing) as mirror:
        assert os.listdir(mirror.root) == ["inside"]


def test_the_wait_for_a_mirror_can_be_ended(tmp_path: Path) -> None:
    (tmp_path / "contexts").mkdir()

    def end() -> None:
        raise Cancelled("enough")

    with mirrors.held(str(tmp_path), ("a",), "a source", nothing), pytest.raises(Cancelled):
        with mirrors.held(str(tmp_path), ("a",), "a source", end):
            pass


def test_the_mirrors_that_were_not_used_for_longest_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "contexts").mkdir()
    monkeypatch.setattr(mirrors, "_MOST_KEPT", 3)
    for number in range(6):
        with mirrors.held(str(tmp_path), (str(number),), "a source", nothing) as mirror:
            mirror.weighs(number)
            os.utime(mirror.path, ns=(number, number))
    assert len(os.listdir(tmp_path / "contexts")) == 3
    with mirrors.held(str(tmp_path), ("5",), "a source", nothing) as mirror:
        (kept,) = (each for each in mirrors.kept(str(tmp_path)) if each.in_use)
        assert (kept.size, kept.uses, kept.description) == (5, 1, "a source")
        assert not mirrors.remove(str(tmp_path), kept.name)
        mirror.weighs(1 << 60)
        os.utime(mirror.path)
    assert os.listdir(tmp_path / "contexts") == [Path(mirror.path).name]
