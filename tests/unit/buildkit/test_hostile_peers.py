"""Peers that take no calls, answer none, take no answers or send crumbs: who waits for them can be told to stop."""

import contextlib
import socket
import threading
import time
import tracemalloc
import uuid
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import pytest

from engine.daemon.buildkit import bridgeservice, calling, jobs, methods
from engine.daemon.buildkit.jobs import Job
from engine.daemon.buildkit.link import Link, Stream
from engine.daemon.buildkit.llb.asker import Asker
from engine.daemon.buildkit.llb.references import Reference, References
from engine.daemon.buildkit.llb.rooms import Rooms
from engine.daemon.buildkit.offers import SessionGiver
from engine.daemon.buildkit.serving import Call, Cancelled, Method
from engine.daemon.buildkit.sessions import Session
from engine.errors import Invalid, NotFound
from engine.protocols.http2events import Data, Limits
from tests.harness.links import LONG, running

SECRET, EVALUATE, READ = methods.SECRETS + "GetSecret", methods.GATEWAY + "Evaluate", methods.GATEWAY + "ReadFile"
RETURN = methods.GATEWAY + "Return"


@pytest.fixture
def job() -> Iterator[Job]:
    made = jobs.begin({"Ref": uuid.uuid4().hex, "Session": "s", "FrontendInputs": {}})
    yield made
    if jobs._running.get(made.ref) is made:
        jobs.end(made)


def ends(work: Callable[[], object], job: Job) -> bool:
    """Whether the work waits, and ends once nobody waits for the build any more."""
    ended: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except Cancelled as error:
            ended.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(0.2)
    waited = thread.is_alive()
    job.give_up("the client has gone")
    thread.join(LONG)
    return waited and bool(ended)


def test_a_peer_that_takes_no_calls(job: Job) -> None:
    near, far = socket.socketpair()
    peer = Link(far, False, None, Limits(streams=0))
    thread = threading.Thread(target=peer.run)
    thread.start()
    try:
        with running(near, True) as link:
            until = time.monotonic() + LONG
            while link.http.may_open() and time.monotonic() < until:
                time.sleep(0.01)
            tables = methods.TABLES[SECRET]
            assert ends(lambda: calling.unary(link, SECRET, *tables, {"ID": "x"}, [], job.check), job)
    finally:
        peer.close()
        thread.join(LONG)


def test_a_client_that_does_not_answer(job: Job) -> None:
    def silent(call: Call[Any, Any]) -> None:
        while not call.stream.gone:
            time.sleep(0.01)

    near, far = socket.socketpair()
    with running(far, False, {SECRET: Method(*methods.TABLES[SECRET], silent)}), running(near, True) as link:
        giver = SessionGiver(Session("s", "", frozenset(), link), job.check)
        assert ends(lambda: giver.secret("x"), job)


@pytest.mark.parametrize(("size", "taken"), [(500 * 1024, True), (500 * 1024 + 1, False)])
def test_a_secret_is_no_larger_than_buildkits(job: Job, size: int, taken: bool) -> None:
    """It lies in memory as long as its step runs, once for each mount that names it."""

    def gives(call: Call[Any, Any]) -> None:
        call.one()
        call.send({"data": bytes(size)})

    near, far = socket.socketpair()
    with running(far, False, {SECRET: Method(*methods.TABLES[SECRET], gives)}), running(near, True) as link:
        giver = SessionGiver(Session("s", "", frozenset(), link), job.check)
        with contextlib.nullcontext() if taken else pytest.raises(Invalid, match="invalid secret size"):
            assert len(giver.secret("x") or b"") == size


def test_crumbs_take_no_more_than_a_loaf() -> None:
    """A byte in each frame: an object for each of a window's would be a hundred times as much."""
    near, far = socket.socketpair()
    with near, far:
        link = Link(near, True)
        stream = Stream(link, 1, None)
        tracemalloc.start()
        try:
            with link.lock:
                for _ in range(20_000):
                    stream.came(Data(1, b"x", False, 1))
            taken, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert taken < 200_000


# Calls of LLBBridge that outlive the program that has made them.


def asker(job: Job, make: Callable[[], Any]) -> tuple[Asker, str]:
    """The frontend of an image, and the id of a tree that it was promised, which is made so."""
    references = References()
    return Asker(job, {}, lambda *_: None, references, Rooms(), 1), references.add(Reference({}, make))


