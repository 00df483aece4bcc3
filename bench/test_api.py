"""Benchmarks of API requests a second by one client: ping, list of 100 containers, inspect."""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench import client, image
from bench.peers import Daemon
from bench.results import Record

MANY = 100
SECONDS = 1.0

LIMITS = pytest.mark.benchmark(max_time=SECONDS, min_rounds=3, warmup=False)


@pytest.fixture(scope="module")
def kept() -> dict[Daemon, list[str]]:
    """The ids of the containers that were made, by engine."""
    return {}


@pytest.fixture
def hundred(daemon: Daemon, kept: dict[Daemon, list[str]]) -> list[str]:
    """A hundred containers that were never started."""
    if daemon not in kept:
        with daemon.connect() as connection:
            kept[daemon] = [client.create(connection, image.NAME, ["true"]) for _ in range(MANY)]
    return kept[daemon]


def rates(benchmark: BenchmarkFixture) -> list[float]:
    """Calls a second in each round."""
    return [1 / seconds for seconds in benchmark.stats.stats.data]


@LIMITS
@pytest.mark.case("ping")
def test_ping(daemon: Daemon, benchmark: BenchmarkFixture, record: Record) -> None:
    with daemon.connect() as connection:
        benchmark(connection.again("/_ping"))
    record("ping", daemon.peer.name, rates(benchmark))


@LIMITS
@pytest.mark.case("list")
def test_the_list_of_a_hundred_containers(
    daemon: Daemon, hundred: list[str], benchmark: BenchmarkFixture, record: Record
) -> None:
    with daemon.connect() as connection:
        answer = benchmark(connection.again("/containers/json?all=1"))
    assert all(container.encode() in answer for container in hundred)
    record("list", daemon.peer.name, rates(benchmark))


@LIMITS
@pytest.mark.case("inspect")
def test_one_container_whole(daemon: Daemon, hundred: list[str], benchmark: BenchmarkFixture, record: Record) -> None:
    with daemon.connect() as connection:
        answer = benchmark(connection.again(f"/containers/{hundred[0]}/json"))
    assert hundred[0].encode() in answer
    record("inspect", daemon.peer.name, rates(benchmark))
