"""Clients that mean no good, all at once: `_ping` is answered as ever, and when they have gone nothing of them stays.

Idle connections, heads that trickle in, bodies that are announced and never sent (at every endpoint), streams that
nobody reads, and hijacked connections that are cut. The short form holds the daemon's answers against those of a quiet
moment of the same run, as other programs may burn the processors; the full form holds the figures that are promised.
"""

import contextlib
import resource
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from engine.daemon.api.routes import ROUTES
from tests.api import building
from tests.chaos import form, weights
from tests.harness import leaks
from tests.harness.daemon import Daemon
from tests.harness.fixtures import World
from tests.harness.http import Connection

IDLE = form.short_or_full(200, 1_000)
SLOW_HEADS = form.short_or_full(20, 200)
BODIES = form.short_or_full(1, 3)  # for each endpoint
NON_READERS = form.short_or_full(2, 50)  # of each stream
BUILDS = form.short_or_full(1, 10)
CUTS = form.short_or_full(40, 2_000)
PINGS = form.short_or_full(150, 5_000)
PAUSE_SECONDS = 0.005
REST_SECONDS = 30.0
MOST_P99_SECONDS = 0.020
# In the short form, of what the quiet moment gave; and what a machine under load takes from anybody at times.
TIMES, GRACE_SECONDS = 10, 0.25
GROWTH, NOISE_BYTES = 1.10, form.short_or_full(6 << 20, 2 << 20)
# What the first crowd of two thousand threads may leave: the interpreter keeps pools of which any part is in use.
MOST_KEPT_BYTES = 20 << 20
UPGRADE = {"Connection": "Upgrade", "Upgrade": "tcp"}
# Says half a megabyte, more than a socket takes, and then nothing: a talker would burn what is measured here.
TALK = "yes 0123456789012345678901234567890123456789 | head -n 12000"
LONG_TALK = f"{TALK}; exec sleep 3600"