def test_a_build_does_not_end_below_a_call_of_a_program_that_has_ended(job: Job) -> None:
    """The program is gone, and its call still makes a tree, with the build's layers and descriptors."""
    order: list[str] = []
    entered = threading.Event()

    def make() -> None:
        entered.set()
        with pytest.raises(Cancelled):
            job.wait_for_answer()
        time.sleep(0.1)
        order.append("the call")

    frontend, id = asker(job, make)
    near, far = socket.socketpair()
    served = bridgeservice.served_to(None, frontend)  # type: ignore[arg-type]
    table = {path: Method(*methods.TABLES[path], run) for path, run in served.items()}
    with running(far, False, table), running(near, True) as link:
        with calling.Outgoing(link, EVALUATE, *methods.TABLES[EVALUATE], []) as call:
            call.send({"Ref": id})
            call.end()
            assert entered.wait(LONG)
        jobs.end(job)
        order.append("the build")
        assert order == ["the call", "the build"]
        with pytest.raises(Exception, match=r"no such job|the build has ended"):
            calling.unary(link, EVALUATE, *methods.TABLES[EVALUATE], {"Ref": id})


def test_an_answer_that_nobody_takes_does_not_keep_a_build_from_its_end(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client gives no room for it, on a connection that stays."""
    monkeypatch.setattr(bridgeservice, "_looked", lambda *_: b"x" * 10_000_000)
    near, far = socket.socketpair()
    served = bridgeservice.served(None)  # type: ignore[arg-type]
    table = {path: Method(*methods.TABLES[path], run) for path, run in served.items()}
    of_build = (b"buildkit-controlapi-buildid", job.ref.encode())
    with running(far, False, table), running(near, True) as link:
        with calling.Outgoing(link, READ, *methods.TABLES[READ], [of_build]) as call:
            call.send({"FilePath": "/x"})
            call.end()
            call.stream.answered()  # and nothing more is read
            ended = threading.Thread(target=jobs.end, args=(job,), daemon=True)
            ended.start()
            ended.join(LONG)
            assert not ended.is_alive()


def test_the_call_that_ends_a_build_is_answered(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection is full of what containers write, and the build has ended before there is room again."""
    full, takes_more = threading.Event(), Link.takes_more
    ended = threading.Thread(target=jobs.end, args=(job,), daemon=True)

    def answer(*_: object) -> None:
        full.set()
        threading.Timer(1.5, full.clear).start()
        ended.start()

    monkeypatch.setattr(Job, "answer", answer)
    monkeypatch.setattr(Link, "takes_more", lambda link: not full.is_set() and takes_more(link))
    near, far = socket.socketpair()
    served = bridgeservice.served(None)  # type: ignore[arg-type]
    table = {path: Method(*methods.TABLES[path], run) for path, run in served.items()}
    of_build = (b"buildkit-controlapi-buildid", job.ref.encode())
    with running(far, False, table), running(near, True) as link:
        assert calling.unary(link, RETURN, *methods.TABLES[RETURN], {"result": {"ref": {}}}, [of_build]) == {}
        ended.join(LONG)
        assert not ended.is_alive()


def test_few_large_answers_are_made_at_a_time(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred, which nobody takes, would be gigabytes."""
    made: list[int] = []

    def look(*_: object) -> bytes:
        made.append(1)
        return b"x" * 4_000_000

    monkeypatch.setattr(bridgeservice, "_looked", look)
    near, far = socket.socketpair()
    served = bridgeservice.served(None)  # type: ignore[arg-type]
    table = {path: Method(*methods.TABLES[path], run) for path, run in served.items()}
    of_build = (b"buildkit-controlapi-buildid", job.ref.encode())
    with running(far, False, table), running(near, True) as link, contextlib.ExitStack() as stack:
        calls = [
            stack.enter_context(calling.Outgoing(link, READ, *methods.TABLES[READ], [of_build])) for _ in range(20)
        ]
        for call in calls:
            call.send({"FilePath": "/x"})
            call.end()
        until = time.monotonic() + LONG
        while len(made) < jobs._MOST_LARGE and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.2)
        assert len(made) == jobs._MOST_LARGE
        with futures.ThreadPoolExecutor(len(calls)) as readers:  # those that wait get their turn
            answers = list(readers.map(lambda call: call.receive(), calls, timeout=LONG))
        assert [len(answer["Data"]) for answer in answers if answer is not None] == [4_000_000] * len(calls)


def test_a_build_that_has_ended_is_worked_for_no_more(job: Job) -> None:
    jobs.end(job)
    with pytest.raises(NotFound), jobs.worked_for(job):
        pass
