"""GET /containers/json: which containers, in which order, with every filter."""

import json
from collections.abc import Callable, Iterator
from typing import NamedTuple
from urllib.parse import quote

import pytest

from tests.harness.daemon import Daemon


class Three(NamedTuple):
    """Three containers: one only created, one running, one ended with 3."""

    created: str
    runs: str
    ended: str


@pytest.fixture(scope="module")
def three(daemon: Daemon, busybox: str) -> Iterator[Three]:
    """The three, made in this order."""
    made = Three(
        daemon.create("true", name="list-created", Labels={"list": "1", "k": "v"}),
        daemon.create(
            "sleep",
            "600",
            name="list-runs",
            Labels={"list": "1", "k": "w"},
            ExposedPorts={"80/tcp": {}, "53/udp": {}},
            HostConfig={"NetworkMode": "bridge"},
        ),
        daemon.create("sh", "-c", "exit 3", name="list-ended", Labels={"list": "1"}),
    )
    daemon.begin(made.runs)
    daemon.begin(made.ended)
    daemon.wait(made.ended)
    yield made
    for identifier in made:
        daemon.remove(identifier)


def listed(daemon: Daemon, query: str = "", **filters: list[str]) -> list[str]:
    """The ids of the answer, of our three only, in order."""
    filters.setdefault("label", []).append("list=1")
    answer = daemon.request("GET", f"/containers/json?{query}&filters={quote(json.dumps(filters))}")
    assert answer.status == 200, answer
    return [entry["Id"] for entry in answer.json()]


def test_only_what_runs_is_listed_by_default(daemon: Daemon, three: Three) -> None:
    """`all` takes the rest, the newest first."""
    assert listed(daemon) == [three.runs]
    assert listed(daemon, "all=1") == [three.ended, three.runs, three.created]
    assert listed(daemon, "all=true") == [three.ended, three.runs, three.created]
    assert listed(daemon, "all=0") == [three.runs]


def test_limit_takes_the_newest_of_all(daemon: Daemon, three: Three) -> None:
    """Also without `all`; 0 is no limit."""
    assert listed(daemon, "limit=2") == [three.ended, three.runs]
    assert listed(daemon, "all=1&limit=0") == [three.ended, three.runs, three.created]


FILTERS = [
    ({"status": ["created"]}, "created"),
    ({"status": ["running"]}, "runs"),
    ({"status": ["exited"]}, "ended"),
    ({"status": ["exited", "running"]}, "ended runs"),
    ({"exited": ["3"]}, "ended"),
    ({"exited": ["0"]}, ""),
    ({"name": ["list-cr"]}, "created"),
    ({"name": ["/list-runs"]}, "runs"),
    ({"name": ["^/?list-(runs|ended)$"]}, "ended runs"),
    ({"name": ["nothing"]}, ""),
    ({"label": ["k"]}, "runs created"),
    ({"label": ["k=v"]}, "created"),
    ({"label": ["k=v", "k=w"]}, ""),
    ({"ancestor": ["busybox"]}, "ended runs created"),
    ({"ancestor": ["busybox:latest"]}, "ended runs created"),
    ({"ancestor": ["nope"]}, ""),
    ({"expose": ["80"]}, "runs"),
    ({"expose": ["53/udp"]}, "runs"),
    ({"expose": ["80-90/tcp"]}, "runs"),
    ({"expose": ["81"]}, ""),
    ({"publish": ["80"]}, ""),
    ({"network": ["none"]}, "ended created"),
    ({"network": ["bridge"]}, "runs"),
    ({"network": ["host"]}, ""),
    ({"volume": ["x"]}, ""),
    ({"health": ["none"]}, "ended runs created"),
    ({"health": ["healthy"]}, ""),
    ({"is-task": ["false"]}, "ended runs created"),
    ({"is-task": ["true"]}, ""),
    ({"isolation": ["default"]}, "ended runs created"),
    ({"before": ["list-runs"]}, "created"),
    ({"since": ["list-runs"]}, "ended"),
    ({"since": ["list-created"], "status": ["running"]}, "runs"),
]


@pytest.mark.parametrize(("filters", "wanted"), FILTERS, ids=[json.dumps(filters) for filters, _ in FILTERS])
def test_a_filter_chooses(daemon: Daemon, three: Three, filters: dict, wanted: str) -> None:
    """Values of one key are alternatives (labels: all of them), keys must all fit."""
    names = {identifier: name for name, identifier in three._asdict().items()}
    copy = {key: list(values) for key, values in filters.items()}
    assert " ".join(names[identifier] for identifier in listed(daemon, "all=1", **copy)) == wanted


