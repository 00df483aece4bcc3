"""Since when a daemon has nothing to do: requests, work in the background, and work that is owed."""

import threading
import time

from engine.daemon import busy
from engine.daemon.runtime import background

SECONDS = 30


def test_a_request_is_work_until_it_was_answered() -> None:
    before = busy.idle_since()
    assert before is not None
    busy.serve("GET", "/x")
    assert busy.idle_since() is None
    busy.rest()
    after = busy.idle_since()
    assert after is not None and before < after <= time.monotonic()
    busy.rest()
    assert busy.idle_since() == after, "a thread that had nothing to do has not worked"


def test_work_about_a_container_is_work() -> None:
    with busy.about("c", "an end"):
        assert busy.idle_since() is None
        with busy.about("d"):
            pass
        assert busy.idle_since() is None
    assert busy.idle_since() is not None


def test_work_for_later_is_owed_from_the_moment_on_in_which_it_is_asked_for() -> None:
    """Not only once its thread has begun; and a failure pays too."""
    go = threading.Event()

    def work() -> None:
        go.wait(SECONDS)
        raise background.EngineError("as meant")

    background.later(work)
    assert busy.idle_since() is None
    go.set()
    end = time.monotonic() + SECONDS
    while busy.idle_since() is None:
        assert time.monotonic() < end


def test_work_in_turn_is_owed_too() -> None:
    go = threading.Event()
    turn = background.Turn("turn")
    turn.add(go.wait, SECONDS)
    turn.add(go.wait, SECONDS)
    assert busy.idle_since() is None
    go.set()
    end = time.monotonic() + SECONDS
    while busy.idle_since() is None:
        assert time.monotonic() < end
