"""Inspect and the listing keep bytes of their last answer: after every kind of change they equal what is made anew.

An answer with sizes is always made anew, so each look asks for both.
"""

import time
from collections.abc import Callable
from urllib.parse import quote

from tests.harness.daemon import Daemon

VERSIONS = ("/v1.24", "/v1.45", "/v1.51", "")
CHECK = {"Test": ["CMD-SHELL", "test ! -e /sick"], "Interval": 300_000_000, "Timeout": 2_000_000_000, "Retries": 1}


def without_sizes(entry: dict) -> dict:
    assert entry.pop("SizeRootFs") > 0
    del entry["SizeRw"]
    return entry


def inspected(daemon: Daemon, version: str, container: str) -> tuple[object, object]:
    """What is kept, and what is made anew just after it."""
    path = f"{version}/containers/{container}/json"
    kept, anew = (daemon.request("GET", path + sizes).json() for sizes in ("", "?size=1"))
    return kept, without_sizes(anew)


def listed(daemon: Daemon, version: str, container: str) -> tuple[object, object]:
    path = f"{version}/containers/json?all=1&filters=" + quote(f'{{"id":["{container}"]}}')
    (kept,), (anew,) = (daemon.request("GET", path + sizes).json() for sizes in ("", "&size=1"))
    return kept, without_sizes(anew)


def equal(ask: Callable[..., tuple[object, object]], *arguments: object) -> object:
    """The kept answer, once it equals the other one: the container may just have changed between the two."""
    until = time.monotonic() + 5
    while True:
        kept, anew = ask(*arguments)
        if kept == anew or time.monotonic() > until:
            assert kept == anew
            return kept
        time.sleep(0.02)


def looks(daemon: Daemon, container: str) -> list[object]:
    """What each form of both calls shows, checked against the same made anew.

    Only the last form that was asked for is kept. So each form is asked for from the last one to the first and back.
    """
    for version in reversed(VERSIONS):
        equal(inspected, daemon, version, container)
        equal(listed, daemon, version, container)
    return [
        found
        for version in VERSIONS
        for found in (
            equal(inspected, daemon, version, container),
            equal(listed, daemon, version, container),
        )
    ]


def test_after_every_change_the_kept_answer_is_the_one_that_is_made_anew(own_daemon: Daemon) -> None:
    daemon = own_daemon

    def post(path: str, body: object = None, expected: int = 204) -> dict:
        answer = daemon.request("POST", path, body)
        assert answer.status == expected, answer
        return answer.json() if answer.body else {}

    network = post("/networks/create", {"Name": "kept"}, 201)["Id"]
    one = daemon.create(
        "sleep", "600", name="kept-a", Labels={"Status": '"Up"'}, ExposedPorts={"80/tcp": {}}, HostConfig={
            "NetworkMode": "bridge", "PortBindings": {"80/tcp": [{"HostIp": "127.0.0.1", "HostPort": "0"}]}
        }
    )  # fmt: skip
    changes: tuple[tuple[str, Callable[[], object]], ...] = (
        ("rename", lambda: post(f"/containers/{one}/rename?name=kept-b")),
        ("start", lambda: daemon.begin(one)),
        ("exec", lambda: post(f"/containers/{one}/exec", {"Cmd": ["true"]}, 201)),
        ("pause", lambda: post(f"/containers/{one}/pause")),
        ("unpause", lambda: post(f"/containers/{one}/unpause")),
        ("update", lambda: post(f"/containers/{one}/update", {"RestartPolicy": {"Name": "always"}}, 200)),
        ("connect", lambda: post(f"/networks/{network}/connect", {"Container": one}, 200)),
        ("rename in a network", lambda: post(f"/containers/{one}/rename?name=kept-c")),
        ("disconnect", lambda: post(f"/networks/{network}/disconnect", {"Container": one}, 200)),
        ("untag", lambda: daemon.request("DELETE", "/images/busybox:latest?force=1")),
        ("tag again", lambda: post("/images/kept-image/tag?repo=busybox&tag=latest", None, 201)),
        ("restart", lambda: post(f"/containers/{one}/restart?t=0")),
        ("stop", lambda: post(f"/containers/{one}/stop?t=0")),
        ("start again", lambda: daemon.begin(one)),
        ("kill", lambda: post(f"/containers/{one}/kill")),
    )
    post("/images/busybox/tag?repo=kept-image", None, 201)
    former = looks(daemon, one)
    for what, change in changes:
        change()
        now = looks(daemon, one)
        assert now != former, f"{what} has changed nothing"
        former = now
    daemon.remove(one)
    assert daemon.request("GET", f"/containers/{one}/json").status == 404
    assert daemon.request("GET", "/containers/json?all=1").json() == []


def test_names_by_links_and_health_are_those_of_the_moment(own_daemon: Daemon) -> None:
    daemon = own_daemon
    one = daemon.create("sleep", "600", name="kept-one", Healthcheck=CHECK, HostConfig={"NetworkMode": "bridge"})
    daemon.begin(one)
    assert looks(daemon, one)
    two = daemon.create("sleep", "600", name="kept-two", HostConfig={"NetworkMode": "bridge", "Links": [f"{one}:db"]})
    assert "/kept-two/db" in looks(daemon, one)[-1]["Names"]
    daemon.begin(two)
    assert daemon.request("POST", f"/containers/{one}/rename?name=kept-other").status == 204
    assert looks(daemon, two)[-2]["HostConfig"]["Links"] == ["/kept-other:/kept-two/db"]
    for command, word in (("touch /sick", "unhealthy"), ("rm /sick", "healthy")):
        made = daemon.request("POST", f"/containers/{one}/exec", {"Cmd": ["sh", "-c", command]}).json()["Id"]
        assert daemon.request("POST", f"/exec/{made}/start", {"Detach": True}).status == 200
        until = time.monotonic() + 20
        while daemon.request("GET", "/containers/json").json()[1]["Health"]["Status"] != word:
            assert time.monotonic() < until
            time.sleep(0.02)
        status = daemon.request("GET", "/containers/json").json()[1]["Status"]
        assert status.endswith(f"({word})")
    daemon.remove(two)
    assert looks(daemon, one)[-1]["Names"] == ["/kept-other"]


def test_a_status_goes_on_with_the_time_though_nothing_else_changes(own_daemon: Daemon) -> None:
    own_daemon.begin(own_daemon.create("sleep", "600"))

    def status() -> str:
        return str(own_daemon.request("GET", "/containers/json").json()[0]["Status"])

    first, until = status(), time.monotonic() + 10
    while status() == first:
        assert time.monotonic() < until
        time.sleep(0.1)
