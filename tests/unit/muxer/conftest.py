"""Spawners that are forked from the test, their clients, and a container whose monitor is in C.

What they need is imported only where the C muxer is built, as the files that use them check.
"""

import os
import socket

import pytest


@pytest.fixture
def spawner():
    """A function that forks a spawner. At the end no process of it may be left."""
    from tests.unit.muxer.spawned import Spawned

    made = []

    def make(**how) -> Spawned:
        made.append(Spawned(**how))
        return made[-1]

    yield make
    for one in made:
        assert one.requests.fileno() < 0 or one.end() == 0
        assert one.complaints() == ""


@pytest.fixture
def attached():
    """A function that makes so many clients: the test's ends, and those to be sent."""
    made = []

    def make(count: int = 1) -> tuple[list[socket.socket], list[socket.socket]]:
        near, far = zip(*(socket.socketpair() for _ in range(count)), strict=True)
        made.extend(near + far)
        for each in near:
            each.settimeout(20)
        return list(near), list(far)

    yield make
    for each in made:
        each.close()


@pytest.fixture
def asleep(spawner, attached, tmp_path):
    """A container whose monitor has gone to sleep in C: its link, its client, what was said of it."""
    from tests.unit.muxer.played import frame, receive
    from tests.unit.muxer.spawned import STDERR, STDIN, STDOUT, started

    near, far = attached()
    link = spawner().ask(*far, directory=str(tmp_path), script="echo up; cat; exit 5", streams=STDIN | STDOUT | STDERR)
    with link:
        said, pidfd = started(link)
        os.close(pidfd)
        assert receive(near[0], 11) == frame(1, b"up\n")
        yield link, near[0], said
