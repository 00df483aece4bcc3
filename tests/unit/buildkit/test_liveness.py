"""Clients that vanish without a word: whose builds end, and whose connections are closed."""

import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator

import pytest

from engine.daemon.buildkit import jobs, link, liveness, methods, sessions
from engine.daemon.buildkit.link import Link
from engine.daemon.buildkit.messages import session as messages
from engine.daemon.buildkit.serving import Call, Method
from engine.daemon.buildkit.sessions import Session
from engine.errors import EngineError, Unavailable
from engine.protocols import grpc
from tests.harness.links import LONG, running

Check = Call[messages.HealthCheckRequest, messages.HealthCheckResponse]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hours pass in moments."""
    monkeypatch.setattr(liveness, "_PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(liveness, "_LOOK_SECONDS", 0.02)
    monkeypatch.setattr(liveness, "_ANSWER_SECONDS", 0.2)


@pytest.fixture
def client() -> Iterator[Callable[[Callable[[Check], None]], Session]]:
    """A session whose client does this when it is asked for its health."""
    ends: list[Callable[[], None]] = []

    def made(answer: Callable[[Check], None]) -> Session:
        near, far = socket.socketpair()
        session = Session(uuid.uuid4().hex, "", frozenset({methods.HEALTH.lower()}), Link(near, True))
        thread = threading.Thread(target=lambda: sessions.serve(session))
        thread.start()
        served = running(far, False, {methods.HEALTH: Method(*methods.TABLES[methods.HEALTH], answer)})
        served.__enter__()

        def end() -> None:
            served.__exit__(None, None, None)
            thread.join(LONG)

        ends.append(end)
        return session

    yield made
    for end in ends:
        end()


def lost(session: Session, seconds: float) -> bool:
    """Whether the session ends within this time, while a build watches it."""
    over = threading.Event()
    session.watch(over.set)
    try:
        return over.wait(seconds)
    finally:
        session.unwatch(over.set)


def test_a_session_that_does_not_answer_is_lost(client: Callable[..., Session]) -> None:
    asked: list[float] = []

    def silent(call: Check) -> None:
        asked.append(time.monotonic())
        while not call.stream.gone:
            time.sleep(0.01)

    assert lost(client(silent), LONG)
    assert len(asked) == 2


def test_a_session_that_answers_stays(client: Callable[..., Session]) -> None:
    asked: list[int] = []

    def well(call: Check) -> None:
        asked.append(1)
        call.one()
        call.send({"status": 1})

    def refuses(call: Check) -> None:
        asked.append(1)
        raise grpc.Failed(grpc.Status(grpc.UNIMPLEMENTED, "what health?"))

    for answer in (well, refuses):
        asked.clear()
        assert not lost(client(answer), 1.0)
        assert len(asked) > 3
        before = len(asked)
        time.sleep(0.3)
        assert len(asked) <= before + 1  # nobody watches any more, and nobody is asked


def test_one_question_without_an_answer_is_forgiven(client: Callable[..., Session]) -> None:
    asked: list[int] = []

    def slow(call: Check) -> None:
        asked.append(1)
        while len(asked) % 8 == 1 and not call.stream.gone:
            time.sleep(0.01)
        call.one()
        call.send({"status": 1})

    assert not lost(client(slow), 1.0)
    assert len(asked) > 8


def test_a_build_of_a_client_that_vanished_ends(client: Callable[..., Session]) -> None:
    def silent(call: Check) -> None:
        while not call.stream.gone:
            time.sleep(0.01)

    session = client(silent)
    job = jobs.begin({"Ref": uuid.uuid4().hex, "Session": session.id})
    session.watch(lambda: job.give_up("the session was lost"))
    try:
        with pytest.raises(EngineError, match="the session was lost"):
            job.wait_for_answer()
    finally:
        jobs.end(job)


def test_a_peer_that_is_silent_is_pinged_and_one_that_does_not_answer_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "_QUIET_SECONDS", 0.05)
    monkeypatch.setattr(link, "_ANSWER_SECONDS", 0.2)
    near, far = socket.socketpair()
    ours = Link(near, False, pings=True)
    thread = threading.Thread(target=ours.run)
    thread.start()
    with running(far, True):
        thread.join(1.0)
        assert thread.is_alive()  # it answers
    thread.join(LONG)
    near, far = socket.socketpair()
    ours = Link(near, False, pings=True)
    thread = threading.Thread(target=ours.run)
    thread.start()
    with far:
        thread.join(LONG)
        assert not thread.is_alive()


def test_sessions_are_not_without_number(monkeypatch: pytest.MonkeyPatch, client: Callable[..., Session]) -> None:
    session = client(lambda call: call.send({"status": 1}))
    assert sessions.find(session.id) is session
    monkeypatch.setattr(sessions, "_MOST", 1)
    near, far = socket.socketpair()
    with near, far, pytest.raises(Unavailable, match="1 sessions already"):
        sessions.serve(Session("another", "", frozenset(), Link(near, True)))
