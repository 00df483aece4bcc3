"""The loop calls who is due, forgets who was dropped, and goes on after a failure as long as it is told to."""

import os

import pytest

from engine.resolver.loop import Loop


def test_times_come_in_their_order_and_only_the_latest_wish_counts():
    loop, called = Loop(lambda: True), []

    def first() -> None:
        called.append("first")

    def second() -> None:
        called.append("second")
        loop.ended = True

    loop.after(0.02, second)
    loop.after(30.0, first)
    loop.after(0.0, first)
    assert loop.waits_for(first)
    loop.run()
    assert called == ["first", "second"]
    assert not loop.waits_for(first)


def test_what_was_dropped_is_not_called_though_it_was_ready():
    loop, called = Loop(lambda: True), []
    pipes = [os.pipe() for _ in range(2)]
    ends = [reading for reading, _ in pipes]

    def heard(_events: int) -> None:
        called.append(1)
        for end in ends:
            loop.drop(end)

    for reading, writing in pipes:
        os.write(writing, b"x")
        loop.add(reading, heard)
    loop.after(0.0, lambda: setattr(loop, "ended", True))
    loop.run()
    assert called == [1]
    for end in (end for pipe in pipes for end in pipe):
        os.close(end)


def test_a_failure_is_told_and_ends_the_loop_when_it_is_said_to():
    told = []
    loop = Loop(lambda: told.append(1) or len(told) == 3)

    def fail() -> None:
        loop.after(0.0, fail)
        raise ZeroDivisionError

    loop.after(0.0, fail)
    with pytest.raises(ZeroDivisionError):
        loop.run()
    assert len(told) == 3
