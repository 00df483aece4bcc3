"""Benchmark of the pull of a small Debian from a local registry, in one layer and in eight: time against
`curl | tar -xz`, and peak memory.
"""

import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.isolation import Isolated
from bench.large import IN_LAYERS, NAME, ROUNDS, Large, rounds
from bench.memory import Most
from bench.peers import Daemon, NewDaemon, Peer
from bench.results import Record
from tests.harness.namespaces import Namespaces
from tests.harness.registry import MANIFEST_V2, Registry

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


def pulled(daemon: Daemon, registry: Registry, tag: str = "latest") -> None:
    """Have the engine pull the image, and check that it has it."""
    with daemon.connect() as connection:
        target = f"/images/create?fromImage={registry.address}/{NAME}&tag={tag}"
        lines = connection.call("POST", target).lines
        assert "error" not in lines[-1], lines[-1]
        connection.call("GET", f"/images/{registry.address}/{NAME}:{tag}/json")


CASES = [
    pytest.param(key, tag, marks=pytest.mark.case(key), id=tag)
    for key, tag in (("pull", "latest"), ("pull_layers", IN_LAYERS))
]


@pytest.mark.parametrize(("case", "tag"), CASES)
def test_pulling_an_image(
    case: str,
    tag: str,
    peer: Peer,
    new_daemon: NewDaemon,
    large: Large,
    benchmark: BenchmarkFixture,
    record: Record,
) -> None:
    def prepare() -> tuple[tuple[Daemon, Registry, str], dict[str, object]]:
        daemon = new_daemon(peer)
        return (daemon, Registry(large.registry, Beside(daemon.isolated)), tag), {}

    def clean(daemon: Daemon, registry: Registry, _: str) -> None:
        registry.close()
        daemon.close()

    benchmark.pedantic(pulled, setup=prepare, teardown=clean, rounds=rounds(peer))
    record(case, peer.name, benchmark.stats.stats.data)


@pytest.mark.parametrize(("case", "tag"), CASES)
def test_fetching_and_unpacking_without_an_engine(
    case: str, tag: str, apart: Path, large: Large, record: Record
) -> None:
    seconds = []
    with Namespaces() as namespaces, Registry(large.registry, namespaces) as registry:
        _, _, manifest = registry.request("GET", f"/v2/{NAME}/manifests/{tag}", headers={"Accept": MANIFEST_V2})
        blobs = f"http://{registry.address}/v2/{NAME}/blobs/"
        for _ in range(ROUNDS):
            # Of another name each time, because the place is chosen by the name.
            target = Path(tempfile.mkdtemp(dir=apart))
            parts = [
                f"curl --silent --fail {blobs}{layer['digest']} | tar --extract --gzip --directory {target}"
                for layer in json.loads(manifest)["layers"]
            ]
            began = time.perf_counter()
            subprocess.run(namespaces.command(["sh", "-c", " && ".join(parts)]), check=True)
            seconds.append(time.perf_counter() - began)
            shutil.rmtree(target)
    record(case, FLOOR, seconds)


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
