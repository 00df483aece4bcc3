"""Clients that stop in the middle of a call, of every endpoint that there is: nobody else has to wait for them.

One that sends half a head, one that announces a body and sends none, one that reads none of an answer that streams.
They stay connected to one daemon, while others start, stop, list, prune and pull; at last the daemon is told to end.
"""

import contextlib
import itertools
import json
import re
import time
from collections.abc import Callable, Iterator

import pytest

from engine.daemon.api.routes import ROUTES
from tests.api import building
from tests.harness import rootfs
from tests.harness.daemon import Daemon
from tests.harness.http import Connection
from tests.harness.registry import Registry

SECONDS = 30.0
# Far beyond what a healthy daemon takes to end: it gives answers under way 5 seconds.
STOP_SECONDS = 30.0
LAYERS, ANSWERS = 40, 30
"""Layers of a pull, and answers before it that nobody reads: so many that what is said of the layers finds no room."""
UPGRADE = {"Connection": "Upgrade", "Upgrade": "tcp"}
# What would take away what the others need, or what is asked of all, is asked of nothing.
NOTHING = {"filters": json.dumps({"label": ["nobody.has.it"]})}
HEADERS = {"/containers/{id}/attach": UPGRADE, "/exec/{id}/start": UPGRADE}
QUERIES = {
    "/containers/{id}/attach": "stream=1&stdin=1&stdout=1&logs=1",
    "/containers/{id}/attach/ws": "stream=1&stdout=1",
    "/containers/{id}/archive": "path=/tmp",
    "/containers/{id}/rename": "name=other",
    "/images/create": "fromSrc=-&repo=stalled",
    "/commit": "container=NAME",
}


def shown(pattern: str, name: str) -> str:
    """The route's path with something in its place that is there, if it is of containers, or is not."""
    return re.sub(r"\{.*?\}", name, pattern)


