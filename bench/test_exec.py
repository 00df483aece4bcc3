"""Benchmark of the time to run a command in a running container: create the exec, start it attached, inspect it; and of
the same without an engine.
"""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench import client, direct, image
from bench.peers import Daemon
from bench.results import Record

WARMUP = 5
HELLO = b"\x01\0\0\0\0\0\0\x03hi\n"
COMMAND = {"Cmd": ["echo", "hi"], "AttachStdout": True, "AttachStderr": True}


@pytest.mark.case("exec")
def test_exec_through_the_api(
    daemon: Daemon, benchmark: BenchmarkFixture, record: Record, rounds: Callable[[float], int]
) -> None:
    with daemon.connect() as connection:
        container = client.create(connection, image.NAME, ["sleep", "600"])
        client.start(connection, container)

        def once() -> None:
            made = connection.call("POST", f"/containers/{container}/exec", COMMAND, 201).json()["Id"]
            with daemon.connect() as attached:
                answer = attached.call("POST", f"/exec/{made}/start", {"Detach": False, "Tty": False})
            ended = connection.call("GET", f"/exec/{made}/json").json()
            assert (answer.body, ended["ExitCode"]) == (HELLO, 0)

        began = time.perf_counter()
        for _ in range(WARMUP):
            once()
        benchmark.pedantic(once, rounds=rounds((time.perf_counter() - began) / WARMUP))
        client.remove(connection, container, force=True)
    record("exec", daemon.peer.name, [seconds * 1e3 for seconds in benchmark.stats.stats.data])


@pytest.mark.case("exec")
@pytest.mark.skipif(shutil.which("crun") is None, reason="crun is not installed")
def test_exec_without_an_engine(
    workshop: Path, benchmark: BenchmarkFixture, record: Record, pytestconfig: pytest.Config
) -> None:
    tool = direct.CRUN_EXEC
    with direct.Direct(tool, workshop / "rootfs", workshop / "crun-exec") as container:
        benchmark.pedantic(container.once, rounds=pytestconfig.getoption("--repeats"), warmup_rounds=WARMUP)
    record("exec", tool.name, [seconds * 1e3 for seconds in benchmark.stats.stats.data])
