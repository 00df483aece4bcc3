"""Benchmark of an engine's memory: idle, for each running container, and after the containers are gone."""

import time
from pathlib import Path

import pytest

from bench import client, image, memory
from bench.peers import Daemon
from bench.results import Record

MANY = 20
SETTLE_SECONDS = 1.0
MEGABYTE = 1e6


@pytest.mark.case("memory_idle", "memory_container", "memory_after")
def test_memory_of_all_the_processes(lone_daemon: Daemon, workshop: Path, record: Record) -> None:
    lone_daemon.give_image(workshop / "rootfs.tar")
    containers = []
    with lone_daemon.connect() as connection, memory.Cgroup(lone_daemon.isolated.members) as cgroup:
        # No event shows when an engine has finished its work after the last answer.
        time.sleep(SETTLE_SECONDS)
        idle = measure(lone_daemon, cgroup)
        # One container comes and goes first: what an engine loads for its first one is no memory of each.
        client.start(connection, container := client.create(connection, image.NAME, ["sleep", "600"]))
        client.remove(connection, container, force=True)
        time.sleep(SETTLE_SECONDS)
        warm = measure(lone_daemon, cgroup)
        for _ in range(MANY):
            containers.append(client.create(connection, image.NAME, ["sleep", "600"]))
            client.start(connection, containers[-1])
        time.sleep(SETTLE_SECONDS)
        full = measure(lone_daemon, cgroup)
        for container in containers:
            client.remove(connection, container, force=True)
        time.sleep(SETTLE_SECONDS)
        after = measure(lone_daemon, cgroup)
    each = {name: (full[name] - warm[name]) / MANY for name in warm}
    for case, figures in (("memory_idle", idle), ("memory_container", each), ("memory_after", after)):
        record(case, lone_daemon.peer.name, [figures.pop("pss")], **figures)


def measure(daemon: Daemon, cgroup: memory.Cgroup) -> dict[str, float]:
    """The measures of `memory` in megabytes, and the number of processes, of the engine without its containers."""
    # The child of a spare is counted: what the spawner shares with it would be missing in the idle engine's PSS, and
    # would seem to be taken by the first containers.
    pids = [*daemon.isolated.members(), *daemon.isolated.prepared()]
    return {
        "pss": memory.pss(pids) / MEGABYTE,
        "distinct": memory.distinct(pids) / MEGABYTE,
        "charged": cgroup.charged() / MEGABYTE,
        "available": memory.available() / MEGABYTE,
        "processes": len(pids),
    }
