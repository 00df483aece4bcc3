"""How long after its start, with empty roots, does an engine answer its first request?"""

import pytest

ROUNDS = 3


@pytest.mark.case("startup")
def test_from_the_start_to_the_first_answer(peer, new_daemon, record):
    seconds = []
    for _ in range(ROUNDS):
        daemon = new_daemon(peer)
        seconds.append(daemon.seconds)
        daemon.close()
    record("startup", peer.name, seconds)
