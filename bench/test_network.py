"""Benchmarks of networks: connect of a running container, start of the 200th container in one network, memory of a
published port.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench import client, image, memory
from bench.peers import Daemon
from bench.results import Record

MANY = 200
TEN = 10
PORTS = 100
FIRST_PORT = 20000
SETTLE_SECONDS = 1.0
WARMUP = 3


def make(connection: client.Connection, name: str) -> str:
    """Make a network; returns its name."""
    connection.call("POST", "/networks/create", {"Name": name, "CheckDuplicate": True}, 201)
    return name


@pytest.fixture
def network(daemon: Daemon) -> Iterator[str]:
    """A network of the running engine, removed afterwards."""
    with daemon.connect() as connection:
        yield make(connection, "bench")
        connection.call("DELETE", "/networks/bench", expected=204)


@pytest.mark.case("connect")
def test_connect_of_a_container_that_runs(
    daemon: Daemon, network: str, benchmark: BenchmarkFixture, record: Record, rounds: Callable[[float], int]
) -> None:
    with daemon.connect() as connection:
        container = client.create(connection, image.NAME, ["sleep", "600"], "bridge")
        client.start(connection, container)
        times: list[float] = []

        def once() -> None:
            began = time.perf_counter()
            connection.call("POST", f"/networks/{network}/connect", {"Container": container})
            times.append(time.perf_counter() - began)
            connection.call("POST", f"/networks/{network}/disconnect", {"Container": container})

        began = time.perf_counter()
        for _ in range(WARMUP):
            once()
        times.clear()
        benchmark.pedantic(once, rounds=rounds((time.perf_counter() - began) / WARMUP))
        client.remove(connection, container, force=True)
    record("connect", daemon.peer.name, [seconds * 1e3 for seconds in times])


@pytest.mark.case("crowd")
def test_many_containers_of_one_network(daemon: Daemon, network: str, record: Record) -> None:
    if daemon.peer.name != "engine":
        pytest.skip("of no other engine is this asked: it would take minutes")
    with daemon.connect() as connection:
        containers = [client.create(connection, image.NAME, ["sleep", "600"], network) for _ in range(MANY)]
        times = []
        for container in containers:
            began = time.perf_counter()
            client.start(connection, container)
            times.append(time.perf_counter() - began)
        for container in containers:
            client.remove(connection, container, force=True)
    first, last = statistics.median(times[:TEN]), statistics.median(times[-TEN:])
    record("crowd", daemon.peer.name, [last / first], first=first * 1e3, last=last * 1e3)


@pytest.mark.case("port_memory")
def test_a_published_port(lone_daemon: Daemon, workshop: Path, record: Record) -> None:
    lone_daemon.give_image(workshop / "rootfs.tar")
    bindings = {f"{port}/tcp": [{"HostPort": str(FIRST_PORT + port)}] for port in range(1, PORTS + 1)}
    with lone_daemon.connect() as connection:

        def taken(ports: dict[str, list[dict[str, str]]]) -> tuple[int, int]:
            """The memory and the number of processes of the engine while one container with these ports runs."""
            host_config = {"NetworkMode": "bridge", "PortBindings": ports}
            exposed: dict[str, dict[str, str]] = {port: {} for port in ports}
            container = client.create(
                connection, image.NAME, ["sleep", "600"], HostConfig=host_config, ExposedPorts=exposed
            )
            client.start(connection, container)
            time.sleep(SETTLE_SECONDS)
            members = lone_daemon.isolated.members()
            found = memory.pss(members), len(members)
            client.remove(connection, container, force=True)
            return found

        one = dict([bindings.popitem()])
        taken(one)  # the first port causes costs that all ports share
        (few_bytes, few), (many_bytes, many) = taken(one), taken(bindings)
    more = len(bindings) - len(one)
    record("port_memory", lone_daemon.peer.name, [(many_bytes - few_bytes) / more / 1e3], processes=(many - few) / more)
