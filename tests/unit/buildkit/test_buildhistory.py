"""The history of builds: what it keeps and lets go of, whom it tells, and whom its filters choose."""

import os
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.daemon.buildkit import buildhistory, fieldfilters, historyblobs, historyfilters, recording
from engine.daemon.buildkit.messages.control import COMPLETE, DELETED, STARTED, BuildHistoryRecord, BuildHistoryRequest
from engine.daemon.buildkit.messages.known import moment
from engine.daemon.buildkit.progress import STDOUT, Progress
from engine.daemon.store import buildrecords
from engine.daemon.store.database import Database
from engine.errors import EngineError, Invalid, NotFound, Unavailable
from tests.harness.parts import Parts, settings

ALL: BuildHistoryRequest = {"ActiveOnly": False, "Ref": "", "EarlyExit": True, "Filter": [], "Limit": 0}
LONG = 20


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Parts]:
    """A database and a data root."""
    database = Database(str(tmp_path / "db"), buildrecords.SCHEMA)
    yield Parts(database=database, settings=settings(data_root=str(tmp_path)))
    database.close()


def build(
    engine: Parts, ref: str, words: bytes = b"words", failure: EngineError | None = None, **asked: object
) -> None:
    """A build of one step, recorded."""
    wanted = {"Ref": ref, "Frontend": "f", "FrontendAttrs": {"k": "v"}, "Exporters": [], "Internal": False, **asked}
    progress = Progress(ref)
    try:
        with recording.recorded(engine, wanted, [], progress, b"") as record:
            vertex = progress.vertex("one")
            vertex.begin()
            vertex.log(words, STDOUT)
            vertex.end()
            recording.attest(ref, "https://slsa.dev/provenance/v1", b'{"ref": "%s"}' % ref.encode())
            if failure is not None:
                raise failure
            record.told = {"image.name": ref}
    except EngineError as error:
        assert error is failure


def records(engine: Parts, **asked: object) -> list[BuildHistoryRecord]:
    """Those that have ended."""
    return [event["record"] for event in buildhistory.listen(engine, {**ALL, **asked}) if event["type"] == COMPLETE]


def files(engine: Parts) -> set[str]:
    """The digests of the files that are there."""
    return {f"sha256:{name}" for name in os.listdir(Path(engine.settings.data_root) / "history")}


def test_a_build_that_went_well(engine: Parts) -> None:
    build(engine, "one")
    (record,) = records(engine)
    assert (record["Ref"], record["Frontend"], record["FrontendAttrs"]) == ("one", "f", {"k": "v"})
    assert (record["numTotalSteps"], record["numCompletedSteps"], record["numCachedSteps"]) == (1, 1, 0)
    assert record["ExporterResponse"] == {"image.name": "one"} and record["error"] is None
    (attested,) = record["Result"]["Attestations"]
    assert attested["annotations"] == {"in-toto.io/predicate-type": "https://slsa.dev/provenance/v1"}
    with historyblobs.opened(engine.settings.data_root, attested["digest"]) as file:
        assert file.read() == b'{"ref": "one"}'
    assert files(engine) == {record["logs"]["digest"], record["trace"]["digest"], attested["digest"]}
    events = list(recording.replayed(engine, "one"))
    assert b"".join(log["msg"] for event in events for log in event["logs"]) == b"words"
    with historyblobs.opened(engine.settings.data_root, record["logs"]["digest"]) as file:
        data = file.read()
    assert struct.unpack_from("<I", data)[0] < len(data) == record["logs"]["size"]


def test_a_build_that_failed(engine: Parts) -> None:
    build(engine, "one", failure=Invalid("no such thing"))
    (record,) = records(engine)
    assert record["error"] == {"code": 3, "message": "no such thing", "details": []}
    assert record["externalError"]["digest"] in files(engine)
    assert record["ExporterResponse"] == {}


def test_a_build_that_a_client_makes_for_itself_is_not_recorded(engine: Parts) -> None:
    build(engine, "one", Internal=True)
    assert records(engine) == []


def test_a_log_that_is_torn_ends_where_it_is_whole(engine: Parts) -> None:
    build(engine, "one")
    (record,) = records(engine)
    path = Path(engine.settings.data_root) / "history" / record["logs"]["digest"].removeprefix("sha256:")
    whole, events = path.read_bytes(), len(list(recording.replayed(engine, "one")))
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert len(list(recording.replayed(engine, "one"))) < events
    assert events == 4


def test_a_removed_record_takes_its_files_and_no_others(engine: Parts) -> None:
    build(engine, "one")
    build(engine, "two")
    kept = files(engine)
    buildhistory.delete(engine, "one")
    (record,) = records(engine)
    assert record["Ref"] == "two"
    assert files(engine) < kept
    for digest in files(engine):
        assert buildhistory.holds(engine, digest)
    buildhistory.delete(engine, "never")
    with pytest.raises(NotFound):
        buildhistory.pin(engine, "never", True)


def test_what_a_killed_daemon_has_left_goes(engine: Parts) -> None:
    build(engine, "one")
    room = Path(engine.settings.data_root) / "history"
    (room / "new-0123").write_text("half")
    (room / ("0" * 64)).write_text("no record has it")
    kept = {record["logs"]["digest"] for record in records(engine)}
    buildhistory._swept.clear()
    buildhistory.prepare(engine)
    assert kept <= files(engine)
    assert len(files(engine)) == 3


