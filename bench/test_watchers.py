"""Benchmarks of clients that only watch: stats streams of 50 containers, and 1,000 clients that wait for
one container.
"""

import contextlib
import select
import time
from collections.abc import Callable

import pytest

from bench import client, image, memory, processor
from bench.peers import Daemon
from bench.results import Record

CONTAINERS = 50
WAITERS = 1000
SETTLE_SECONDS = 2.0
SECONDS = 10.0
MEGABYTE = 1e6


def busy(daemon: Daemon, seconds: float, meanwhile: Callable[[float], None] = time.sleep) -> float:
    """The processor time that the engine takes in so many seconds, in percent of one core."""
    pids = daemon.isolated.members()
    before, began = processor.seconds(pids), time.perf_counter()
    meanwhile(seconds)
    return (processor.seconds(pids) - before) / (time.perf_counter() - began) * 100


def read_all(streams: list[client.Connection], seconds: float) -> None:
    """Read and drop what comes on the connections for so many seconds."""
    waiting = select.poll()
    sockets = {stream.socket.fileno(): stream.socket for stream in streams}
    for descriptor in sockets:
        waiting.register(descriptor, select.POLLIN)
    end = time.perf_counter() + seconds
    while (left := end - time.perf_counter()) > 0:
        for descriptor, _ in waiting.poll(left * 1000):
            assert sockets[descriptor].recv(1 << 16), "a stream has ended"


@pytest.mark.case("stats")
def test_the_stats_of_many_containers(daemon: Daemon, record: Record) -> None:
    with daemon.connect() as connection, contextlib.ExitStack() as stack:
        containers = [client.create(connection, image.NAME, ["sleep", "600"]) for _ in range(CONTAINERS)]
        streams = []
        for container in containers:
            client.start(connection, container)
            streams.append(stack.enter_context(daemon.connect()))
            status, _ = streams[-1].open_stream("GET", f"{streams[-1].prefix}/containers/{container}/stats", None, {})
            assert status == 200
        read_all(streams, SETTLE_SECONDS)
        record("stats", daemon.peer.name, [busy(daemon, SECONDS, lambda seconds: read_all(streams, seconds))])
        stack.close()
        for container in containers:
            client.remove(connection, container, force=True)


@pytest.mark.case("waiters_memory", "waiters_busy")
def test_many_who_wait_for_one_container(daemon: Daemon, record: Record) -> None:
    with daemon.connect() as connection, contextlib.ExitStack() as stack:
        container = client.create(connection, image.NAME, ["sleep", "600"])
        client.start(connection, container)
        time.sleep(SETTLE_SECONDS)
        idle = memory.pss(daemon.isolated.members())
        for _ in range(WAITERS):
            waiter = stack.enter_context(daemon.connect())
            assert waiter.open_stream("POST", f"{waiter.prefix}/containers/{container}/wait", None, {})[0] == 200
        time.sleep(SETTLE_SECONDS)
        taken = memory.pss(daemon.isolated.members()) - idle
        record("waiters_memory", daemon.peer.name, [taken / MEGABYTE])
        record("waiters_busy", daemon.peer.name, [busy(daemon, SECONDS / 2)])
        client.remove(connection, container, force=True)
