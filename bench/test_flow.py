"""Benchmark of a container's whole life, of `echo hello`: create, start, wait, logs, delete; and of the same without an
engine.
"""

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench import direct
from bench.cases import OURS
from bench.flow import WARMUP, Flow
from bench.peers import Daemon
from bench.results import Record

THOUSAND, HUNDRED = 1000, 100


@pytest.mark.parametrize(
    "network", [pytest.param(name, marks=pytest.mark.case(f"flow_{name}")) for name in ("none", "host", "bridge")]
)
def test_flow_through_the_api(
    network: str, daemon: Daemon, benchmark: BenchmarkFixture, record: Record, rounds: Callable[[float], int]
) -> None:
    with daemon.connect() as connection:
        flow = Flow(connection, network)
        began = time.perf_counter()
        for _ in range(WARMUP):
            flow()
        count = rounds((time.perf_counter() - began) / WARMUP)
        benchmark.pedantic(flow, rounds=count)
    times = benchmark.stats.stats.data
    record(f"flow_{network}", daemon.peer.name, [seconds * 1e3 for seconds in times], **flow.medians(count))


@pytest.mark.case("thousand")
def test_a_thousand_containers_one_after_another(daemon: Daemon, record: Record) -> None:
    if daemon.peer.name != OURS:
        pytest.skip("of no other engine is this asked: it would take minutes")
    times = []
    with daemon.connect() as connection:
        flow = Flow(connection, "none")
        for _ in range(WARMUP):
            flow()
        for _ in range(THOUSAND):
            began = time.perf_counter()
            flow()
            times.append((time.perf_counter() - began) * 1e3)
    first, last = statistics.median(times[:HUNDRED]), statistics.median(times[-HUNDRED:])
    record("thousand", daemon.peer.name, [last / first], first=first, last=last)


@pytest.mark.case("flow_none")
def test_container_without_an_engine(
    tool: direct.Tool, workshop: Path, benchmark: BenchmarkFixture, record: Record, pytestconfig: pytest.Config
) -> None:
    with direct.Direct(tool, workshop / "rootfs", workshop / tool.program) as container:
        benchmark.pedantic(container.once, rounds=pytestconfig.getoption("--repeats"), warmup_rounds=WARMUP)
    record("flow_none", tool.name, [seconds * 1e3 for seconds in benchmark.stats.stats.data])
