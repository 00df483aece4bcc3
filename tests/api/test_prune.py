"""Pruning: what does not run goes, as far as the filters say, and what it has written is counted."""

import json
import time
from urllib.parse import quote

import pytest

from tests.harness.daemon import Daemon
from tests.harness.http import Answer

AGE = "failed to parse value as time or duration"
EXPECTS = "filter expects a duration (e.g., '24h') or a"
NO_DATE = 'parsing time "-1" as "2006-01-02": cannot parse "-1" as "2006"'


def prune(daemon: Daemon, **filters: list[str]) -> Answer:
    """The answer; a key `label_not` is `label!`."""
    asked = {name.replace("_not", "!"): values for name, values in filters.items()}
    return daemon.request("POST", f"/containers/prune?filters={quote(json.dumps(asked))}", checked=False)


def left(daemon: Daemon) -> set[str]:
    """The names of all containers."""
    return {each["Names"][0].removeprefix("/") for each in daemon.request("GET", "/containers/json?all=1").json()}


def removed(daemon: Daemon, answer: Answer, names: dict[str, str]) -> set[str]:
    """The names of what was removed; `names`: id → name."""
    assert answer.status == 200, answer
    return {names[identifier] for identifier in answer.json()["ContainersDeleted"] or ()}


def test_what_does_not_run_goes(own_daemon: Daemon) -> None:
    """Created and exited ones; running, paused and restarting ones stay. The bytes are what they have written."""
    daemon = own_daemon
    again = {"NetworkMode": "none", "RestartPolicy": {"Name": "always"}}
    made = {
        daemon.create(name="created"): "created",
        daemon.create("sh", "-c", "head -c 300000 /dev/zero >/file", name="exited"): "exited",
        daemon.create("sleep", "60", name="running"): "running",
        daemon.create("sleep", "60", name="paused"): "paused",
        daemon.create("false", name="restarting", HostConfig=again): "restarting",
    }
    for name in ("exited", "running", "paused", "restarting"):
        daemon.begin(name)
    daemon.wait("exited")
    assert daemon.request("POST", "/containers/paused/pause").status == 204
    answer = daemon.request("POST", "/containers/prune")
    assert removed(daemon, answer, made) == {"created", "exited"}
    assert 300_000 <= answer.json()["SpaceReclaimed"] < 330_000
    assert left(daemon) == {"running", "paused", "restarting"}
    assert daemon.request("POST", "/containers/prune").json() == {"ContainersDeleted": None, "SpaceReclaimed": 0}


def test_labels_choose(own_daemon: Daemon) -> None:
    """All that are given must be there; with `label!`, what has all of those stays."""
    daemon = own_daemon
    labels = {"none": {}, "key": {"key": ""}, "one": {"key": "1"}, "two": {"key": "2", "more": "x"}}

    def make() -> dict[str, str]:
        for each in daemon.request("GET", "/containers/json?all=1").json():
            daemon.remove(each["Id"])
        return {daemon.create(name=f"l-{name}", Labels=given): name for name, given in labels.items()}

    for filters, gone in (
        ({"label": ["key"]}, {"key", "one", "two"}),
        ({"label": ["key=1"]}, {"one"}),
        ({"label": ["key", "more=x"]}, {"two"}),
        ({"label": ["key=9"]}, set()),
        ({"label_not": ["key"]}, {"none"}),
        ({"label_not": ["key=1"]}, {"none", "key", "two"}),
        ({"label_not": ["key", "more"]}, {"none", "key", "one"}),
        ({"label": ["key"], "label_not": ["more"]}, {"key", "one"}),
    ):
        names = make()
        assert removed(daemon, prune(daemon, **filters), names) == gone, filters


def test_until_chooses(own_daemon: Daemon) -> None:
    """What was made before: an age, seconds, a date."""
    daemon = own_daemon
    names = {daemon.create(name="old"): "old"}
    time.sleep(1.1)
    middle = time.time()
    names[daemon.create(name="new")] = "new"
    assert removed(daemon, prune(daemon, until=["10h"]), names) == set()
    assert removed(daemon, prune(daemon, until=["1h30m"]), names) == set()
    assert removed(daemon, prune(daemon, until=["2001-01-01"]), names) == set()
    assert removed(daemon, prune(daemon, until=[f"{middle:.3f}"]), names) == {"old"}
    assert removed(daemon, prune(daemon, until=["2999-01-01T00:00:00Z"]), names) == {"new"}


@pytest.mark.parametrize(
    ("filters", "text"),
    [
        ('{"foo":["x"]}', "invalid filter 'foo'"),
        ('{"until":["x"]}', f'{AGE}: invalid seconds "x": invalid syntax'),
        ('{"until":["2020-13-01"]}', 'parsing time "2020-13-01": month out of range'),
        ('{"until":["-1"]}', NO_DATE),
        ('{"until":["1h","2h"]}', "more than one until filter specified"),
        ("bogus", "invalid filter"),
    ],
)
def test_bad_filters_are_refused(daemon: Daemon, filters: str, text: str) -> None:
    """With 400, and nothing is removed."""
    answer = daemon.request("POST", f"/containers/prune?filters={quote(filters)}", checked=False)
    assert (answer.status, answer.message) == (400, text)


@pytest.mark.parametrize(
    ("filters", "text"),
    [
        ('{"nosuch":["x"],"until":["x"]}', "invalid filter 'nosuch'"),
        ('{"id":["x","y"]}', "filters expect only one value"),
        ('{"unused-for":["1h","2h"]}', "filters expect only one value"),
        ('{"until":["1h"],"unused-for":["1h"]}', 'conflicting filters: "until" and "unused-for"'),
        ('{"unused-for":["-1"],"until":[]}', f'"unused-for" {EXPECTS} timestamp: {NO_DATE}'),
        ('{"until":[""]}', f'"until" {EXPECTS} timestamp: {AGE}: value is empty'),
    ],
)
def test_bad_filters_of_builds_are_refused(daemon: Daemon, filters: str, text: str) -> None:
    """In BuildKit's words, after dockerd's."""
    answer = daemon.request("POST", f"/build/prune?filters={quote(filters)}", checked=False)
    assert (answer.status, answer.message) == (400, f"failed to prune build cache: {text}")
    fine = json.dumps({"label": ["x", "y"], "until": []})
    assert daemon.request("POST", f"/build/prune?filters={quote(fine)}").status == 200
