"""A long day in little time: thousands of containers, calls and lines, after which the engine weighs what it weighed.

Four clients share the work. Before it is weighed for the first time the daemon has done some of each kind of work, so
that what it loads once is loaded. The full form also holds the time of a start against the first ones, and counts what
the kernel keeps, which other processes of the machine may change: it is for a machine that does nothing else.
"""

import statistics
import threading
import time
from collections.abc import Callable

import pytest

from tests.chaos import form, weights
from tests.harness import frames
from tests.harness.daemon import Daemon

pytestmark = pytest.mark.seldom

CONTAINERS = form.short_or_full(60, 10_000)
CALLS = form.short_or_full(1_000, 100_000)
LOGGED = form.short_or_full(16 << 20, 1 << 30)  # bytes
CLIENTS = 4
WARM_UP = form.short_or_full(24, 400)  # containers before the first weighing
TIMED = 40  # starts, one after the other
REST_SECONDS = 20.0
GROWTH = 1.05
# What a weighing of one process differs by from moment to moment, whatever it has done.
NOISE_BYTES = form.short_or_full(3 << 20, 1 << 20)
CALLED = (
    "/_ping",
    "/version",
    "/info",
    "/containers/json?all=1",
    "/containers/{}/json",
    "/containers/{}/logs?stdout=1&tail=5",
    "/containers/{}/top",
    "/containers/{}/stats?stream=0&one-shot=1",
    "/containers/nobody/json",
    "/images/json",
    "/images/busybox/json",
    "/networks",
    "/volumes",
    "/system/df?type=volume",
    "/events?since=1&until=2",
)
NETWORKS = ("none", "bridge", "host", "none")


def shared_out(count: int, work: Callable[[int], None]) -> None:
    """Do `work(number)` for all numbers below `count`, by all clients at once; the first failure is raised."""
    numbers, failed = iter(range(count)), []

    def client() -> None:
        try:
            for number in numbers:
                if failed:
                    return
                work(number)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def one_life(daemon: Daemon, number: int) -> None:
    """A container from its creation to its removal, on one connection; all that it says is in its log."""
    body = {
        "Image": "busybox",
        "Cmd": ["sh", "-c", f"echo out {number}; echo err >&2; exit {number % 100}"],
        "HostConfig": {"NetworkMode": NETWORKS[number % len(NETWORKS)]},
    }
    with daemon.connection(60) as client:
        created = client.request("POST", "/containers/create", body)
        assert created.status == 201, created
        path = f"/containers/{created.json()['Id']}"
        assert client.request("POST", f"{path}/start").status == 204
        ended = client.request("POST", f"{path}/wait").json()
        assert ended["StatusCode"] == number % 100, ended
        log = client.request("GET", f"{path}/logs?stdout=1&stderr=1").body
        assert (frames.stdout(log), frames.stderr(log)) == (b"out %d\n" % number, b"err\n"), log
        removed = client.request("DELETE", path)
        assert removed.status == 204, removed


def call(daemon: Daemon, container: str, number: int) -> None:
    """Ten calls on one connection."""
    with daemon.connection(60) as client:
        for place in range(10):
            path = CALLED[(number * 10 + place) % len(CALLED)].format(container)
            answer = client.request("GET", path)
            assert answer.status == (404 if "nobody" in path else 200), (path, answer)


def talk(daemon: Daemon, size: int) -> None:
    """A container that says so many bytes in lines of a hundred, all of which are read back while it says them."""
    line = "x" * 99
    script = f"yes {line} | head -c {size}"
    container = daemon.create("sh", "-c", script, HostConfig={"NetworkMode": "none", "LogConfig": LOG})
    daemon.begin(container)
    with daemon.connection(120) as client:
        client.open_stream("GET", f"/containers/{container}/logs?stdout=1&follow=1")
        heard = sum(len(chunk) for chunk in client.chunks())
    lines = size // 100
    assert heard >= size + 8 * lines, (heard, size)
    daemon.remove(container)


LOG = {"Type": "local", "Config": {"max-size": "2g", "max-file": "1"}}


def seconds_of_a_start(daemon: Daemon) -> float:
    """The median of some, one after the other."""
    taken = []
    for _ in range(TIMED):
        container = daemon.create("true")
        begun = time.monotonic()
        daemon.begin(container)
        taken.append(time.monotonic() - begun)
        daemon.wait(container)
        daemon.remove(container)
    return statistics.median(taken)


def at_rest(daemon: Daemon, most: weights.Weight | None = None) -> weights.Weight:
    """What it weighs once nothing changes any more, and once it has no more than `most` if that comes about in time.

    Threads and descriptors that go by themselves after a while without work tell nobody.
    """
    last = weights.weigh(daemon)
    end = time.monotonic() + REST_SECONDS
    while time.monotonic() < end:
        time.sleep(0.25)
        now = weights.weigh(daemon)
        busy = most is not None and (now.threads > most.threads or now.descriptors > most.descriptors)
        if not busy and (now.threads, now.descriptors) == (last.threads, last.descriptors):
            return now
        last = now
    return last


@pytest.mark.timeout(form.short_or_full(120, 3600))
def test_a_long_day_leaves_no_mark(alone: Daemon) -> None:
    """Containers, calls and logs by the thousand: memory, descriptors, threads, and the kernel's tables as before."""
    daemon = alone
    standing = daemon.create("sleep", "86400", name="standing", HostConfig={"NetworkMode": "bridge"})
    daemon.begin(standing)
    shared_out(WARM_UP, lambda number: one_life(daemon, number))
    shared_out(len(CALLED), lambda number: call(daemon, standing, number))
    talk(daemon, LOGGED // 16)
    first = seconds_of_a_start(daemon)
    before = at_rest(daemon)
    shared_out(CONTAINERS, lambda number: one_life(daemon, number))
    shared_out(CALLS // 10, lambda number: call(daemon, standing, number))
    talk(daemon, LOGGED)
    last = seconds_of_a_start(daemon)
    after = at_rest(daemon, before)
    print(f"{CONTAINERS} containers, {CALLS} calls, {LOGGED >> 20} MB of log: before {before}, after {after}")
    print(f"a start: {first * 1000:.2f} ms at first, {last * 1000:.2f} ms at last")
    assert after.memory <= before.memory * GROWTH + NOISE_BYTES, (before, after)
    assert after.descriptors <= before.descriptors, (before, after)
    assert after.threads <= before.threads, (before, after)
    if form.FULL:
        assert last <= first * GROWTH, (first, last)
        assert after.slab <= before.slab * GROWTH, (before, after)
        assert after.namespaces <= before.namespaces * GROWTH, (before, after)
        assert after.cgroups <= before.cgroups, (before, after)
    assert [each["Id"] for each in daemon.request("GET", "/containers/json?all=1").json()] == [standing]
    assert "Traceback" not in daemon.log
