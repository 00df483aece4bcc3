"""Tests of `engine.daemon.latepart`: a part is made once, when it is first asked for."""

import threading
import time

import pytest

from engine.daemon.latepart import LatePart, is_made


def test_a_part_is_made_once_whoever_asks_at_once() -> None:
    """And it is an ordinary attribute from then on."""
    made = []

    class Owner:
        part = LatePart(lambda own: (time.sleep(0.05), made.append(own), object())[-1])

    owner, found = Owner(), []
    assert not is_made(owner, "part")
    threads = [threading.Thread(target=lambda: found.append(owner.part)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [owner] and len(set(map(id, found))) == 1
    assert is_made(owner, "part") and vars(owner)["part"] is owner.part is found[0]


def test_the_making_of_one_part_holds_up_no_other() -> None:
    """Who asks for one may hold a lock that the making of another waits for."""
    goes_on = threading.Event()

    class Owner:
        slow = LatePart(lambda _: goes_on.wait(10))
        quick = LatePart(lambda own: f"with {own.third}")
        third = LatePart(lambda _: "another")

    owner = Owner()
    thread = threading.Thread(target=lambda: owner.slow)
    thread.start()
    assert owner.quick == "with another"
    goes_on.set()
    thread.join()
    assert owner.slow is True


def test_what_cannot_be_made_is_tried_again() -> None:
    """Each who asks gets the error."""

    class Owner:
        part = LatePart(lambda own: 1 // own.by)

    owner = Owner()
    owner.by = 0
    with pytest.raises(ZeroDivisionError):
        owner.part  # noqa: B018
    owner.by = 1
    assert owner.part == 1
