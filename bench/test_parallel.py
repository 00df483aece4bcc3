"""Benchmarks of containers a second, for 16 clients at once: from creation to removal, and run by crun alone."""

import contextlib
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench import crowd, direct
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


@pytest.mark.case("parallel")
@pytest.mark.skipif(shutil.which("crun") is None, reason="crun is not installed")
def test_as_many_without_an_engine(workshop: Path, benchmark: BenchmarkFixture, record: Record) -> None:
    tool = direct.BY_PROGRAM["crun"]
    with contextlib.ExitStack() as stack:
        places = [workshop / f"crun-{number}" for number in range(WIDTH)]
        runners = [stack.enter_context(direct.Direct(tool, workshop / "rootfs", place)) for place in places]
        pool = stack.enter_context(ThreadPoolExecutor(WIDTH))

        def run() -> None:
            list(pool.map(_run, runners))

        benchmark.pedantic(run, rounds=ROUNDS, warmup_rounds=1)
    record("parallel", tool.name, [TOTAL / seconds for seconds in benchmark.stats.stats.data])


def _run(runner: direct.Direct) -> None:
    for _ in range(TOTAL // WIDTH):
        runner.once()
