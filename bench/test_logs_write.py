"""Benchmark of the throughput of a container's output into its log, against the same programs writing into a file."""

import subprocess
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench import client, stream
from bench.peers import Daemon
from bench.results import Record

ROUNDS = 3
FLOOR = "yes | cat > file"


@pytest.mark.case("logs_write")
def test_from_the_start_to_the_end_of_a_container_that_writes(
    daemon: Daemon, benchmark: BenchmarkFixture, record: Record, megabytes: int
) -> None:
    record("logs_write", daemon.peer.name, written(daemon, benchmark, megabytes, daemon.peer.own_log))


@pytest.mark.case("json_write")
def test_the_same_into_lines_of_json(
    daemon: Daemon, benchmark: BenchmarkFixture, record: Record, megabytes: int
) -> None:
    if not daemon.peer.json_log:
        pytest.skip("it has no such driver")
    record("json_write", daemon.peer.name, written(daemon, benchmark, megabytes, daemon.peer.json_log))


def written(daemon: Daemon, benchmark: BenchmarkFixture, megabytes: int, log: dict[str, object]) -> list[float]:
    """The MB/s of each round."""
    with daemon.connect() as connection:

        def prepare() -> tuple[tuple[str], dict[str, object]]:
            return (stream.create(connection, megabytes, HostConfig=log),), {}

        def run(container: str) -> None:
            client.start(connection, container)
            assert client.wait(connection, container) == 0

        def clean(container: str) -> None:
            client.remove(connection, container)

        benchmark.pedantic(run, setup=prepare, teardown=clean, rounds=ROUNDS)
    return [stream.size(megabytes) / 1e6 / t for t in benchmark.stats.stats.data]


@pytest.mark.case("logs_write", "json_write")
def test_the_same_programs_into_a_file(
    workshop: Path, benchmark: BenchmarkFixture, record: Record, megabytes: int
) -> None:
    target = workshop / "floor"
    argv = ["sh", "-c", f"{stream.command(megabytes, '/usr/bin')} | cat > {target}"]

    def clean(*_: object, **__: object) -> None:
        assert target.stat().st_size == stream.size(megabytes)
        target.unlink()

    benchmark.pedantic(subprocess.run, (argv,), {"check": True}, teardown=clean, rounds=ROUNDS)
    for case in ("logs_write", "json_write"):
        record(case, FLOOR, [stream.size(megabytes) / 1e6 / t for t in benchmark.stats.stats.data])
