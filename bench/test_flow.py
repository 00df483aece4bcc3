"""Benchmark of a container's whole life, of `echo hello`: create, start, wait, logs, delete; and of the same without an
engine.
"""

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench import client, direct, image
from bench.peers import Daemon
from bench.results import Record

STEPS = ("create", "start", "wait", "logs", "delete")
WARMUP = 3
HELLO = b"\x01\0\0\0\0\0\0\x06hello\n"


class Flow:
    """The whole life of a container over one connection; keeps the seconds of each step."""

    def __init__(self, connection: client.Connection, network: str) -> None:
        self.connection = connection
        self.network = network
        self.steps: dict[str, list[float]] = {step: [] for step in STEPS}

    def __call__(self) -> None:
        """Run it once and check the output."""
        times = [time.perf_counter()]
        container = client.create(self.connection, image.NAME, ["echo", "hello"], self.network)
        times.append(time.perf_counter())
        client.start(self.connection, container)
        times.append(time.perf_counter())
        status = client.wait(self.connection, container)
        times.append(time.perf_counter())
        output = client.logs(self.connection, container)
        times.append(time.perf_counter())
        client.remove(self.connection, container)
        times.append(time.perf_counter())
        assert (status, output) == (0, HELLO)
        for step, first, last in zip(STEPS, times, times[1:], strict=False):
            self.steps[step].append(last - first)

    def medians(self, count: int) -> dict[str, float]:
        """The median of each step's last `count` samples, in milliseconds."""
        return {step: statistics.median(times[-count:]) * 1e3 for step, times in self.steps.items()}


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


@pytest.mark.case("flow_none")
def test_container_without_an_engine(
    tool: direct.Tool, workshop: Path, benchmark: BenchmarkFixture, record: Record, pytestconfig: pytest.Config
) -> None:
    with direct.Direct(tool, workshop / "rootfs", workshop / tool.program) as container:
        benchmark.pedantic(container.once, rounds=pytestconfig.getoption("--repeats"), warmup_rounds=WARMUP)
    record("flow_none", tool.name, [seconds * 1e3 for seconds in benchmark.stats.stats.data])
