"""Benchmark of containers a second, from creation to removal, for 16 clients at once."""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench import crowd
from bench.cases import OURS
from bench.peers import Daemon
from bench.results import Record

TOTAL = 64
WIDTH = 16
ROUNDS = 2


@pytest.mark.case("parallel")
def test_containers_in_parallel(daemon: Daemon, benchmark: BenchmarkFixture, record: Record) -> None:
    benchmark.pedantic(crowd.run, args=(daemon, TOTAL, WIDTH), rounds=ROUNDS if daemon.peer.name == OURS else 1)
    record("parallel", daemon.peer.name, [TOTAL / seconds for seconds in benchmark.stats.stats.data])
