"""Benchmark of the throughput of a container's output to an attached client, without a log."""

import threading

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench import client, stream
from bench.peers import Daemon
from bench.results import Record

ROUNDS = 3


@pytest.mark.case("attach")
def test_reading_an_attached_stream_to_its_end(
    daemon: Daemon, benchmark: BenchmarkFixture, record: Record, megabytes: int
) -> None:
    host = {"NetworkMode": "none", "LogConfig": {"Type": "none"}}
    with daemon.connect() as connection:

        def prepare() -> tuple[tuple[str, client.Connection], dict[str, object]]:
            container = stream.create(connection, megabytes, AttachStdout=True, HostConfig=host)
            attached = daemon.connect()
            attached.hijack(f"{attached.prefix}/containers/{container}/attach?stream=1&stdout=1&stderr=1")
            return (container, attached), {}

        def run(container: str, attached: client.Connection) -> None:
            # One engine answers the start only once the output is read, so a thread sends the start and this one reads.
            starting = threading.Thread(target=client.start, args=(connection, container))
            starting.start()
            size = attached.drain()
            starting.join()
            assert size >= stream.size(megabytes)

        def clean(container: str, attached: client.Connection) -> None:
            attached.close()
            client.remove(connection, container, force=True)

        benchmark.pedantic(run, setup=prepare, teardown=clean, rounds=ROUNDS)
    record("attach", daemon.peer.name, [stream.size(megabytes) / 1e6 / t for t in benchmark.stats.stats.data])
