"""Requests generated from the API's definition, ordinary to absurd, against a daemon that has something of each kind.

No answer is a failure that dockerd would not give (`meant` has those that it gives, and why), every answer is as the
definition says, and afterwards the daemon is as it was: alive, no traceback in its log, no thread, descriptor or
megabyte more.
"""

import collections
import contextlib
import json
import os
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.chaos import absurd, form, generating, meant
from tests.chaos.generating import Asked
from tests.chaos.standing import Standing
from tests.harness import rootfs, schema
from tests.harness.daemon import Daemon
from tests.harness.fixtures import World, running
from tests.harness.http import Answer

REQUESTS = int(form.short_or_full(300, 40_000))
# Of the containers that were made, one in so many is also started: what the host refuses is only seen there.
STARTED = int(form.short_or_full(3, 5))
FILTERS = 5  # of all that there are, in the short form
HEAD_SECONDS = 60.0
STREAM_SECONDS = 0.05
# What a daemon may hold more at the end than when a part of the requests has been answered: memory in KB.
WARM_UP = 0.4
MORE_MEMORY = 8_000
MORE_THREADS = 3  # those that begin with their first work and stay: the sweeper, the connections', that of OOM kills
MORE_DESCRIPTORS = 3  # sockets to the kernel that the daemon opens once, at their first use, and keeps
SETTLE_SECONDS = 30.0
# A container's cgroup below another parent is no part of what is looked through for leaks.
NEVER_STARTED = ("CgroupParent",)


class Asking:
    """Sends requests and keeps what is wrong with their answers: kind of fault → what was tried, and the answer."""

    def __init__(self, standing: Standing, random_: random.Random) -> None:
        self.standing = standing
        self.random = random_
        self.statuses: collections.Counter[int] = collections.Counter()
        self.wrong: dict[str, list[str]] = {}

    def ask(self, asked: Asked) -> None:
        """One request, what is to be said of its answer, and the way back to what was."""
        target = self.standing.filled(asked.target)
        body = self.standing.filled(asked.body.decode("latin-1")).encode("latin-1")
        try:
            answer, whole = self.answer(asked, target, body)
        except (EOFError, TimeoutError, ConnectionError) as error:
            self.standing.hang_up()
            self.note(asked, f"no answer: {error!r:.200}")
            self.standing.renew("all")
            return
        self.judge(asked, answer, whole)
        if asked.method not in ("GET", "HEAD") and (answer.status < 400 or answer.status == 500):
            self.back(asked, answer)

    def answer(self, asked: Asked, target: str, body: bytes) -> tuple[Answer, bool]:
        """The answer, or as much of it as a stream has at once; whether it is whole."""
        connection = self.standing.connected()
        connection.send_request(asked.method, target, body or None, asked.headers)
        status, headers = connection.read_head()
        while status == 100:
            status, headers = connection.read_head()
        streams = status == 101 or (status < 300 and asked.path.startswith(generating.ENDLESS))
        framed = "content-length" in headers or headers.get("transfer-encoding") == "chunked"
        try:
            if status == 101:
                return Answer(status, headers, b""), False
            if streams:
                connection.socket.settimeout(STREAM_SECONDS)
            return Answer(status, headers, connection.read_body(asked.method, status, headers)), True
        except TimeoutError:
            if not streams:
                raise
            return Answer(status, headers, b""), False
        finally:
            if streams or not framed or headers.get("connection", "").lower() == "close":
                self.standing.hang_up()

    def judge(self, asked: Asked, answer: Answer, whole: bool) -> None:
        """Note what is wrong with an answer."""
        self.statuses[answer.status] += 1
        text = answer.body.decode("utf-8", "replace") if "json" in answer.headers.get("content-type", "") else ""
        with contextlib.suppress(ValueError, TypeError, KeyError):
            text = json.loads(text)["message"]
        unmeant = answer.status >= 500 and not meant.covers(asked.operation, answer.status, text)
        if unmeant or "internal error" in text or "Traceback" in text:
            self.note(asked, f"{answer.status} {text}")
        if whole:
            try:
                found = schema.departures(asked.method, asked.target, answer)
            except ValueError as error:
                found = [f"not JSON: {error}"]
            for each in found:
                self.note(asked, f"{answer.status}, against the definition: {each}")

    def note(self, asked: Asked, text: str) -> None:
        """Keep it, with others of the same kind."""
        kind = re.sub(r"[0-9a-f]{12,}|\d+|(.)\1{9,}", "#", f"{asked.operation}: {text[:2_000]}")[:160]
        self.wrong.setdefault(kind, []).append(f"{asked.tried} -> {text[:300]}")

    def back(self, asked: Asked, answer: Answer) -> None:
        """Take away what a request has made, and have made anew what it has taken away."""
        made: dict = {}
        with contextlib.suppress(ValueError):
            made = json.loads(answer.body)
        kind, call = asked.path.split("/")[1], self.standing.call
        if answer.status == 201 and asked.operation == "POST /containers/create":
            if not self.random.randrange(STARTED) and not asked.tried.startswith(NEVER_STARTED):
                self.follow("POST", "/containers/{id}/start", made["Id"], asked)
                self.follow("GET", "/containers/{id}/json", made["Id"], asked)
            self.removed(asked, f"/containers/{made['Id']}?force=1&v=1", (204, 404))
            return
        if answer.status == 201 and asked.path in ("/networks/create", "/volumes/create"):
            self.removed(asked, f"/{kind}/{generating.percent(made.get('Id') or made['Name'])}", (204,))
        if answer.status == 201 and asked.path == "/commit":
            self.removed(asked, f"/images/{made['Id']}?force=1", (200,))
        self.standing.renew(kind)
        if self.statuses.total() % 50 == 0:
            call("POST", "/images/prune?filters=%7B%22dangling%22%3A%5B%22false%22%5D%7D")
            call("POST", "/build/prune?all=1")
            self.standing.renew("images")

    def follow(self, method: str, path: str, made: str, cause: Asked) -> None:
        """One more call, for what a request has made."""
        target = f"/v{schema.NEWEST}{path.replace('{id}', made)}"
        asked = Asked(method, path, target, {}, b"", f"after {cause.operation} {cause.tried}")
        self.judge(asked, self.standing.call(method, target), True)

    def removed(self, asked: Asked, path: str, statuses: tuple[int, ...]) -> None:
        """Take something away, and note when that fails."""
        answer = self.standing.call("DELETE", path)
        if answer.status not in statuses:
            self.note(asked, f"what it made cannot be removed: {answer.status} {answer.body[:200]!r}")