@pytest.fixture
def alone(world: World) -> Iterator[Daemon]:
    """A daemon on a machine of its own, with busybox, as quiet as in production."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    machine = world.machine()
    daemon = world.daemon(machine=machine)
    daemon.log_level = "info"
    daemon.start()
    try:
        daemon.import_busybox()
        yield daemon
    finally:
        daemon.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert not leaks.settled(lambda: leaks.remains(machine))


def pings(daemon: Daemon, count: int) -> list[float]:
    """Seconds that each of so many took, each with a connection of its own."""
    taken = []
    for _ in range(count):
        begun = time.perf_counter()
        assert daemon.request("GET", "/_ping", checked=False).status == 200
        taken.append(time.perf_counter() - begun)
        time.sleep(PAUSE_SECONDS)
    return taken


def p99(taken: list[float]) -> float:
    """The time that one in a hundred exceeds."""
    return statistics.quantiles(taken, n=100)[-1]


class Crowd:
    """All the hostile clients of one daemon; `talker`: a container that has said much."""

    def __init__(self, daemon: Daemon, talker: str) -> None:
        self._daemon = daemon
        self._talker = talker
        self._open: list[Connection] = []

    def connection(self) -> Connection:
        """One more client."""
        self._open.append(self._daemon.connection())
        return self._open[-1]

    def close(self) -> None:
        """All go away at once, without a word."""
        for each in self._open:
            each.close()
        self._open.clear()

    def idle(self) -> None:
        """One that says nothing."""
        self.connection()

    def slow_head(self, stop: threading.Event) -> None:
        """Clients whose heads come byte by byte, until it is enough."""
        slow = [self.connection() for _ in range(SLOW_HEADS)]
        chosen = form.source("heads")
        while not stop.wait(0.05):
            with contextlib.suppress(OSError):  # the crowd is going
                chosen.choice(slow).send(b"G")

    def unsent_body(self, method: str, pattern: str) -> None:
        """One that announces what it does not send; of what is not there, so that nothing comes of it."""
        path = pattern.replace("...}", "}").replace("{id}", "nobody").replace("{name}", "nobody")
        query = "?filters=%7B%22label%22%3A%5B%22nobody.has.it%22%5D%7D" if path.endswith("/prune") else ""
        lines = (f"{method} {path}{query} HTTP/1.1", "Host: test", "Content-Length: 100000", "", "")
        self.connection().send("\r\n".join(lines).encode())

    def unread(self) -> list[Callable[[], None]]:
        """What begins a stream of each kind that is not read."""
        talker, daemon = self._talker, self._daemon

        def execute() -> None:
            asked = {"Cmd": ["sh", "-c", TALK], "AttachStdout": True}
            made = daemon.request("POST", f"/containers/{talker}/exec", asked).json()["Id"]
            self.connection().send_request("POST", f"/exec/{made}/start", {}, UPGRADE)

        def get(path: str) -> Callable[[], None]:
            return lambda: self.connection().send_request("GET", path)

        def attach() -> None:
            target = f"/containers/{talker}/attach?stream=1&stdin=1&stdout=1&logs=1"
            self.connection().send_request("POST", target, None, UPGRADE)

        def pull() -> None:
            self.connection().send_request("POST", "/images/create?fromImage=127.0.0.1:1/nobody/here&tag=1")

        return [
            get(f"/containers/{talker}/logs?follow=1&stdout=1"),
            get("/events?since=1"),
            get(f"/containers/{talker}/stats"),
            get(f"/containers/{talker}/export"),
            get(f"/containers/{talker}/archive?path=/bin"),
            get("/images/get?names=busybox"),
            lambda: self.connection().send_request("POST", f"/containers/{talker}/wait"),
            attach,
            execute,
            pull,
        ]

    def unread_build(self, number: int) -> None:
        """A build that says much, to nobody."""
        body = building.context({"Dockerfile": f"FROM busybox\nRUN : {form.SEED} {number}; {LONG_TALK}\n"})
        self.connection().send_request("POST", building.request_target({}), body, building.TAR)

    def cut(self) -> None:
        """Hijacked connections that end anyhow: at once, half closed, in the middle of a word, without reading."""
        chosen = form.source("cuts")
        for _ in range(CUTS):
            with self._daemon.connection() as connection:
                target = f"/containers/{self._talker}/attach?stream=1&stdin=1&stdout=1&logs={chosen.randint(0, 1)}"
                connection.send_request("POST", target, None, UPGRADE)
                if chosen.random() < 0.5:
                    connection.read_head()
                if chosen.random() < 0.5:
                    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                        connection.send(b"x" * chosen.randint(1, 5000))
                if chosen.random() < 0.3:
                    with contextlib.suppress(OSError):
                        connection.socket.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def hostile(daemon: Daemon, talker: str) -> Iterator[Crowd]:
    """The crowd, while it is there."""
    crowd, stop = Crowd(daemon, talker), threading.Event()
    dripping = threading.Thread(target=crowd.slow_head, args=(stop,))
    dripping.start()
    try:
        for _ in range(IDLE):
            crowd.idle()
        for route in ROUTES:
            for _ in range(BODIES):
                crowd.unsent_body(route.method, route.pattern)
        for begin in crowd.unread():
            for _ in range(NON_READERS):
                begin()
        for number in range(BUILDS):
            crowd.unread_build(number)
        yield crowd
    finally:
        stop.set()
        dripping.join()
        crowd.close()


def others_work(daemon: Daemon) -> None:
    """A client that means well gets what it wants meanwhile."""
    assert daemon.run("echo", "well").stdout == b"well\n"
    assert daemon.request("GET", "/images/json").status == 200


def test_whoever_they_are_the_daemon_answers_and_nothing_of_them_stays(alone: Daemon) -> None:
    """Threads, descriptors and memory are what they were before they came; a second crowd leaves no more than one."""
    daemon = alone
    talker = daemon.create("sh", "-c", LONG_TALK, name="talker", OpenStdin=True)
    daemon.begin(talker)
    warm_up(daemon, talker)
    untouched = weights.weigh(daemon)
    if form.FULL:
        with hostile(daemon, talker):
            others_work(daemon)
        rested(daemon, untouched)
    quiet = pings(daemon, PINGS)
    before = weights.weigh(daemon)
    with hostile(daemon, talker) as crowd:
        cutting = threading.Thread(target=crowd.cut)
        cutting.start()
        noisy = pings(daemon, PINGS)
        others_work(daemon)
        cutting.join()
        during = weights.weigh(daemon)
    after = rested(daemon, before)
    print(
        f"seed {form.SEED}: _ping took {statistics.median(quiet) * 1e3:.1f} ms, in one of a hundred more than"
        f" {p99(quiet) * 1e3:.1f}; beside {during.descriptors - before.descriptors} descriptors of hostile clients"
        f" {statistics.median(noisy) * 1e3:.1f} and {p99(noisy) * 1e3:.1f}; the daemon had {before.threads} threads,"
        f" {before.descriptors} descriptors and {before.memory / 1e6:.1f} MB before, {during.threads},"
        f" {during.descriptors} and {during.memory / 1e6:.1f} with them, {after.threads}, {after.descriptors} and"
        f" {after.memory / 1e6:.1f} after, and {untouched.memory / 1e6:.1f} MB before any of them"
    )
    assert during.threads >= IDLE
    most = MOST_P99_SECONDS if form.FULL else TIMES * p99(quiet) + GRACE_SECONDS
    assert p99(noisy) <= most
    assert after.threads <= before.threads + 1
    assert after.descriptors <= before.descriptors + 2
    assert after.memory <= before.memory * GROWTH + NOISE_BYTES
    assert after.memory <= untouched.memory + MOST_KEPT_BYTES
    assert daemon.inspect(talker)["State"]["Running"]
    assert [each["Id"] for each in daemon.request("GET", "/containers/json?all=1").json()] == [talker]


def warm_up(daemon: Daemon, talker: str) -> None:
    """What is loaded with the first call of a kind is loaded before anything is weighed."""
    with hostile_few(daemon, talker):
        others_work(daemon)
    rested(daemon, None)


@contextlib.contextmanager
def hostile_few(daemon: Daemon, talker: str) -> Iterator[None]:
    """One client of each kind."""
    crowd = Crowd(daemon, talker)
    try:
        for begin in crowd.unread():
            begin()
        crowd.unread_build(-1)
        for route in ROUTES:
            crowd.unsent_body(route.method, route.pattern)
        yield
    finally:
        crowd.close()


def rested(daemon: Daemon, before: weights.Weight | None) -> weights.Weight:
    """What `weigh` returns once the background has come to its end: the process weighs what it did, or time is up."""
    end, last = time.monotonic() + REST_SECONDS, None
    while True:
        containers = len(daemon.request("GET", "/containers/json?all=1").json())
        now = weights.weigh(daemon)
        if before is None:
            settled = containers == 1 and last is not None and now.threads == last.threads
        else:
            settled = now.threads <= before.threads and now.descriptors <= before.descriptors
        if settled or time.monotonic() > end:
            return now
        last = now
        time.sleep(0.3)
