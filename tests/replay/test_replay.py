"""Each call of the transcript that belongs to the engine's endpoints, compared with what a current dockerd answered."""

import re
from collections.abc import Iterator

import pytest

from tests.api.archives import docker_archive
from tests.harness import rootfs
from tests.harness.http import Answer
from tests.replay.compare import Departure, departures
from tests.replay.differences import DIFFERENCES, Meant
from tests.replay.script import Call, Replay, calls

CALLS = calls()
DEFAULTS = {"Cmd": ["/bin/sh"], "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]}
TAGS = ["busybox:latest", "busybox:glibc"]


@pytest.fixture(scope="module")
def answers(world) -> Iterator[dict[int, Answer]]:
    """Our answer to every call, by its number; asked once, in order, of a daemon that stands as the recording's did."""
    daemon = world.daemon().start()
    archive = docker_archive([rootfs.busybox()], TAGS, **DEFAULTS)
    daemon.request("POST", "/images/load", archive, {"Content-Type": "application/x-tar"})
    replay = Replay(daemon)
    yield {call.number: replay.send(call) for call in CALLS}
    daemon.close()


def covers(row: Meant, call: Call, found: Departure) -> bool:
    """Whether a row of the table means this departure."""
    here = not row.calls or call.number in row.calls
    return here and row.what == found.what and re.fullmatch(row.where, found.where) is not None


def name_of(call: Call) -> str:
    """How the test of one call is called."""
    return f"{call.number} {call.method} {call.path.split('?')[0][:40]} {call.note}".strip()


@pytest.mark.parametrize("call", CALLS, ids=name_of)
def test_an_answer_is_dockerds(answers: dict[int, Answer], call: Call) -> None:
    """Nothing differs but what the table says is meant to."""
    found = departures(call, answers[call.number])
    unmeant = [departure for departure in found if not any(covers(row, call, departure) for row in DIFFERENCES)]
    assert not unmeant, "\n".join(f"{one.what} {one.where}: {one.how}" for one in unmeant)


def test_every_row_of_the_table_is_needed(answers: dict[int, Answer]) -> None:
    """A difference that is gone must not stay excused."""
    found = [(call, one) for call in CALLS for one in departures(call, answers[call.number])]
    unneeded = [row for row in DIFFERENCES if not any(covers(row, call, one) for call, one in found)]
    assert not unneeded, "\n".join(map(str, unneeded))


def test_every_reason_is_words() -> None:
    """A table of reasons, not of excuses without one."""
    assert all(len(row.reason.split()) > 3 for row in DIFFERENCES)
