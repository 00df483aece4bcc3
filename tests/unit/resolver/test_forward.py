"""Queries that wait for others' answers: how many may, and whose."""

import socket
from collections.abc import Iterator

import pytest

from engine.resolver import packets
from engine.resolver.forward import MOST_OF_ONE, Asker, Forwarder
from engine.resolver.loop import Loop
from engine.resolver.packets import Query
from tests.harness import dns

MOST = 40


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that never answers."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        yield server


class Asking:
    """Askers of one forwarder, and the codes of what they were told."""

    def __init__(self, server: socket.socket, most: int) -> None:
        self.loop = Loop(lambda: True)
        self.forwarder = Forwarder(self.loop, lambda: ((socket.AF_INET, server.getsockname()),), most)
        self.askers: dict[str, Asker] = {}
        self.told: list[tuple[str, int, int]] = []

    def ask(self, name: str, number: int) -> None:
        """One query of an asker's, told apart by its number."""
        data = dns.query("a.test", number=number)
        asker = self.askers.setdefault(name, Asker(-1))

        def told(answer: bytes) -> None:
            self.told.append((name, number, packets.code_of(answer)))

        self.forwarder.ask(asker, number, Query(data), data, False, told)

    def waiting(self, name: str) -> int:
        """How many of an asker's are waiting."""
        return len(self.askers[name].asked)

    def turn(self) -> None:
        """Let the loop do what is due."""
        self.loop.after(0.01, lambda: setattr(self.loop, "ended", True))
        self.loop.run()
        self.loop.ended = False

    def close(self) -> None:
        """Let go of all."""
        for asker in self.askers.values():
            self.forwarder.forget(asker)


@pytest.fixture
def asking(silent: socket.socket) -> Iterator[Asking]:
    """Nobody has asked yet."""
    made = Asking(silent, MOST)
    yield made
    made.close()


def test_those_who_take_all_places_give_way_to_who_has_fewer(asking: Asking) -> None:
    for number in range(MOST // 2):
        asking.ask("bad", number)
        asking.ask("worse", number)
    asking.ask("good", 1)
    assert asking.waiting("good") == 1
    assert asking.waiting("bad") + asking.waiting("worse") == MOST - 1
    asking.turn()
    assert asking.told == [("bad", 0, packets.FAILED)]  # the oldest, and it is told


def test_who_has_his_share_is_refused_where_all_places_are_taken(asking: Asking) -> None:
    for number in range(MOST // 2):
        asking.ask("bad", number)
        asking.ask("worse", number)
    asking.ask("bad", 999)
    assert asking.told == [("bad", 999, packets.FAILED)]
    for number in range(MOST):
        asking.ask("good", number)
    share = MOST // 3
    assert asking.waiting("good") == share
    assert asking.waiting("bad") + asking.waiting("worse") == MOST - share


def test_nobody_has_more_than_one_may_have(silent: socket.socket) -> None:
    asking = Asking(silent, 2 * MOST_OF_ONE)
    try:
        for number in range(MOST_OF_ONE + 1):
            asking.ask("bad", number)
        assert asking.told == [("bad", MOST_OF_ONE, packets.FAILED)]
    finally:
        asking.close()
