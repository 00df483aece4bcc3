"""Each call of the transcript that belongs to the engine's endpoints, compared with what a current dockerd answered."""

import json
import re
from collections.abc import Iterator

import pytest

from tests.api.archives import docker_archive
from tests.harness import rootfs, schema
from tests.harness.http import Answer
from tests.replay.compare import Departure, departures
from tests.replay.differences import DIFFERENCES, EVENTS, OTHER_EVENTS, OWN_DEFAULTS, Meant
from tests.replay.script import ENDLESS, Call, Replay, calls
from tests.replay.script import EVENTS as EVENTS_CALL

CREATED = 112  # inspect of a container that was made with the least
CALLS = calls()
IMPORTED = {"comment": "Imported from -", "created": "2026-11-20T05:26:10.775212621Z"}
DEFAULTS = {"Cmd": ["/bin/sh"], "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]}
TAGS = ["busybox:latest", "busybox:glibc"]


@pytest.fixture(scope="module")
def answers(world) -> Iterator[dict[int, Answer]]:
    """Our answer to every call, by its number; asked once, in order, of a daemon that stands as the recording's did."""
    daemon = world.daemon(machine=world.machine()).start()
    archive = docker_archive([rootfs.busybox()], TAGS, DEFAULTS, IMPORTED)
    daemon.request("POST", "/images/load", archive, {"Content-Type": "application/x-tar"})
    replay = Replay(daemon)
    yield {call.number: replay.send(call) for call in CALLS}
    daemon.close()


def test_the_whole_transcript_is_asked(answers: dict[int, Answer]) -> None:
    """No call is left out, and of the answers few, if any, have another status."""
    assert [call.number for call in CALLS] == list(range(1, 310)) == list(answers)
    assert all(answers[call.number].status == call.status for call in CALLS)


def covers(row: Meant, call: Call, found: Departure) -> bool:
    """Whether a row of the table means this departure."""
    here = call.number in row.calls
    same_kind = re.fullmatch(row.what, found.what) is not None
    return here and same_kind and re.fullmatch(row.where, found.where) is not None


def name_of(call: Call) -> str:
    """How the test of one call is called."""
    return f"{call.number} {call.method} {call.path.split('?')[0][:40]} {call.note}".strip()


@pytest.mark.parametrize("call", CALLS, ids=name_of)
def test_an_answer_is_dockerds(answers: dict[int, Answer], call: Call) -> None:
    """Nothing differs but what the table says is meant to."""
    found = departures(call, answers[call.number])
    unmeant = [departure for departure in found if not any(covers(row, call, departure) for row in DIFFERENCES)]
    assert not unmeant, "\n".join(f"{one.what} {one.where}: {one.how}" for one in unmeant)


@pytest.mark.parametrize("call", CALLS, ids=name_of)
def test_an_answer_is_as_the_definition_says(answers: dict[int, Answer], call: Call) -> None:
    """The same answers against the schemas of the API."""
    if call.number not in ENDLESS:
        schema.check(call.method, call.path, answers[call.number])


def test_the_defaults_of_a_container_are_dockerds(answers: dict[int, Answer]) -> None:
    """What a client did not say reads back with docker's values, but for those that the table names."""
    (call,) = (call for call in CALLS if call.number == CREATED)
    ours = answers[CREATED].json()
    for part in ("HostConfig", "State"):
        for field, value in call.wanted[part].items():
            assert ours[part][field] == value or f"{part}.{field}" in OWN_DEFAULTS, f"{part}.{field}"


def told(stream: str) -> dict[str, set[tuple[str, ...]]]:
    """What happened to each container: action and attributes' names, without the probes of its health."""
    found: dict[str, set[tuple[str, ...]]] = {}
    probes = {"health_status: healthy"}
    for event in map(json.loads, stream.splitlines()):
        action, attributes = event["Action"], event["Actor"]["Attributes"]
        if action.endswith(": /bin/sh -c true"):
            probes.add(attributes["execID"])
        if event["Type"] == "container" and not probes & {action, attributes.get("execID")}:
            found.setdefault(event["Actor"]["ID"], set()).add((action, *attributes))
    return found


def test_the_events_of_containers_are_dockerds(answers: dict[int, Answer]) -> None:
    """Every verb told with the same attributes in the same order, but for those that the table names."""
    (call,) = (call for call in CALLS if call.number == EVENTS_CALL)
    theirs, ours = told(call.wanted), told(answers[EVENTS_CALL].body.decode())
    made = {
        call.wanted["Id"]: answers[call.number].json()["Id"]
        for call in CALLS
        if "/containers/create" in call.path and call.status == answers[call.number].status == 201
    }
    assert len(made) > 10
    for recorded, own in made.items():
        departing = theirs[recorded] ^ ours[own]
        assert {action for action, *_ in departing} <= EVENTS.keys(), (recorded, departing)


def kinds(stream: str) -> set[tuple[str, ...]]:
    """The kinds of events of all but containers: type, action and attributes' names."""
    events = map(json.loads, stream.splitlines())
    return {
        (event["Type"], event["Action"], *event["Actor"]["Attributes"])
        for event in events
        if event["Type"] != "container"
    }


def test_the_events_of_everything_else_are_dockerds(answers: dict[int, Answer]) -> None:
    """Of networks, volumes, images and builds: the same kinds, with the same attributes in the same order."""
    (call,) = (call for call in CALLS if call.number == EVENTS_CALL)
    theirs, ours = kinds(call.wanted), kinds(answers[EVENTS_CALL].body.decode())
    assert len(theirs) > 12 and theirs <= ours
    assert {row[:2] for row in ours - theirs} <= OTHER_EVENTS.keys()


def test_every_row_of_the_table_is_needed(answers: dict[int, Answer]) -> None:
    """A difference that is gone must not stay excused."""
    found = [(call, one) for call in CALLS for one in departures(call, answers[call.number])]
    unneeded = [row for row in DIFFERENCES if not any(covers(row, call, one) for call, one in found)]
    assert not unneeded, "\n".join(map(str, unneeded))


def test_every_reason_is_words() -> None:
    """A table of reasons, not of excuses without one."""
    reasons = [*EVENTS.values(), *OTHER_EVENTS.values(), *(row.reason for row in DIFFERENCES)]
    assert all(len(reason.split()) > 3 for reason in reasons)
