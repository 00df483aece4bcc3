"""Benchmarks of reading a long log: the throughput of all of it, and the time for its last ten lines."""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench import client, stream
from bench.peers import Daemon
from bench.results import Record

ROUNDS = 2
TAIL = 10


@pytest.fixture(scope="module")
def kept() -> dict[Daemon, str]:
    """The containers with a long log, by engine: the log is written once for all benchmarks of this file."""
    return {}


@pytest.fixture
def written(daemon: Daemon, kept: dict[Daemon, str], megabytes: int) -> str:
    """A container that has ended, and whose log is the stream."""
    if daemon not in kept:
        with daemon.connect() as connection:
            host = {"NetworkMode": "none", **daemon.peer.whole_log}
            kept[daemon] = stream.create(connection, megabytes, HostConfig=host)
            client.start(connection, kept[daemon])
            assert client.wait(connection, kept[daemon]) == 0
    return kept[daemon]


@pytest.mark.case("logs_read")
def test_reading_a_long_log(
    daemon: Daemon, written: str, benchmark: BenchmarkFixture, record: Record, megabytes: int
) -> None:
    lines = stream.size(megabytes) // stream.LINE

    def read() -> int:
        with daemon.connect() as connection:
            return connection.count(f"/containers/{written}/logs?stdout=1")

    size = benchmark.pedantic(read, rounds=ROUNDS)
    # There is one frame a line; the chunk headers come on top.
    assert size > lines * (stream.HEADER + stream.LINE)
    record("logs_read", daemon.peer.name, [stream.size(megabytes) / 1e6 / t for t in benchmark.stats.stats.data])


@pytest.mark.case("logs_tail")
def test_the_end_of_a_long_log(
    daemon: Daemon, written: str, benchmark: BenchmarkFixture, record: Record, pytestconfig: pytest.Config
) -> None:
    with daemon.connect() as connection:
        repeats = pytestconfig.getoption("--repeats")
        query = f"stdout=1&tail={TAIL}"
        output = benchmark.pedantic(client.logs, (connection, written, query), rounds=repeats, warmup_rounds=1)
    assert len(output) == TAIL * (stream.HEADER + stream.LINE)
    record("logs_tail", daemon.peer.name, [seconds * 1e3 for seconds in benchmark.stats.stats.data])
