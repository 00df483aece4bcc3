"""Benchmarks of clients that only watch: stats streams of 50 containers, 100 clients that follow the log of one
container, and 1,000 that wait for one.
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
FOLLOWERS, LINES = 100, 100
WAITERS = 1000
SETTLE_SECONDS = 2.0
SECONDS = 8.0
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


def read_lines(streams: list[client.Connection], last: bytes) -> None:
    """Read what comes on the connections until the last line has come on each."""
    waiting, ends = select.poll(), dict.fromkeys((stream.socket.fileno() for stream in streams), b"")
    sockets = {stream.socket.fileno(): stream.socket for stream in streams}
    for descriptor in sockets:
        waiting.register(descriptor, select.POLLIN)
    while sockets:
        for descriptor, _ in waiting.poll():
            data = sockets[descriptor].recv(1 << 16)
            assert data, "a stream has ended"
            ends[descriptor] = (ends[descriptor] + data)[-2 * len(last) :]
            if last in ends[descriptor]:
                waiting.unregister(descriptor)
                del sockets[descriptor]


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


@pytest.mark.case("followers")
def test_many_who_follow_the_log_of_one_container(daemon: Daemon, record: Record) -> None:
    """The container writes a line every ten milliseconds, so each line is sent to all before the next comes."""
    if daemon.peer.name == "podman":
        pytest.skip("a hundred clients that follow do not get all lines of it within five minutes")
    script = f"read go; for each in $(seq {LINES}); do echo line $each; usleep 10000; done; echo the last one"
    with daemon.connect() as connection, contextlib.ExitStack() as stack:
        container = client.create(connection, image.NAME, ["sh", "-c", script], OpenStdin=True)
        attached = stack.enter_context(daemon.connect())
        attached.hijack(f"{attached.prefix}/containers/{container}/attach?stream=1&stdin=1")
        client.start(connection, container)
        streams = []
        for _ in range(FOLLOWERS):
            streams.append(stack.enter_context(daemon.connect()))
            target = f"{streams[-1].prefix}/containers/{container}/logs?follow=1&stdout=1"
            assert streams[-1].open_stream("GET", target, None, {"Connection": "close"})[0] == 200
        time.sleep(SETTLE_SECONDS)
        pids = daemon.isolated.members()
        before = processor.seconds(pids)
        attached.send(b"\n")
        read_lines(streams, b"the last one\n")
        record("followers", daemon.peer.name, [(processor.seconds(pids) - before) / LINES * 1e3])
        stack.close()
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
