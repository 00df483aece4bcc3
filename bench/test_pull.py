"""How long does the pull of a large one-layer image from a local registry take, against `curl | tar -xz`?"""

import io
import json
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

import pytest

from bench.isolation import Isolated
from tests.harness.namespaces import Namespaces
from tests.harness.registry import Registry

NAME = "bench/large"
SIZE = 200_000_000
ROUNDS = 2
FLOOR = "curl | tar -xz"

pytestmark = pytest.mark.skipif(not Registry.available(), reason="docker-registry is not installed")


class Beside(Namespaces):
    """The namespaces of a program that runs already; who started it ends it."""

    def __init__(self, isolated: Isolated) -> None:
        self.keeper = isolated

    def close(self) -> None:
        """Nothing: they are not ours."""


@pytest.fixture(scope="module")
def storage(workshop):
    """A registry's directory with the image in it; what serves it does so inside an engine's namespaces."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        # The host's own libraries: data that packs as images do.
        for path in sorted(Path("/usr/lib").rglob("*")):
            if buffer.tell() < SIZE and path.is_file() and not path.is_symlink():
                archive.add(path)
    directory = workshop / "registry"
    with Namespaces() as namespaces, Registry(directory, namespaces) as registry:
        registry.push(f"{NAME}:latest", [buffer.getvalue()])
    return directory


@pytest.mark.case("pull")
def test_pulling_an_image(peer, new_daemon, storage, benchmark, record):
    def prepare():
        daemon = new_daemon(peer)
        return (daemon, Registry(storage, Beside(daemon.isolated))), {}

    def pull(daemon, registry):
        with daemon.connect() as connection:
            target = f"/images/create?fromImage={registry.address}/{NAME}&tag=latest"
            lines = connection.call("POST", target).lines
        assert "error" not in lines[-1], lines[-1]

    def clean(daemon, registry):
        with daemon.connect() as connection:
            connection.call("GET", f"/images/{registry.address}/{NAME}:latest/json")
        registry.close()
        daemon.close()

    benchmark.pedantic(pull, setup=prepare, teardown=clean, rounds=ROUNDS)
    record("pull", peer.name, benchmark.stats.stats.data)


@pytest.mark.case("pull")
def test_fetching_and_unpacking_without_an_engine(workshop, storage, record):
    target = workshop / "unpacked"
    seconds = []
    with Namespaces() as namespaces, Registry(storage, namespaces) as registry:
        kind = {"Accept": "application/vnd.docker.distribution.manifest.v2+json"}
        _, _, manifest = registry.request("GET", f"/v2/{NAME}/manifests/latest", headers=kind)
        blob = f"http://{registry.address}/v2/{NAME}/blobs/{json.loads(manifest)['layers'][0]['digest']}"
        for _ in range(ROUNDS):
            target.mkdir()
            began = time.perf_counter()
            command = f"curl --silent --fail {blob} | tar --extract --gzip --directory {target}"
            subprocess.run(namespaces.command(["sh", "-c", command]), check=True)
            seconds.append(time.perf_counter() - began)
            shutil.rmtree(target)
    record("pull", FLOOR, seconds)