def test_only_the_status_filter_lists_what_does_not_run(daemon: Daemon, three: Three) -> None:
    """`since` and `before` choose among what is listed anyway; `all` and `limit` take the rest."""
    assert listed(daemon, since=["list-created"]) == [three.runs]
    assert listed(daemon, since=["list-runs"]) == listed(daemon, before=["list-runs"]) == []
    assert listed(daemon, before=["list-ended"]) == [three.runs]
    assert listed(daemon, "since=list-created") == [three.runs]
    assert listed(daemon, "limit=1", since=["list-runs"]) == [three.ended]
    assert listed(daemon, before=["list-runs"], status=["created"]) == [three.created]


def test_the_id_filter_takes_prefixes(daemon: Daemon, three: Three) -> None:
    """Of any length."""
    assert listed(daemon, "all=1", id=[three.ended[:10]]) == [three.ended]
    assert listed(daemon, "all=1", id=[three.ended, three.created]) == [three.ended, three.created]


def test_the_old_form_of_filters_is_read(daemon: Daemon, three: Three) -> None:
    """{"status": {"created": true}}, as older clients send it."""
    filters = quote(json.dumps({"status": {"created": True}, "label": {"list=1": True}}))
    answer = daemon.request("GET", f"/containers/json?filters={filters}")
    assert [entry["Id"] for entry in answer.json()] == [three.created]


@pytest.mark.parametrize(
    ("filters", "text"),
    [
        ("{bad", "invalid filter"),
        ("[]", "invalid filter"),
        ('{"a": 1}', "invalid filter"),
        ('{"nope": ["x"]}', "invalid filter 'nope'"),
        (
            '{"status": ["weird"]}',
            "invalid filter 'status=weird': invalid value for state (weird): "
            "must be one of created, running, paused, restarting, removing, exited, dead",
        ),
    ],
)
def test_a_bad_filter_is_refused(daemon: Daemon, filters: str, text: str) -> None:
    """In the transcript's words."""
    answer = daemon.request("GET", f"/containers/json?filters={quote(filters)}")
    assert (answer.status, answer.message) == (400, text)


def test_a_filter_on_a_container_that_is_not_there(daemon: Daemon) -> None:
    """before and since name a container; exited a number."""
    for filters in ('{"before": ["nope"]}', '{"since": ["nope"]}'):
        answer = daemon.request("GET", f"/containers/json?filters={quote(filters)}")
        assert (answer.status, answer.message) == (404, "No such container: nope")
    filters = quote('{"exited": ["x"]}')
    assert daemon.request("GET", f"/containers/json?filters={filters}").status == 400


def test_a_row_says_what_the_container_is(daemon: Daemon, three: Three) -> None:
    """State in one word, status in a sentence."""
    filters = quote(json.dumps({"label": ["list=1"]}))
    rows = {row["Id"]: row for row in daemon.request("GET", f"/containers/json?all=1&filters={filters}").json()}
    runs, ended, created = rows[three.runs], rows[three.ended], rows[three.created]
    assert (created["State"], created["Status"]) == ("created", "Created")
    assert runs["State"] == "running" and runs["Status"].startswith("Up ")
    assert ended["State"] == "exited" and ended["Status"].startswith("Exited (3) ")
    assert runs["Names"] == ["/list-runs"]
    assert runs["Command"] == "sleep 600"
    assert runs["Image"] == "busybox"
    assert runs["ImageID"].startswith("sha256:")
    assert {(port["PrivatePort"], port["Type"]) for port in runs["Ports"]} == {(80, "tcp"), (53, "udp")}
    assert "SizeRw" not in runs


def test_sizes_are_there_when_asked_for(daemon: Daemon, three: Three) -> None:
    """?size=1 in the list and in inspect."""
    filters = quote(json.dumps({"id": [three.created]}))
    (row,) = daemon.request("GET", f"/containers/json?all=1&size=1&filters={filters}").json()
    assert row["SizeRootFs"] > 1_000_000
    assert row.get("SizeRw", 0) >= 0
    body = daemon.request("GET", f"/containers/{three.created}/json?size=1").json()
    assert body["SizeRootFs"] == row["SizeRootFs"]


def test_many_containers_are_listed(daemon: Daemon, container: Callable[..., str]) -> None:
    """Fifty, in order."""
    made = [container("true", Labels={"many": "1"}) for _ in range(50)]
    filters = quote(json.dumps({"label": ["many=1"]}))
    answer = daemon.request("GET", f"/containers/json?all=1&filters={filters}")
    assert [row["Id"] for row in answer.json()] == made[::-1]
