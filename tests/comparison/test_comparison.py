"""The parts of the comparison that need no daemon: sequences, what counts as a difference, the table."""

import itertools
import json
from random import Random

import pytest

from tests.comparison import comparing, containers, inside
from tests.comparison.differences import DIFFERENCES, MOST
from tests.comparison.run import STORIES
from tests.comparison.step import Step
from tests.harness.http import Answer
from tests.replay.compare import Departure

JSON = {"content-type": "application/json"}
LOOK = Step("GET", "/containers/x/json")


def answer(body: object, status: int = 200) -> Answer:
    """An answer of JSON."""
    return Answer(status, JSON, json.dumps(body).encode())


@pytest.mark.parametrize("story", dict.fromkeys(STORIES))
def test_a_sequence_is_that_of_its_seed(story) -> None:
    """The same seed has the same calls, another one others; each is a whole call."""
    first, again, other = (
        list(itertools.chain.from_iterable(story(Random(f"{seed}/{n}"), "c1") for n in range(9))) for seed in "aab"
    )
    assert first == again != other
    assert all(step.path.startswith("/") and step.method.isupper() for step in first)


def test_every_verb_and_field_is_tried() -> None:
    """No field of create is left out of a thousand, and no verb of a hundred sequences."""
    made = [containers.created(Random(number), "c")[0] for number in range(1000)]
    tried = {name for body in made for name in body["HostConfig"]}
    assert tried >= {name for body in containers.bodies() for name in body.get("HostConfig", ())}
    asked = [step for number in range(100) for step in containers.story(Random(number), "c")]
    assert {step.path.partition("?")[0].rpartition("/")[2] for step in asked} >= {
        "exec",
        "archive",
        "update",
        "pause",
        "kill",
        "prune",
    }


@pytest.mark.parametrize(
    ("theirs", "ours", "what"),
    [
        (answer({"a": 1}), answer({"a": 1}, 201), "status"),
        (answer({"a": 1}), answer({"a": 2}), "value"),
        (answer({"a": 1}), answer({"a": "1"}), "type"),
        (answer({"a": True}), answer({"a": 1}), "type"),
        (answer({"a": 1}), answer({}), "missing"),
        (answer({}), answer({"a": None}), "extra"),
        (answer({"a": [1]}), answer({"a": [1, 2]}), "length"),
        (answer({"a": [1, 2]}), answer({"a": [2, 1]}), "value"),
        (answer({"message": "no such x"}, 404), answer({"message": "no such y"}, 404), "value"),
        (answer({}), Answer(200, {"content-type": "text/plain"}, b"{}"), "content-type"),
        (Answer(200, {}, b"a"), Answer(200, {}, b"b"), "text"),
    ],
)
def test_a_difference_is_found(theirs: Answer, ours: Answer, what: str) -> None:
    """Of each kind."""
    assert what in {found.what for found in comparing.departures(LOOK, theirs, ours)}


def test_what_differs_from_run_to_run_does_not_count() -> None:
    """Ids, times, addresses of devices, and the order of what has none."""
    theirs = {"Id": "a" * 64, "At": "2026-11-29T10:00:00.5Z", "On": "02:42:ac:11:00:02", "Aliases": ["x", "y"]}
    ours = {"Id": "b" * 64, "At": "2026-11-29T10:00:01Z", "On": "02:42:ac:11:00:03", "Aliases": ["y", "x"]}
    assert not comparing.departures(LOOK, answer(theirs), answer(ours))


def test_what_two_containers_see_is_compared_by_section() -> None:
    """A line that one of them has alone is a difference; a mount's number is none."""
    theirs = "@@ mounts\n12 11 0:33 / /proc rw - proc proc rw\n@@ place\n/\n"
    assert not list(inside.departures(theirs, theirs.replace("12 11 0:33", "40 39 0:50")))
    assert [found.where for found in inside.departures(theirs, theirs.replace("/proc rw", "/proc ro"))] == [
        "mounts"
    ] * 2
    assert [found.what for found in inside.departures(theirs, "")] == ["output"]


def test_the_table_is_short_and_has_reasons() -> None:
    """At most forty rows, each with a reason in words, and none that means everything."""
    assert len(DIFFERENCES) <= MOST
    assert all(len(row.reason.split()) > 3 for row in DIFFERENCES)
    anything = Departure("status", "somewhere", "200, ours 500")
    assert not any(row.covers("GET /containers/x/json", anything) for row in DIFFERENCES)
