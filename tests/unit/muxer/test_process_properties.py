"""Requests, clients, daemons and ends in any order: the spawner and its monitors do what the model says."""

import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

import _muxer

if not _muxer.built():
    pytest.skip("the C muxer is not built: python3 -m _muxer.build", allow_module_level=True)

from tests.harness.amounts import examples
from tests.unit.muxer.modelled import Program
from tests.unit.muxer.spawned import STDERR, STDOUT
from tests.unit.muxer.worlds import World, world

EXAMPLES = examples("ENGINE_TEST_EXAMPLES", 20, 8)
FEW_DESCRIPTORS = 64
Event = tuple  # a method of `World`, and what it is given

# Signals that end a process by default. A shell cannot reset those that it was started to ignore. Those that report a
# fault (SIGSEGV and the like) are left out: under the sanitizers a handler catches them.
DEADLY = [number for number in (1, 2, 3, 9, 10, 12, 14, 15, 34, 64) if signal.getsignal(number) != signal.SIG_IGN]

several = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # what is missing is waited for, too long to do that often
)

programs = st.builds(
    Program,
    out=st.sampled_from([0, 1, 3, 2000, 40_000]),  # the last is more than the pipe and the sockets hold
    err=st.sampled_from([0, 1, 3, 2000]),
    typed=st.none() | st.binary(max_size=500).map(lambda data: data.replace(b"\x10", b"")),  # a detach key
    code=st.integers(0, 255),
    signal=st.just(0) | st.sampled_from(DEADLY),
)
clients = st.lists(st.sampled_from([0, STDOUT, STDERR, STDOUT | STDERR]), max_size=3)
containers = st.tuples(st.just("start"), programs, clients, st.sampled_from([b"J", b"O"]))
execs = st.tuples(
    st.just("exec"), programs, clients, st.sampled_from([b"J", b"E"]), st.sampled_from(["newborn", "forks"])
)
failures = st.tuples(st.just("fail"), st.sampled_from([{"fails": "before"}, {"fails": "after"}, {"exec": "fails"}]))
scraps = st.sampled_from([b"{}", b"[]", b"null", b'{"script": 1', b"{" + b" " * 66_000]) | st.binary(max_size=40)
malformed = st.tuples(
    st.just("malformed"),
    st.tuples(st.sampled_from([b"O", b"E", b"J", b"\0", b"\xff"]), scraps).map(b"".join),
    st.sampled_from([0, 1, 2, 9, 100]),  # beside what else the spawner has, the last is too many where it may have few
)
numbers = st.integers(0, 9)
served = containers | containers | execs
refused = malformed | failures | st.tuples(st.just("resolve"), st.integers(0, 5))
looks = st.tuples(st.sampled_from(["look", "rest"]))
words = st.one_of(st.tuples(st.just(name), numbers) for name in ("lose", "meet", "home", "wait", "halt"))
departures = st.tuples(st.just("leave"), numbers, numbers)
ends = st.tuples(st.just("finish"), numbers, st.booleans())


def play(one: World, events: list[Event]) -> None:
    """Make all of that happen."""
    for name, *how in events:
        getattr(one, name)(*how)


@several
@given(
    spares=st.booleans(),
    nofile=st.sampled_from([0, FEW_DESCRIPTORS]),
    first=st.lists(served, min_size=1, max_size=4),
    then=st.lists(st.one_of(served, refused, looks, words, departures, ends), max_size=15),
    empty=st.booleans(),
    at_last=st.lists(st.one_of(looks, words, words, departures, ends), max_size=6),
)
@example(  # a launcher that dies, which chance leaves out too often
    spares=True,
    nofile=0,
    first=[("start", Program(40_000, 3, b"typed", 0, 15), [0, STDOUT], b"O")],
    then=[("fail", {"fails": "after"}), ("look",)],
    empty=True,
    at_last=[("lose", 0), ("meet", 0)],
)
@example(  # a short exec, whose monitor has not read yet where its record is
    spares=False,
    nofile=0,
    first=[("exec", Program(1, 1, None, 5, 0), [STDOUT], b"E", "newborn")],
    then=[("halt", 0), ("home", 0), ("finish", 0, False)],
    empty=False,
    at_last=[],
)
@example(  # what is meant for an exec has the spawner keep a spare for execs, even if it is none
    spares=True,
    nofile=0,
    first=[("start", Program(1, 1, None, 0, 0), [], b"O")],
    then=[("malformed", b"E[]", 1), ("look",)],
    empty=False,
    at_last=[],
)
def test_whatever_happens_each_request_is_answered_once_and_nothing_is_left(
    spares: bool, nofile: int, first: list[Event], then: list[Event], empty: bool, at_last: list[Event]
) -> None:
    """The daemon ends at a time, and its monitors go on."""
    with tempfile.TemporaryDirectory() as scratch, world(Path(scratch), spares, nofile) as one:
        play(one, first)
        play(one, then)
        one.end_spawner(empty)
        play(one, at_last)
