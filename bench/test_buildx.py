"""Benchmarks of `docker build` as people type it: the real CLI with the real buildx, against each engine's BuildKit.

    python3 -m bench --cases buildx --engines engine,dockerd

The client's own time is part of what is measured, because it is part of what people wait for. Steps have no network,
and no provenance is made, so that both engines do the same. podman has no BuildKit.
"""

import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench import image, memory
from bench.memory import Most
from bench.peers import Daemon
from bench.results import Record
from bench.test_build import command_seconds
from tests.__main__ import CACHE
from tests.setup import compose as built

FILES = 10_000
SENT = 200_000_000
STAGES = 8
STEPS = 10
ROUNDS = 7
FEW = 3
SECONDS = 600
SETTLE_SECONDS = 5.0
MEGABYTE = 1e6
# A second or so of one processor's work in a shell, so that how builds are arranged outweighs what else they cost.
WORK = "i=0; while [ $i -lt 400000 ]; do i=$((i + 1)); done"
pytestmark = pytest.mark.skipif(
    not built.complete(CACHE) or shutil.which("docker") is None, reason="buildx or the docker CLI is missing"
)

Build = Callable[[Daemon, Path], float]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of 10,000 files, in a hundred directories."""
    found = tmp_path_factory.mktemp("buildx") / "context"
    for directory in range(100):
        (found / f"{directory}").mkdir(parents=True)
        for file in range(FILES // 100):
            (found / f"{directory}" / f"{file}.txt").write_bytes(os.urandom(300))
    return found


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Build]:
    """Builds a directory and returns the seconds; the settings of the client are of this test alone."""
    plugins = tmp_path / "settings" / "cli-plugins"
    plugins.mkdir(parents=True)
    (plugins / "docker-buildx").symlink_to(built.buildx(CACHE))

    def run(daemon: Daemon, directory: Path) -> float:
        if daemon.peer.name == "podman":
            pytest.skip("podman has no BuildKit")
        environment = {**os.environ, "DOCKER_HOST": f"unix://{daemon.socket}", "DOCKER_CONFIG": str(plugins.parent)}
        environment.pop("DOCKER_BUILDKIT", None)
        began = time.perf_counter()
        done = subprocess.run(
            ["docker", "build", "--provenance=false", "--network=none", "-t", "bench-buildx:latest", "."],
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
        )
        seconds = time.perf_counter() - began
        assert done.returncode == 0 and b"docker-container" not in done.stderr, done.stderr.decode()
        return seconds

    yield run


def write(directory: Path, *lines: str) -> None:
    """The Dockerfile of a directory, whose steps no build has made yet."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "Dockerfile").write_text("\n".join((f"FROM {image.NAME}\nLABEL of={uuid.uuid4().hex}", *lines)) + "\n")


@pytest.mark.case("buildx_again", "buildx_one")
def test_nothing_new_and_one_file_changed(daemon: Daemon, build: Build, place: Path, record: Record) -> None:
    runs = [f"RUN echo {number} >/{number}" for number in range(STEPS - 6)]
    write(place, *runs, "COPY . /files", "WORKDIR /tmp", "ENV A=b", "EXPOSE 80", "USER 1")
    first = build(daemon, place)
    again = [build(daemon, place) * 1e3 for _ in range(ROUNDS)]
    record("buildx_again", daemon.peer.name, again, first=first * 1e3)
    changed = []
    for _ in range(FEW):
        (place / "50" / "50.txt").write_text(uuid.uuid4().hex)
        changed.append(build(daemon, place) * 1e3)
    record("buildx_one", daemon.peer.name, changed)


@pytest.mark.case("buildx_sent")
def test_a_large_context_that_is_new(daemon: Daemon, build: Build, tmp_path: Path, record: Record) -> None:
    times = []
    for number in range(FEW):
        directory = tmp_path / f"large-{number}"
        write(directory, "COPY large /large")
        (directory / "large").write_bytes(os.urandom(SENT))
        times.append(build(daemon, directory) * 1e3)
        shutil.rmtree(directory)
    record("buildx_sent", daemon.peer.name, times)


@pytest.mark.case("buildx_stages")
def test_independent_stages(daemon: Daemon, build: Build, tmp_path: Path, record: Record) -> None:
    ratios = []
    for number in range(FEW):
        apart, together = tmp_path / f"apart-{number}", tmp_path / f"together-{number}"
        stages = [f"FROM {image.NAME} AS s{stage}\nRUN {WORK}; echo {stage} >/{stage}" for stage in range(STAGES)]
        copies = [f"COPY --from=s{stage} /{stage} /" for stage in range(STAGES)]
        write(apart, *stages, f"FROM {image.NAME}", *copies)
        write(together, *(f"RUN {WORK}; echo {stage} >/{stage}" for stage in range(STAGES)))
        # What a build costs besides is in both; a step's word in front makes it nobody else's.
        word = uuid.uuid4().hex
        for directory in (apart, together):
            file = directory / "Dockerfile"
            file.write_text(file.read_text().replace(WORK, f": {word}{directory.name}; {WORK}"))
        ratios.append(build(daemon, together) / build(daemon, apart))
    record("buildx_stages", daemon.peer.name, ratios)


@pytest.mark.case("buildx_run")
def test_what_a_step_costs_over_its_command(daemon: Daemon, build: Build, tmp_path: Path, record: Record) -> None:
    own, costs = command_seconds("echo x >/dev/null"), []
    write(tmp_path / "first", f"RUN echo {uuid.uuid4().hex} >/first")
    build(daemon, tmp_path / "first")
    for number in range(FEW):
        one, many = tmp_path / f"one-{number}", tmp_path / f"many-{number}"
        for directory, steps in ((one, 1), (many, STEPS + 1)):
            write(directory, *(f"RUN echo {uuid.uuid4().hex} >/{step}" for step in range(steps)))
        costs.append(((build(daemon, many) - build(daemon, one)) / STEPS - own) * 1e3)
    record("buildx_run", daemon.peer.name, costs)


@pytest.mark.case("buildx_memory", "buildx_after")
def test_memory_during_builds(
    lone_daemon: Daemon, workshop: Path, build: Build, place: Path, tmp_path: Path, record: Record
) -> None:
    lone_daemon.give_image(workshop / "rootfs.tar")
    write(place, "COPY . /files", *(f"RUN echo {number} >/{number}" for number in range(FEW)))
    large = tmp_path / "large"
    write(large, "COPY large /large")
    (large / "large").write_bytes(os.urandom(SENT))
    with Most(lone_daemon.isolated.members) as building:
        build(lone_daemon, place)
        build(lone_daemon, place)
        build(lone_daemon, large)
    record("buildx_memory", lone_daemon.peer.name, [building.value / MEGABYTE])
    time.sleep(SETTLE_SECONDS)
    record("buildx_after", lone_daemon.peer.name, [memory.pss(lone_daemon.isolated.members()) / MEGABYTE])