class Weight(NamedTuple):
    """What a process holds; memory: that of its own, in KB."""

    threads: int
    descriptors: int
    memory: int

    @classmethod
    def of(cls, pid: int) -> "Weight":
        """Of this process now."""
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        memory = sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))
        return cls(len(os.listdir(f"/proc/{pid}/task")), len(os.listdir(f"/proc/{pid}/fd")), memory)

    def within(self, other: "Weight") -> bool:
        """Whether this is no more than the other, but for a little memory, and what a first use leaves open."""
        more = self.threads > other.threads + MORE_THREADS or self.descriptors > other.descriptors + MORE_DESCRIPTORS
        return not more and self.memory <= other.memory + MORE_MEMORY


def resting(standing: Standing, daemon: Daemon) -> Weight:
    """What a daemon holds while all stands and nobody asks."""
    standing.renew("all")
    standing.hang_up()
    return Weight.of(daemon.pid)


def settled(standing: Standing, daemon: Daemon, before: Weight) -> Weight:
    """The same once the last answers have ended; waits for that as long as it may take."""
    now, end = resting(standing, daemon), time.monotonic() + SETTLE_SECONDS
    while not now.within(before) and time.monotonic() < end:
        time.sleep(0.1)
        now = Weight.of(daemon.pid)
    return now


def offered(standing: Standing, random_: random.Random) -> list[list[generating.Request]]:
    """The requests of each operation; of the filters, those that it knows."""
    found = []
    some = absurd.FILTERS if form.FULL else random_.sample(absurd.FILTERS, FILTERS)
    for operation in generating.operations():
        requests = list(operation.requests())
        for name in some if operation.filtered else ():
            values = list(operation.with_filter(name))
            if standing.knows_filter(values[0]()):
                requests += values
        found.append(requests)
    return found


@pytest.fixture
def apart_and_quiet(world: World) -> Iterator[Daemon]:
    """A daemon on a machine of its own, as what is asked at random also makes its bridge there."""
    if rootfs.program() is None:
        pytest.skip("needs busybox: apt-get install busybox-static")
    with running(world.daemon(("--log-level", "warn"), world.machine())) as daemon:
        yield daemon


@pytest.mark.timeout(7200 if form.FULL else 120)
def test_generated_requests(apart_and_quiet: Daemon) -> None:
    """What is asked, what is answered, and what is left of it."""
    daemon, random_ = apart_and_quiet, form.source("generated requests")
    standing = Standing(daemon, HEAD_SECONDS)
    requests = generating.chosen(random_, offered(standing, random_), REQUESTS)
    asking, warm, began = Asking(standing, random_), None, time.monotonic()
    for number, request in enumerate(requests):
        if number == int(len(requests) * WARM_UP):
            warm = resting(standing, daemon)
        asking.ask(request())
    last = settled(standing, daemon, warm)
    print(f"{asking.statuses.total()} requests in {time.monotonic() - began:.0f} s, seed {form.SEED}")
    print("statuses:", dict(sorted(asking.statuses.items())))
    print(f"the daemon: {warm}, and at the end {last}")
    for kind, cases in sorted(asking.wrong.items()):
        print(f"{len(cases)} times {kind}", *dict.fromkeys((cases[0], cases[-1])), sep="\n    ")
    assert not asking.wrong, f"{len(asking.wrong)} kinds of answers, see above"
    assert "Traceback" not in daemon.log
    assert last.within(warm)
