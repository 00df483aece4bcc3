"""How many layers travel at once: nobody is let in above the bound, and who is cancelled waits no longer."""

import threading

import pytest

from engine.daemon.images.registry.atonce import Turns
from engine.errors import SystemFailure

SECONDS = 30


def test_a_thread_waits_until_another_has_had_its_turn():
    turns, inside, leave, entered = Turns(), threading.Event(), threading.Event(), []

    def work(number):
        with turns.turn(1, lambda: None):
            entered.append(number)
            inside.set()
            assert leave.wait(SECONDS)

    first = threading.Thread(target=work, args=(1,))
    first.start()
    assert inside.wait(SECONDS)
    second = threading.Thread(target=work, args=(2,))
    second.start()
    second.join(0.05)
    assert entered == [1]
    leave.set()
    first.join(SECONDS)
    second.join(SECONDS)
    assert entered == [1, 2]


def test_who_waits_is_cancelled():
    turns = Turns()

    def cancelled():
        raise SystemFailure("context canceled")

    with turns.turn(1, lambda: None):
        with pytest.raises(SystemFailure):
            with turns.turn(1, cancelled):
                pass
    with turns.turn(1, cancelled):
        pass


def test_no_bound_is_none():
    turns = Turns()
    with turns.turn(1, lambda: None), turns.turn(0, lambda: None), turns.turn(0, lambda: None):
        pass
