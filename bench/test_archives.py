"""Benchmarks of load and save of a small Debian: time against tar on the same files, and peak memory."""

import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.large import NAME, ROUNDS, Large, rounds
from bench.memory import Most
from bench.peers import Daemon, NewDaemon, Peer
from bench.results import Record

UNPACK, PACK = "tar -x", "tar -c"
MEGABYTE = 1e6


def loaded(daemon: Daemon, large: Large) -> None:
    """Load the archive into the engine, as `docker load -i` does."""
    with daemon.connect() as connection, open(large.archive, "rb") as archive:
        size = large.archive.stat().st_size
        head = f"POST {connection.prefix}/images/load?quiet=1 HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n"
        connection.send(f"{head}Content-Type: application/x-tar\r\nContent-Length: {size}\r\n\r\n".encode())
        connection.socket.sendfile(archive)
        answer = connection.read_to_end()
        assert answer.startswith(b"HTTP/1.1 200 ") and b'"error"' not in answer, answer
    with daemon.connect() as connection:
        connection.call("GET", f"/images/{NAME}:latest/json")


def saved(daemon: Daemon) -> int:
    """Save the image and drop the bytes as fast as they come; returns the archive's size."""
    with daemon.connect() as connection:
        return connection.count(f"/images/get?names={NAME}:latest")


@pytest.mark.case("load")
def test_loading_an_image(
    peer: Peer, new_daemon: NewDaemon, large: Large, benchmark: BenchmarkFixture, record: Record
) -> None:
    # The archive is made here, at its first use, and not within the measurement.
    assert large.archive.exists()

    def prepare() -> tuple[tuple[Daemon, Large], dict[str, object]]:
        return (new_daemon(peer), large), {}

    def clean(daemon: Daemon, _: Large) -> None:
        daemon.close()

    benchmark.pedantic(loaded, setup=prepare, teardown=clean, rounds=rounds(peer))
    record("load", peer.name, benchmark.stats.stats.data)


@pytest.mark.case("load")
def test_unpacking_without_an_engine(apart: Path, large: Large, record: Record) -> None:
    seconds = []
    for _ in range(ROUNDS):
        # Of another name each time, because the place is chosen by the name.
        target = Path(tempfile.mkdtemp(dir=apart))
        began = time.perf_counter()
        subprocess.run(["tar", "--extract", "--file", large.layer, "--directory", target], check=True)
        seconds.append(time.perf_counter() - began)
        shutil.rmtree(target)
    record("load", UNPACK, seconds)


@pytest.mark.case("save")
def test_saving_an_image(peer: Peer, new_daemon: NewDaemon, large: Large, record: Record) -> None:
    daemon = new_daemon(peer)
    speeds = []
    try:
        loaded(daemon, large)
        for _ in range(rounds(peer)):
            began = time.perf_counter()
            size = saved(daemon)
            speeds.append(size / MEGABYTE / (time.perf_counter() - began))
    finally:
        daemon.close()
    assert size > large.layer.stat().st_size / 5
    record("save", peer.name, speeds)


@pytest.mark.case("save")
def test_packing_without_an_engine(large: Large, record: Record) -> None:
    """tar writes into a pipe, because it does not even read the files when it writes to /dev/null."""
    speeds = []
    command = f"tar --create --directory {large.root} . | cat > /dev/null"
    for _ in range(ROUNDS):
        began = time.perf_counter()
        subprocess.run(["sh", "-c", command], check=True)
        speeds.append(large.layer.stat().st_size / MEGABYTE / (time.perf_counter() - began))
    record("save", PACK, speeds)


@pytest.mark.case("load_memory", "save_memory")
def test_memory_during_both(peer: Peer, new_daemon: NewDaemon, large: Large, record: Record) -> None:
    daemon = new_daemon(peer)
    try:
        with Most(daemon.isolated.members) as loading:
            loaded(daemon, large)
        with Most(daemon.isolated.members) as saving:
            saved(daemon)
    finally:
        daemon.close()
    record("load_memory", peer.name, [loading.value / MEGABYTE])
    record("save_memory", peer.name, [saving.value / MEGABYTE])
