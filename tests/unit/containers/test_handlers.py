"""The container handlers: defaults of queries, words of errors, and what is sent before what."""

import io
import json
import threading
import urllib.parse

import pytest

from engine.daemon.api.handlers.containers import everyday as handlers
from engine.daemon.api.query import Query
from engine.daemon.api.streams import ClientGone
from engine.daemon.containers import states
from engine.daemon.containers.verbs import stop as stopping
from engine.daemon.containers.verbs.create import create
from engine.errors import Conflict, EngineError, Invalid, NotBuilt, NotFound
from tests.harness.ready import ready
from tests.unit.containers import recorded
from tests.unit.containers.fakes import make_engine

RECORDED_ID = "efefee374180eea2e71b18ec8ec0ddbc827c1eb2fc1e20073166b896ddd08958"


class FakeStream:
    """An answer being written; what is written stands in `sent`."""

    raw_chunks = True

    def __init__(self, sent: list) -> None:
        self._sent = sent

    def write(self, data: bytes) -> None:
        self._sent.append(data)

    end = write

    def __enter__(self) -> "FakeStream":
        return self

    def __exit__(self, *_: object) -> None:
        self._sent.append("end")


class FakeRequest:
    """A request by its id and query; `sent` is what was answered, in order."""

    def __init__(self, reference: str, query: str = "", body: bytes = b"", gone: bool = False) -> None:
        self.parameters = {"id": reference}
        self.query = Query(query)
        self.version = (1, 54)
        self.body = io.BytesIO(body)
        self.gone = lambda: gone
        self.sent: list = []
        self.head_sent = threading.Event()
        self.aborted = False
        self.chunked = self.full_close = True

    def fileno(self) -> int:
        return -1

    def shared(self, held: object) -> None:
        self.held = held

    def stream(self, status: int, content_type: str) -> FakeStream:
        self.sent.append((status, content_type))
        self.head_sent.set()
        return FakeStream(self.sent)

    def abort(self) -> None:
        self.aborted = True

    def park(self, steps) -> None:
        for descriptor in steps:
            if self.gone():
                steps.throw(ClientGone)
            assert ready(descriptor, 10)


@pytest.fixture
def engine(tmp_path):
    engine = make_engine(tmp_path)
    create(engine, "one", {"Image": "busybox"}, None)
    return engine


def move(container, status: str, exit_code: int = 0) -> None:
    with container.changed:
        container.state.exit_code = container.last_exit = exit_code
        container.exits += status == "exited"
        states.move(container, status)


def test_wait_sends_its_head_before_the_container_ends(engine):
    container = engine.containers.find("one")
    move(container, "running")
    request = FakeRequest("one")
    thread = threading.Thread(target=handlers.wait, args=(engine, request))
    thread.start()
    assert request.head_sent.wait(10)
    assert request.sent == [(200, "application/json")]
    move(container, "exited", 3)
    thread.join(10)
    assert [json.loads(request.sent[1]), request.sent[2]] == [{"StatusCode": 3}, "end"]


def test_wait_of_a_client_that_left_ends_without_an_answer(engine):
    move(engine.containers.find("one"), "running")
    request = FakeRequest("one", gone=True)
    with pytest.raises(ClientGone):
        handlers.wait(engine, request)
    assert b"".join(part for part in request.sent if isinstance(part, bytes)) == b""


@pytest.mark.parametrize(
    ("call", "handler", "reference", "query", "kind"),
    [
        (122, handlers.inspect, "nope", "", NotFound),
        (124, handlers.kill, "one", "", Conflict),
        (130, handlers.logs, "one", "", Invalid),
        (136, handlers.wait, "one", "condition=bogus", Invalid),
        (144, handlers.logs, "one", "stdout=1&since=bogus", Invalid),
        (147, handlers.logs, "one", "stdout=0&stderr=0", Invalid),
        (155, handlers.start, "nope", "", NotFound),
        (156, handlers.wait, "nope", "", NotFound),
        (157, handlers.logs, "nope", "stdout=1", NotFound),
        (158, handlers.remove, "nope", "", NotFound),
        (169, handlers.kill, "one", "signal=BOGUS", Invalid),
        (118, handlers.list_, "", "filters=%7Bbad", Invalid),
        (119, handlers.list_, "", "filters=%7B%22nope%22%3A%5B%22x%22%5D%7D", Invalid),
    ],
)
def test_a_refusal_has_dockerds_words(engine, call, handler, reference, query, kind):
    expected = recorded.answer(call)["message"]
    expected = expected.replace(RECORDED_ID, engine.containers.find("one").id)
    asked = recorded.calls()[call]["request"]["path"].split("/")[3]
    expected = expected.replace(asked, "one") if len(asked) in (12, 64) else expected
    request = FakeRequest(reference, query)
    with pytest.raises(kind) as caught:
        handler(engine, request)
    assert str(caught.value) == expected
    assert request.sent == []


def test_kill_of_nobody_says_whom_it_could_not_kill(engine):
    with pytest.raises(NotFound, match=r"^cannot kill container: nope: No such container: nope$"):
        handlers.kill(engine, FakeRequest("nope"))


def test_a_start_with_a_body_or_a_checkpoint_is_refused(engine):
    with pytest.raises(Invalid, match="non-empty request body"):
        handlers.start(engine, FakeRequest("one", body=b'{"Binds":[]}'))
    with pytest.raises(NotBuilt, match="checkpoint"):
        handlers.start(engine, FakeRequest("one", "checkpoint=x1"))


@pytest.mark.parametrize("name", ["../outside", "x", "/xx", "a b", "up..", "xy\n"])
def test_a_checkpoints_name_is_judged_before_the_container_is_looked_for(engine, name):
    with pytest.raises(Invalid) as caught:
        handlers.start(engine, FakeRequest("nope", f"checkpoint={urllib.parse.quote(name)}"))
    shown = json.dumps(name)
    assert str(caught.value) == f"invalid checkpoint ID {shown}, only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed"


@pytest.mark.parametrize(
    ("text", "tail"), [("", None), ("all", None), ("bogus", None), ("-1", None), ("0", 0), ("7", 7)]
)
def test_a_tail_that_is_no_number_is_all(text, tail):
    assert handlers._tail(text) == tail


def test_stop_passes_its_signal_and_its_time(engine, monkeypatch):
    calls = []
    monkeypatch.setattr(stopping, "stop", lambda engine, container, *rest: calls.append(rest))
    handlers.stop(engine, FakeRequest("one", "t=5&signal=INT"))
    handlers.stop(engine, FakeRequest("one"))
    handlers.stop(engine, FakeRequest("one", "t=-1"))
    assert calls == [("INT", 5), (None, None), (None, -1)]
    with pytest.raises(Invalid, match="invalid syntax"):
        handlers.stop(engine, FakeRequest("one", "t=soon"))


def test_old_parameters_of_the_listing_are_its_filters(engine):
    create(engine, "two", {"Image": "busybox"}, None)
    names = [entry["Names"] for entry in json.loads(handlers.list_(engine, FakeRequest("", "all=1&since=one")).body)]
    assert names == [["/two"]]


def test_a_link_is_not_removed_as_a_container(engine):
    with pytest.raises(EngineError, match="cannot remove the default link name of the container"):
        handlers.remove(engine, FakeRequest("one", "link=1"))
    assert engine.containers.find("one")
