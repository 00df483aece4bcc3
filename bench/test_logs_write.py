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
    with daemon.connect() as connection:

        def prepare() -> tuple[tuple[str], dict[str, object]]:
            return (stream.create(connection, megabytes),), {}

        def run(container: str) -> None:
            client.start(connection, container)
            assert client.wait(connection, container) == 0

        def clean(container: str) -> None:
            client.remove(connection, container)

        benchmark.pedantic(run, setup=prepare, teardown=clean, rounds=ROUNDS)
    record("logs_write", daemon.peer.name, [stream.size(megabytes) / 1e6 / t for t in benchmark.stats.stats.data])


@pytest.mark.case("logs_write")
def test_the_same_programs_into_a_file(
    workshop: Path, benchmark: BenchmarkFixture, record: Record, megabytes: int
) -> None:
    target = workshop / "floor"
    argv = ["sh", "-c", f"{stream.command(megabytes, '/usr/bin')} | cat > {target}"]

    def clean(*_: object, **__: object) -> None:
        assert target.stat().st_size == stream.size(megabytes)
        target.unlink()

    benchmark.pedantic(subprocess.run, (argv,), {"check": True}, teardown=clean, rounds=ROUNDS)
    record("logs_write", FLOOR, [stream.size(megabytes) / 1e6 / t for t in benchmark.stats.stats.data])
