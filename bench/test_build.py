"""Benchmarks of builds: one in which nothing has changed (all steps cached), and the cost of a RUN step beyond its
command.
"""

import statistics
import subprocess
import time
import uuid
from urllib.parse import urlencode

import pytest

from bench import client, image
from bench.peers import Daemon
from bench.results import Record
from tests.harness import rootfs

STEPS = 10
ROUNDS = 9
RUN_ROUNDS = 3
FILES = 50
TAR = {"Content-Type": "application/x-tar"}


def context(dockerfile: str) -> bytes:
    """A build context with a few files beside the Dockerfile."""
    files = [(f"files/{number}", 0o644, b"x" * 1000) for number in range(FILES)]
    return rootfs.archive([("Dockerfile", 0o644, dockerfile.encode()), *files])


def build(connection: client.Connection, body: bytes) -> float:
    """Build this context; returns the seconds."""
    query = urlencode({"networkmode": "none", "rm": 1, "t": "bench-built:latest"})
    began = time.perf_counter()
    lines = connection.call("POST", f"/build?{query}", body, headers=TAR).lines
    seconds = time.perf_counter() - began
    assert "error" not in lines[-1], lines[-1]
    return seconds


@pytest.mark.case("rebuild")
def test_building_again_what_has_not_changed(daemon: Daemon, record: Record) -> None:
    word = uuid.uuid4().hex
    runs = "".join(f"RUN echo {word} >/{number}\n" for number in range(STEPS - 6))
    body = context(f"FROM {image.NAME}\n{runs}COPY files /files\nWORKDIR /tmp\nENV A=b\nLABEL c=d\nEXPOSE 80\n")
    with daemon.connect() as connection:
        first = build(connection, body)
        times = [build(connection, body) * 1e3 for _ in range(ROUNDS)]
    record("rebuild", daemon.peer.name, times, first=first * 1e3)


def command_seconds(script: str) -> float:
    """The seconds that the command of a step takes by itself."""
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        subprocess.run([image.program("busybox"), "sh", "-c", script], check=True)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


@pytest.mark.case("run_step")
def test_what_a_step_costs_over_its_command(daemon: Daemon, record: Record) -> None:
    """The difference between builds with eleven steps and with one, so that the fixed costs of a build are left out."""

    def steps(count: int) -> bytes:
        word = uuid.uuid4().hex
        return context(f"FROM {image.NAME}\n" + "".join(f"RUN echo {word} >/tmp/{n}\n" for n in range(count)))

    own = command_seconds("echo x >/dev/null")
    with daemon.connect() as connection:
        build(connection, steps(1))
        pairs = [(build(connection, steps(1)), build(connection, steps(STEPS + 1))) for _ in range(RUN_ROUNDS)]
    record("run_step", daemon.peer.name, [((many - one) / STEPS - own) * 1e3 for one, many in pairs])
