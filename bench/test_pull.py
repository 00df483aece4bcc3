"""Benchmark of the pull of a small Debian from a local registry: time against `curl | tar -xz`, and peak memory."""

import json
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.isolation import Isolated
from bench.large import NAME, Large
from bench.memory import Most
from bench.peers import Daemon, NewDaemon, Peer
from bench.results import Record
from tests.harness.namespaces import Namespaces
from tests.harness.registry import MANIFEST_V2, Registry

ROUNDS = 5
FLOOR = "curl | tar -xz"

pytestmark = pytest.mark.skipif(not Registry.available(), reason="docker-registry is not installed")


class Beside(Namespaces):
    """The namespaces of a program that runs already; the code that started the program ends it."""

    def __init__(self, isolated: Isolated) -> None:
        if isolated.pid is None:
            raise RuntimeError(f"it has ended: {isolated.tail()}")
        self.pid = isolated.pid

    def close(self) -> None:
        """Do nothing: the namespaces belong to the program."""


def pulled(daemon: Daemon, registry: Registry) -> None:
    """Have the engine pull the image, and check that it has it."""
    with daemon.connect() as connection:
        target = f"/images/create?fromImage={registry.address}/{NAME}&tag=latest"
        lines = connection.call("POST", target).lines
        assert "error" not in lines[-1], lines[-1]
        connection.call("GET", f"/images/{registry.address}/{NAME}:latest/json")


@pytest.mark.case("pull")
def test_pulling_an_image(
    peer: Peer, new_daemon: NewDaemon, large: Large, benchmark: BenchmarkFixture, record: Record
) -> None:
    def prepare() -> tuple[tuple[Daemon, Registry], dict[str, object]]:
        daemon = new_daemon(peer)
        return (daemon, Registry(large.registry, Beside(daemon.isolated))), {}

    def clean(daemon: Daemon, registry: Registry) -> None:
        registry.close()
        daemon.close()

    benchmark.pedantic(pulled, setup=prepare, teardown=clean, rounds=ROUNDS)
    record("pull", peer.name, benchmark.stats.stats.data)


@pytest.mark.case("pull")
def test_fetching_and_unpacking_without_an_engine(workshop: Path, large: Large, record: Record) -> None:
    target = workshop / "unpacked"
    seconds = []
    with Namespaces() as namespaces, Registry(large.registry, namespaces) as registry:
        _, _, manifest = registry.request("GET", f"/v2/{NAME}/manifests/latest", headers={"Accept": MANIFEST_V2})
        blob = f"http://{registry.address}/v2/{NAME}/blobs/{json.loads(manifest)['layers'][0]['digest']}"
        for _ in range(ROUNDS):
            target.mkdir()
            command = f"curl --silent --fail {blob} | tar --extract --gzip --directory {target}"
            began = time.perf_counter()
            subprocess.run(namespaces.command(["sh", "-c", command]), check=True)
            seconds.append(time.perf_counter() - began)
            shutil.rmtree(target)
    record("pull", FLOOR, seconds)


@pytest.mark.case("pull_memory")
def test_memory_during_a_pull(peer: Peer, new_daemon: NewDaemon, large: Large, record: Record) -> None:
    daemon = new_daemon(peer)
    try:
        with Registry(large.registry, Beside(daemon.isolated)) as registry:
            with Most(daemon.isolated.members) as most:
                pulled(daemon, registry)
    finally:
        daemon.close()
    record("pull_memory", peer.name, [most.value / 1e6])
