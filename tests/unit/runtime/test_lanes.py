"""Work in lanes: side by side, in order within one, and no thread that stays."""

import queue
import threading
import time

import pytest

from engine.daemon.runtime import lanes as module
from engine.daemon.runtime.lanes import Lanes

SECONDS = 5


def threads(name):
    """Those that work in lanes of this name."""
    return [thread for thread in threading.enumerate() if thread.name == name]


@pytest.fixture
def done():
    return queue.SimpleQueue()


def test_one_that_waits_holds_up_nobody_but_its_own_lane(done):
    lanes, gate = Lanes("waiting"), threading.Event()
    lanes.add("a", lambda: (gate.wait(SECONDS), done.put("a1")))
    lanes.add("a", lambda: done.put("a2"))
    lanes.add("b", lambda: done.put("b"))
    assert done.get(timeout=SECONDS) == "b" and done.empty()
    gate.set()
    assert [done.get(timeout=SECONDS) for _ in range(2)] == ["a1", "a2"]


def test_a_lane_keeps_its_order_whatever_the_others_do(done):
    lanes = Lanes("ordered")
    for number in range(100):
        for lane in "abcd":
            lanes.add(lane, lambda lane=lane, number=number: done.put((lane, number)))
    came = [done.get(timeout=SECONDS) for _ in range(400)]
    for lane in "abcd":
        assert [number for name, number in came if name == lane] == list(range(100))


def test_work_that_fails_ends_no_lane(done):
    lanes = Lanes("failing")

    def fail():
        raise ValueError("a mistake of ours")

    lanes.add("a", fail)
    lanes.add("a", lambda: done.put("a"))
    assert done.get(timeout=SECONDS) == "a"


def test_there_are_never_more_threads_than_are_allowed(done, monkeypatch):
    monkeypatch.setattr(module, "MOST", 3)
    lanes, gate = Lanes("bounded"), threading.Event()
    for lane in range(10):
        lanes.add(str(lane), lambda: (gate.wait(SECONDS), done.put("done")))
    assert len(threads("bounded")) == 3
    gate.set()
    for _ in range(10):
        done.get(timeout=SECONDS)


def test_threads_leave_when_there_is_nothing_to_do_and_come_again(done, monkeypatch):
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.05)
    lanes = Lanes("leaving")
    for _ in range(2):
        lanes.add("a", lambda: done.put("a"))
        assert done.get(timeout=SECONDS) == "a"
        latest = time.monotonic() + SECONDS
        while threads("leaving"):
            assert time.monotonic() < latest
            time.sleep(0.01)


def test_a_thread_that_is_there_is_used_again(done):
    lanes = Lanes("again")
    for _ in range(20):
        lanes.add("a", lambda: done.put(threading.current_thread()))
        done.get(timeout=SECONDS)
    assert len(threads("again")) <= 2
