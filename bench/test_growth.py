"""Benchmarks of how this engine's costs grow: the same actions while there are 1, 10, 100 and 1,000 of a thing."""

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bench import client, image, memory, peers
from bench.cases import OURS, SIZES
from bench.flow import WARMUP, Flow
from bench.peers import Daemon, NewDaemon
from bench.results import Grown

SAMPLES = 15
CLIENTS = 8
SETTLE_SECONDS = 1.0


@pytest.fixture
def empty(new_daemon: NewDaemon, workshop: Path) -> Iterator[Daemon]:
    """A new engine that has the image and nothing else."""
    daemon = new_daemon(peers.BY_NAME[OURS])
    try:
        daemon.give_image(workshop / "rootfs.tar")
        yield daemon
    finally:
        daemon.close()


def median(action: Callable[[], object]) -> float:
    """The median of the milliseconds that an action takes, after a few that do not count."""
    times = []
    for _ in range(WARMUP + SAMPLES):
        began = time.perf_counter()
        action()
        times.append((time.perf_counter() - began) * 1e3)
    return statistics.median(times[WARMUP:])


def sizes(daemon: Daemon, make: Callable[[client.Connection, int], object]) -> Iterator[int]:
    """Each size in turn, with so many things made by calls of `make`, which gets each thing's number."""
    made = 0
    for size in SIZES:
        with ThreadPoolExecutor(CLIENTS) as makers:
            list(makers.map(lambda number: _one(daemon, make, number), range(made, size)))
        made = size
        time.sleep(SETTLE_SECONDS)
        yield size


def _one(daemon: Daemon, make: Callable[[client.Connection, int], object], number: int) -> None:
    with daemon.connect() as connection:
        make(connection, number)


def megabytes(daemon: Daemon) -> float:
    """The memory of the engine's processes (PSS)."""
    return memory.pss(daemon.isolated.members()) / 1e6


@pytest.mark.case("growth_containers_list", "growth_containers_inspect", "growth_containers_flow")
def test_containers_that_were_never_started(empty: Daemon, grown: Grown) -> None:
    with empty.connect() as connection:
        one = f"/containers/{client.create(connection, image.NAME, ['true'])}/json"
        for size in sizes(empty, lambda each, number: number and client.create(each, image.NAME, ["true"])):
            grown("growth_containers_list", size, median(lambda: connection.call("GET", "/containers/json?all=1")))
            grown("growth_containers_inspect", size, median(lambda: connection.call("GET", one)))
            grown("growth_containers_flow", size, median(Flow(connection, "none")))


@pytest.mark.case("growth_running_flow", "growth_running_exec", "growth_running_memory")
def test_containers_that_run(empty: Daemon, grown: Grown) -> None:
    containers: list[str] = []

    def run(connection: client.Connection, _: int) -> None:
        container = client.create(connection, image.NAME, ["sleep", "600"])
        client.start(connection, container)
        containers.append(container)

    def remove(connection: client.Connection, number: int) -> None:
        client.remove(connection, containers[number], force=True)

    def execute() -> None:
        command = {"Cmd": ["true"], "AttachStdout": True}
        made = connection.call("POST", f"/containers/{containers[0]}/exec", command, 201).json()["Id"]
        with empty.connect() as attached:
            attached.call("POST", f"/exec/{made}/start", {"Detach": False, "Tty": False})

    with empty.connect() as connection:
        for size in sizes(empty, run):
            grown("growth_running_memory", size, megabytes(empty))
            grown("growth_running_flow", size, median(Flow(connection, "none")))
            grown("growth_running_exec", size, median(execute))
    with ThreadPoolExecutor(CLIENTS) as removers:  # the engine removes their cgroups, which outlive its namespaces
        list(removers.map(lambda each: _one(empty, remove, each), range(len(containers))))


@pytest.mark.case("growth_images_list", "growth_images_create")
def test_images(empty: Daemon, workshop: Path, grown: Grown) -> None:
    def add(connection: client.Connection, number: int) -> None:
        changes = f"changes=LABEL%20number={number}"
        connection.call("POST", f"/commit?container={base}&repo=bench-{number}&tag=latest&{changes}", None, 201)

    def create() -> None:
        client.remove(connection, client.create(connection, "bench-0:latest", ["true"]))

    with empty.connect() as connection:
        base = client.create(connection, image.NAME, ["true"])
        for size in sizes(empty, add):
            grown("growth_images_list", size, median(lambda: connection.call("GET", "/images/json")))
            grown("growth_images_create", size, median(create))


@pytest.mark.case("growth_networks_list", "growth_networks_flow")
def test_networks(empty: Daemon, grown: Grown) -> None:
    def add(connection: client.Connection, number: int) -> None:
        subnet = {"Subnet": f"10.{100 + number // 256}.{number % 256}.0/24"}
        body = {"Name": f"bench-{number}", "IPAM": {"Config": [subnet]}}
        connection.call("POST", "/networks/create", body, 201)

    with empty.connect() as connection:
        for size in sizes(empty, add):
            grown("growth_networks_list", size, median(lambda: connection.call("GET", "/networks")))
            grown("growth_networks_flow", size, median(Flow(connection, f"bench-{size - 1}")))


@pytest.mark.case("growth_clients_ping", "growth_clients_memory")
def test_clients_that_wait(empty: Daemon, grown: Grown) -> None:
    with empty.connect() as connection, contextlib.ExitStack() as stack:
        container = client.create(connection, image.NAME, ["sleep", "600"])
        stack.callback(client.remove, connection, container, force=True)
        client.start(connection, container)

        def wait(_: client.Connection, __: int) -> None:
            waiter = stack.enter_context(empty.connect())
            assert waiter.open_stream("POST", f"{waiter.prefix}/containers/{container}/wait", None, {})[0] == 200

        for size in sizes(empty, wait):
            grown("growth_clients_memory", size, megabytes(empty))
            grown("growth_clients_ping", size, median(lambda: connection.call("GET", "/_ping")))