def request_head(method: str, target: str, length: int, headers: dict[str, str]) -> bytes:
    """A request that announces a body."""
    fields = {"Host": "test", "Content-Type": "application/json", "Content-Length": str(length), **headers}
    lines = (f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", "")
    return "\r\n".join(lines).encode()


class Stalled:
    """All the clients that have stopped, and the containers that they have asked for."""

    def __init__(self, daemon: Daemon, stack: contextlib.ExitStack) -> None:
        self.daemon = daemon
        self.containers: list[str] = []
        self._stack = stack
        self._numbers = itertools.count()

    def connection(self) -> Connection:
        """One more client."""
        return self._stack.enter_context(self.daemon.connection(SECONDS))

    def container(self, *argv: str, running: bool = False) -> str:
        """One of the client's own."""
        name = f"stalled-{next(self._numbers)}"
        self.daemon.create(*(argv or ("sleep", "600")), name=name, OpenStdin=True)
        if running:
            self.daemon.begin(name)
        self.containers.append(name)
        return name

    def target(self, method: str, pattern: str, running: bool = False) -> str:
        """Path and query of a call of this route."""
        of_containers = pattern.startswith("/containers/{") or pattern == "/commit"
        name = self.container(running=running) if of_containers else "nobody"
        query = QUERIES.get(pattern, "").replace("NAME", name)
        if pattern.endswith("/prune"):
            query = "filters=%7B%22label%22%3A%5B%22nobody.has.it%22%5D%7D"
        path = shown(pattern, name)
        return f"{path}?{query}" if query else path

    def in_the_head(self, method: str, pattern: str) -> None:
        """A client whose head does not come to its end."""
        self.connection().send(f"{method} {shown(pattern, 'nobody')} HTTP/1.1\r\nHost: te".encode())

    def before_the_body(self, method: str, pattern: str, running: bool = False) -> str:
        """A client that announces a body; the path, once the daemon has the request."""
        target = self.target(method, pattern, running)
        self.connection().send(request_head(method, target, 20, HEADERS.get(pattern, {})))
        return target.partition("?")[0]


@pytest.fixture(scope="module")
def stalled(builder: Daemon) -> Iterator[Stalled]:
    """All of the file's, those of one test still there in the next; when the last one is over they are gone."""
    with contextlib.ExitStack() as stack:
        yield Stalled(builder, stack)


def until(reached: Callable[[], object], what: str) -> None:
    """Wait for it."""
    end = time.monotonic() + SECONDS
    while not reached():
        assert time.monotonic() < end, f"not in time: {what}"
        time.sleep(0.02)


def others_do_their_work(daemon: Daemon, containers: list[str]) -> None:
    """What must go on whoever has stopped."""
    for path in ("/containers/json?all=1", "/images/json", "/volumes", "/networks", "/system/df", "/info"):
        assert daemon.request("GET", path, timeout=SECONDS).status == 200, path
    for name in containers:
        for verb in ("start", "stop?t=0"):
            status = daemon.request("POST", f"/containers/{name}/{verb}", timeout=SECONDS).status
            assert status in (204, 304), (name, verb, status)
    for noun in ("containers", "images", "volumes", "networks", "build"):
        path = f"/{noun}/prune?filters=%7B%22label%22%3A%5B%22nobody.has.it%22%5D%7D"
        status = daemon.request("POST", path, timeout=SECONDS, checked=False).status
        assert status in (200, 400), (noun, status)
    for name in containers:
        assert daemon.request("DELETE", f"/containers/{name}?force=1", timeout=SECONDS).status == 204, name


def test_who_stops_in_a_request_holds_up_nobody(stalled: Stalled) -> None:
    """In the head and before the body, at every endpoint; attach to a container that runs, and to one that does not."""
    daemon = stalled.daemon
    for route in ROUTES:
        stalled.in_the_head(route.method, route.pattern)
    paths = [stalled.before_the_body(route.method, route.pattern) for route in ROUTES]
    paths.append(stalled.before_the_body("POST", "/containers/{id}/attach", running=True))
    waited = {path for path in paths if "nobody" not in path}
    until(lambda: all(f"{path!r}" in daemon.log for path in waited), "the requests have come")
    others_do_their_work(daemon, [name for name in stalled.containers if known(daemon, name)])


def known(daemon: Daemon, name: str) -> bool:
    """Whether there still is a container of this name: some of the calls need no body to be obeyed."""
    return daemon.request("GET", f"/containers/{name}/json").status == 200


def unread(stalled: Stalled) -> dict[str, Callable[[], object]]:
    """Route → what begins a call of it whose answer streams without an end, or is more than a socket takes."""
    daemon = stalled.daemon
    talker = stalled.container("yes", running=True)
    connect = stalled.connection

    def execute() -> None:
        body = {"Cmd": ["yes"], "AttachStdout": True}
        made = daemon.request("POST", f"/containers/{talker}/exec", body).json()["Id"]
        connect().send_request("POST", f"/exec/{made}/start", {}, UPGRADE)

    def build() -> None:
        body = building.context({"Dockerfile": "FROM busybox\nRUN --mount=type=cache,target=/c yes\n"})
        connect().send_request("POST", building.request_target({}), body, building.TAR)

    def get(path: str) -> Callable[[], object]:
        return lambda: connect().send_request("GET", path)

    websocket = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    websocket["Sec-WebSocket-Key"] = "dGhlIHNhbXBsZSBub25jZQ=="
    return {
        "/containers/{id}/logs": get(f"/containers/{talker}/logs?follow=1&stdout=1"),
        "/containers/{id}/attach": lambda: connect().send_request(
            "POST", f"/containers/{talker}/attach?stream=1&stdout=1&logs=1", None, UPGRADE
        ),
        "/containers/{id}/attach/ws": lambda: connect().send_request(
            "GET", f"/containers/{talker}/attach/ws?stream=1&stdout=1", None, websocket
        ),
        "/containers/{id}/stats": get(f"/containers/{talker}/stats"),
        "/containers/{id}/export": get(f"/containers/{talker}/export"),
        "/containers/{id}/archive": get(f"/containers/{talker}/archive?path=/bin"),
        "/containers/{id}/wait": lambda: connect().send_request("POST", f"/containers/{talker}/wait"),
        "/exec/{id}/start": execute,
        "/images/get": get("/images/get?names=busybox"),
        "/images/{name...}/get": get("/images/busybox/get"),
        "/events": get("/events?since=1"),
        "/build": build,
    }


def test_who_reads_no_answer_holds_up_nobody(stalled: Stalled) -> None:
    """Of each that streams: output, figures, archives, what a build says."""
    daemon = stalled.daemon
    begun = unread(stalled)
    assert set(begun) <= {route.pattern for route in ROUTES}
    for begin in begun.values():
        begin()
    until(lambda: len(daemon.request("GET", "/containers/json").json()) > 1, "the build's step runs")
    others_do_their_work(daemon, [stalled.container()])
    made = building.context({"Dockerfile": "FROM busybox\nRUN --mount=type=cache,target=/c true\n"})
    answer = daemon.request("POST", building.request_target({}), made, building.TAR, timeout=SECONDS, checked=False)
    assert "error" not in answer.lines[-1], answer.lines[-1]


def test_who_reads_no_progress_of_a_pull_holds_up_no_other_pull(stalled: Stalled, registry: Registry) -> None:
    """The first pull goes on too, as far as it can without telling anybody."""
    daemon = stalled.daemon
    layers = [rootfs.archive([(f"file{number}", 0o644, b"%d\n" % number)]) for number in range(LAYERS)]
    registry.push("stalled/deep:1", layers, {"Cmd": ["true"]})
    target = f"/images/create?fromImage={registry.address}/stalled/deep&tag=1"
    client = stalled.connection()
    for _ in range(ANSWERS):
        client.send_request("GET", "/info")
    client.send_request("POST", target)
    until(lambda: any((daemon.data_root / "layers").iterdir()), "the pull is under way")
    answer = daemon.request("POST", target, timeout=SECONDS, checked=False)
    assert answer.status == 200 and "error" not in answer.lines[-1], answer.lines[-1]
    others_do_their_work(daemon, [stalled.container()])


def test_a_daemon_that_is_told_to_end_ends_whoever_has_stopped(stalled: Stalled) -> None:
    """All who have stopped until now, and in any case one."""
    stalled.before_the_body("POST", "/containers/{id}/attach")
    assert stalled.daemon.stop(STOP_SECONDS) == 0
    stalled.daemon.start()