def test_the_oldest_go_and_pinned_ones_stay(engine: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buildhistory, "KEPT", 2)
    for number in range(4):
        build(engine, str(number))
    assert len(records(engine)) == 4  # none is old enough
    buildhistory.pin(engine, "0", True)
    monkeypatch.setattr(buildhistory, "KEPT_NS", 0)
    assert [record["Ref"] for record in records(engine)] == ["3", "2", "0"]
    assert records(engine)[2]["pinned"]
    monkeypatch.setattr(buildhistory, "KEPT_NS", 1 << 60)
    monkeypatch.setattr(buildhistory, "MOST", 1)
    build(engine, "5")
    assert [record["Ref"] for record in records(engine)] == ["5", "0"]


def test_a_record_is_bounded_whatever_a_client_sends(engine: Parts) -> None:
    build(engine, "one", FrontendAttrs={str(number): "x" * 100_000 for number in range(1000)})
    (record,) = records(engine)
    assert 0 < sum(map(len, record["FrontendAttrs"].values())) < (1 << 20)
    assert record["FrontendAttrs"]["0"].endswith("x...")


def test_whoever_listens_hears_what_happens(engine: Parts) -> None:
    build(engine, "before")
    heard: list[tuple[int, str]] = []
    ready = threading.Event()

    def listen() -> None:
        for event in buildhistory.listen(engine, {**ALL, "EarlyExit": False}):
            if event is not None:
                heard.append((event["type"], event["record"]["Ref"]))
                ready.set()
                if event["type"] == DELETED:
                    return

    thread = threading.Thread(target=listen)
    thread.start()
    assert ready.wait(LONG)
    build(engine, "one")
    buildhistory.pin(engine, "one", True)
    buildhistory.delete(engine, "one")
    thread.join(LONG)
    assert heard == [(COMPLETE, "before"), (STARTED, "one"), (COMPLETE, "one"), (COMPLETE, "one"), (DELETED, "one")]
    assert buildhistory._listeners == set()


def test_who_does_not_keep_up_is_left(engine: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buildhistory, "_MOST_UNREAD", 3)
    build(engine, "before")
    events = buildhistory.listen(engine, {**ALL, "EarlyExit": False})
    next(events)
    (listener,) = buildhistory._listeners
    for number in range(20):
        build(engine, str(number))
    assert listener.events.qsize() <= 4
    with pytest.raises(Unavailable):
        for _ in events:
            pass


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        (["ref==a"], "a"),
        (["ref==a", "ref==b"], "ab"),
        (["status==completed"], "a"),
        (["status==error"], "b"),
        (["status==error,ref==a"], ""),
        (["status!=error"], "ac"),
        (["status==canceled"], "c"),
        (["repository==https://x/y.git"], "a"),
        (["repository"], "ab"),
        (["startedAt>1h"], "abc"),
        (["startedAt<1h"], ""),
        (["completedAt<=2100-01-01T00:00:00Z,ref~=[ab]"], "ab"),
        (["duration>=2s"], "b"),
        (["duration<2s"], "ac"),
        (['"ref==a"'], "a"),
    ],
)
def test_filters_of_the_history(filters: list[str], found: str) -> None:
    begun = time.time_ns()

    def record(ref: str, seconds: int, error: str = "", **attributes: str) -> BuildHistoryRecord:
        made: BuildHistoryRecord = {"Ref": ref, "CreatedAt": moment(begun), "FrontendAttrs": attributes, "error": None}
        made["CompletedAt"] = moment(begun + seconds * 1_000_000_000)
        return {**made, "error": {"code": 2, "message": error}} if error else made

    test = historyfilters.compiled(filters)
    given = (
        record("a", 1, **{"vcs:source": "https://x/y.git"}),
        record("b", 3, "it broke", context="https://x/z.git#main"),
        record("c", 1, "context canceled: by hand"),
    )
    assert "".join(each["Ref"] for each in given if test(each)) == found


@pytest.mark.parametrize(
    "text",
    [
        "ref=a",
        "ref==",
        "==",
        "ref==a b",
        "startedAt>never",
        "duration>x",
        "duration",
        "ref~=(a+",
        "ref~=a**",
        ",".join(["ref~=a"] * 17),
        '"',
    ],
)
def test_malformed_filters(text: str) -> None:
    with pytest.raises(Invalid):
        historyfilters.compiled([text])


@pytest.mark.parametrize(
    ("text", "fields", "chosen"),
    [
        ("", {}, True),
        ("a", {"a": ""}, True),
        ("a", {}, False),
        ("a==x", {"a": "x"}, True),
        ('a=="x, y"', {"a": "x, y"}, True),
        ("a!=x", {}, True),
        ("a==x,b", {"a": "x"}, False),
        ("a.b==x", {"a.b": "x"}, True),
        ('a."b.c"==x', {"a.b.c": "x"}, True),
        ("a~=^x[0-9]+$", {"a": "x12"}, True),
        ("a~=/x,/", {"a": "ax,"}, True),
        ("a~=x", {}, False),
        ("a~=/^(x|y+)+$/", {"a": "xyy"}, True),
        ("a~=/^(x|y+)+$/", {"a": "xyz"}, False),
    ],
)
def test_filters_of_fields(text: str, fields: dict[str, str], chosen: bool) -> None:
    assert fieldfilters.compiled([text])(lambda path: fields.get(".".join(path))) is chosen


@given(st.lists(st.text(alphabet='ab=!~.,"/|\\(+*[ \n', max_size=30), max_size=3))
def test_no_filter_costs_more_than_words(texts: list[str]) -> None:
    try:
        test = fieldfilters.compiled(texts)
    except Invalid:
        return
    assert test(lambda _: "a" * 5000) in (True, False)


def test_filters_are_bounded() -> None:
    with pytest.raises(Invalid):
        fieldfilters.compiled(["a" * 100_000])
    with pytest.raises(Invalid):
        historyfilters.compiled(["a"] * 101)
