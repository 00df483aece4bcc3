"""Benchmark of containers a second, from creation to removal, for 16 clients at once."""

import queue
import threading

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench import client, image
from bench.peers import Daemon
from bench.results import Record

TOTAL = 64
WIDTH = 16
ROUNDS = 2


def work(daemon: Daemon, todo: queue.SimpleQueue[int], failures: list[Exception]) -> None:
    """One client: run container after container until none is left to do."""
    with daemon.connect() as connection:
        while True:
            try:
                todo.get_nowait()
            except queue.Empty:
                return
            try:
                container = client.create(connection, image.NAME, ["true"])
                client.start(connection, container)
                client.wait(connection, container)
                client.remove(connection, container)
            except (client.UnexpectedAnswer, OSError) as error:
                failures.append(error)
                return  # the connection may be closed, and would fail for all that is left to do


@pytest.mark.case("parallel")
def test_containers_in_parallel(daemon: Daemon, benchmark: BenchmarkFixture, record: Record) -> None:
    failures: list[Exception] = []

    def all_of_them() -> None:
        todo: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in range(TOTAL):
            todo.put(number)
        threads = [threading.Thread(target=work, args=(daemon, todo, failures)) for _ in range(WIDTH)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    benchmark.pedantic(all_of_them, rounds=ROUNDS)
    assert not failures, failures[0]
    record("parallel", daemon.peer.name, [TOTAL / seconds for seconds in benchmark.stats.stats.data])
