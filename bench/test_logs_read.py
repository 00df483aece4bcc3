"""Benchmarks of reading a long log of each form that an engine has: all of it, its last ten lines, its end."""

import time

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench import client, stream
from bench.cases import OURS
from bench.peers import Daemon
from bench.results import Record

ROUNDS = 2
TAIL = 10
Kept = dict[tuple[Daemon, bool], tuple[str, float]]


@pytest.fixture(scope="module")
def kept() -> Kept:
    """The containers with a long log, by engine and form, each with the time of its end. A log is written once for all
    benchmarks of this file.
    """
    return {}


def written(daemon: Daemon, kept: Kept, megabytes: int, json: bool) -> tuple[str, float]:
    """A container that has ended, and whose log is the stream; and the time of its end."""
    if (daemon, json) not in kept:
        log = daemon.peer.json_log if json else daemon.peer.whole_log
        if json and not log:
            pytest.skip("it has no such driver")
        with daemon.connect() as connection:
            container = stream.create(connection, megabytes, HostConfig={"NetworkMode": "none", **log})
            client.start(connection, container)
            assert client.wait(connection, container) == 0
            kept[daemon, json] = container, time.time()
    return kept[daemon, json]


def asked(daemon: Daemon, container: str, query: str, benchmark: BenchmarkFixture, rounds: int) -> bytes:
    """The log with this query, asked for so many times over one connection."""
    with daemon.connect() as connection:
        arguments = (connection, container, f"stdout=1&{query}")
        output: bytes = benchmark.pedantic(client.logs, arguments, rounds=rounds, warmup_rounds=1)
    return output


def milliseconds(benchmark: BenchmarkFixture) -> list[float]:
    """What each round has taken."""
    return [seconds * 1e3 for seconds in benchmark.stats.stats.data]


@pytest.mark.parametrize(
    ("case", "json"),
    [
        pytest.param("logs_read", False, marks=pytest.mark.case("logs_read")),
        pytest.param("json_read", True, marks=pytest.mark.case("json_read")),
    ],
)
def test_reading_a_long_log(
    daemon: Daemon, kept: Kept, benchmark: BenchmarkFixture, record: Record, megabytes: int, case: str, json: bool
) -> None:
    container, _ = written(daemon, kept, megabytes, json)
    lines = stream.size(megabytes) // stream.LINE

    def read() -> int:
        with daemon.connect() as connection:
            return connection.count(f"/containers/{container}/logs?stdout=1")

    size = benchmark.pedantic(read, rounds=ROUNDS if daemon.peer.name == OURS else 1)
    # There is one frame a line; the chunk headers come on top.
    assert size > lines * (stream.HEADER + stream.LINE)
    record(case, daemon.peer.name, [stream.size(megabytes) / 1e6 / t for t in benchmark.stats.stats.data])


@pytest.mark.parametrize(
    ("case", "json"),
    [
        pytest.param("logs_tail", False, marks=pytest.mark.case("logs_tail")),
        pytest.param("json_tail", True, marks=pytest.mark.case("json_tail")),
    ],
)
def test_the_end_of_a_long_log(
    daemon: Daemon,
    kept: Kept,
    benchmark: BenchmarkFixture,
    record: Record,
    megabytes: int,
    pytestconfig: pytest.Config,
    case: str,
    json: bool,
) -> None:
    container, _ = written(daemon, kept, megabytes, json)
    output = asked(daemon, container, f"tail={TAIL}", benchmark, pytestconfig.getoption("--repeats"))
    assert len(output) == TAIL * (stream.HEADER + stream.LINE)
    record(case, daemon.peer.name, milliseconds(benchmark))


@pytest.mark.case("json_since")
def test_a_time_of_which_the_log_has_nothing(
    daemon: Daemon,
    kept: Kept,
    benchmark: BenchmarkFixture,
    record: Record,
    megabytes: int,
    pytestconfig: pytest.Config,
) -> None:
    """An engine that looks for the place does not read what is before it."""
    container, ended = written(daemon, kept, megabytes, True)
    rounds = min(5 if daemon.peer.name == OURS else 1, pytestconfig.getoption("--repeats"))
    assert asked(daemon, container, f"since={ended:.6f}", benchmark, rounds) == b""
    record("json_since", daemon.peer.name, milliseconds(benchmark))
