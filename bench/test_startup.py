"""Benchmark of the time from an engine's start, with empty roots, to its first answer."""

import pytest

from bench.peers import NewDaemon, Peer
from bench.results import Record

ROUNDS = 3


@pytest.mark.case("startup")
def test_from_the_start_to_the_first_answer(peer: Peer, new_daemon: NewDaemon, record: Record) -> None:
    seconds = []
    for _ in range(ROUNDS):
        daemon = new_daemon(peer)
        seconds.append(daemon.seconds)
        daemon.close()
    record("startup", peer.name, seconds)
