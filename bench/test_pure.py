"""Benchmarks of this engine as a clone has it that nothing was built in: without the C part."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import client, image, memory, stream
from bench.cases import OURS
from bench.flow import WARMUP, Flow
from bench.peers import PURE, Daemon, NewDaemon
from bench.results import Record

FLOWS = 30
MANY = 10
SETTLE_SECONDS = 1.0


@pytest.fixture
def pure(new_daemon: NewDaemon, workshop: Path) -> Iterator[Daemon]:
    """A new engine without its C part, which has the image."""
    daemon = new_daemon(PURE)
    try:
        daemon.give_image(workshop / "rootfs.tar")
        yield daemon
    finally:
        daemon.close()


@pytest.mark.case("pure_flow", "pure_memory", "pure_logs_write", "pure_logs_read")
def test_the_engine_without_its_c_part(pure: Daemon, record: Record, megabytes: int) -> None:
    with pure.connect() as connection:
        flow = Flow(connection, "none")
        for _ in range(WARMUP + FLOWS):
            flow()
        record("pure_flow", OURS, [sum(times) * 1e3 for times in zip(*flow.steps.values(), strict=True)])
        record("pure_memory", OURS, [memory_of_one(pure, connection)])
        writer = stream.create(connection, megabytes, HostConfig={"NetworkMode": "none", **pure.peer.whole_log})
        began = time.perf_counter()
        client.start(connection, writer)
        assert client.wait(connection, writer) == 0
        record("pure_logs_write", OURS, [stream.size(megabytes) / 1e6 / (time.perf_counter() - began)])
        with pure.connect() as reading:
            began = time.perf_counter()
            assert reading.count(f"/containers/{writer}/logs?stdout=1") >= stream.size(megabytes)
            record("pure_logs_read", OURS, [stream.size(megabytes) / 1e6 / (time.perf_counter() - began)])


def memory_of_one(daemon: Daemon, connection: client.Connection) -> float:
    """The megabytes (PSS) that the engine takes more for each of `MANY` containers."""
    before = memory.pss(daemon.isolated.members())
    containers = [client.create(connection, image.NAME, ["sleep", "600"]) for _ in range(MANY)]
    for container in containers:
        client.start(connection, container)
    time.sleep(SETTLE_SECONDS)
    taken = memory.pss(daemon.isolated.members()) - before
    for container in containers:
        client.remove(connection, container, force=True)
    return taken / MANY / 1e6
