"""Work for later: done once, at its time, in order, and not at all when it was dropped."""

import queue
import threading
import time

import pytest

from engine.daemon.runtime.schedule import Schedule

SECONDS = 30


@pytest.fixture
def done():
    """What was done, in order."""
    return queue.SimpleQueue()


@pytest.mark.alone
def test_work_is_done_at_its_time_with_its_arguments(done):
    """Neither at once nor late."""
    began = time.monotonic()
    Schedule().at(0.05, done.put, "a")
    assert done.get(timeout=SECONDS) == "a"
    assert 0.05 <= time.monotonic() - began < 1


def test_the_earliest_is_first_whatever_was_added_first(done):
    """A later addition that is due earlier wakes the thread."""
    schedule = Schedule()
    last = schedule.at(60, done.put, "last")
    time.sleep(0.02)  # so that the thread sleeps by then; where it does not, the test is only easier
    schedule.at(0.05, done.put, "first")
    assert done.get(timeout=SECONDS) == "first"
    assert last.cancel()


def test_what_is_due_at_once_keeps_its_order(done):
    """A delay of nothing, or less than nothing, is the end of the queue of what is due."""
    schedule = Schedule()
    gate = threading.Event()
    schedule.at(0, gate.wait, SECONDS)
    for number in range(20):
        schedule.at(0, done.put, number)
    gate.set()
    assert [done.get(timeout=SECONDS) for _ in range(20)] == list(range(20))


def test_dropped_work_is_not_done(done):
    """And only the first cancel says that it dropped something."""
    schedule = Schedule()
    gate = threading.Event()
    schedule.at(0, gate.wait, SECONDS)  # the thread is busy with it while the others fall due
    dropped = [schedule.at(0, done.put, "dropped") for _ in range(5)]
    kept = schedule.at(0.01, done.put, "kept")
    assert [handle.cancel() for handle in dropped] == [True] * 5
    assert not dropped[0].cancel()
    gate.set()
    assert done.get(timeout=SECONDS) == "kept"
    assert not kept.cancel()
    assert done.empty()


def test_work_that_fails_ends_nothing_else(done, caplog):
    """It is logged, and the next piece is done."""
    schedule = Schedule()
    schedule.at(0, lambda: 1 // 0)
    schedule.at(0.01, done.put, "after")
    assert done.get(timeout=SECONDS) == "after"
    assert "scheduled work failed" in caplog.text


def test_work_may_schedule_its_own_next_time(done):
    """A probe does so, from the schedule's own thread."""
    schedule = Schedule()

    def again(left: int) -> None:
        done.put(left)
        if left:
            schedule.at(0.001, again, left - 1)

    schedule.at(0, again, 3)
    assert [done.get(timeout=SECONDS) for _ in range(4)] == [3, 2, 1, 0]


def test_a_schedule_without_work_has_no_thread():
    """An idle daemon pays nothing."""
    before = set(threading.enumerate())
    Schedule()
    assert not set(threading.enumerate()) - before


def test_a_delay_of_centuries_is_no_error(done):
    """The longest wait that the interpreter takes is shorter than what a client may ask for."""
    schedule = Schedule()
    handle = schedule.at(1e12, done.put, "never")
    schedule.at(0, done.put, "now")
    assert done.get(timeout=SECONDS) == "now"
    assert handle.cancel()


def test_it_waits_as_long_as_there_is_work_or_some_is_being_done():
    """Which keeps a daemon awake."""
    schedule, begun, go = Schedule(), threading.Event(), threading.Event()
    assert not schedule.waits
    later = schedule.at(60, print)
    assert schedule.waits
    assert later.cancel()
    assert not schedule.waits

    def work():
        begun.set()
        go.wait(SECONDS)

    schedule.at(0, work)
    assert begun.wait(SECONDS)
    assert schedule.waits
    go.set()
    end = time.monotonic() + SECONDS
    while schedule.waits:
        assert time.monotonic() < end
