"""Benchmarks of an engine that sleeps: how long the first answer takes, and what the sleeper costs meanwhile."""

import contextlib
import dataclasses
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench import client, image, memory, peers
from bench.cases import OURS
from bench.peers import Daemon, Launch, NewDaemon
from bench.results import Record

ROUNDS = 3
MANY, THOUSAND, RUNNING, GENERATIONS = 100, 1000, 10, 10
SECONDS = 60.0
WATCHED_SECONDS = 10.0
MEGABYTE = 1e6


def _listening(directory: Path, socket: Path) -> Launch:
    launch = peers.BY_NAME[OURS].launch(directory, socket)
    words = ["listen" if word == "daemon" else word for word in launch.argv]
    return dataclasses.replace(launch, argv=[*words, "--idle-exit", "1"])


SLEEPING = dataclasses.replace(peers.BY_NAME[OURS], launch=_listening)


@pytest.mark.case(
    *("wakeup", "wakeup_list", "wakeup_many", "wakeup_cold", "wakeup_ps", "wakeup_thousand", "wakeup_thousand_list"),
    *("asleep_memory", "asleep_writes"),
)
def test_an_engine_that_sleeps(new_daemon: NewDaemon, workshop: Path, record: Record) -> None:
    daemon = new_daemon(SLEEPING)
    try:
        record("wakeup", OURS, [asked(daemon, "/_ping") for _ in range(ROUNDS)])
        record("wakeup_list", OURS, [asked(daemon, "/containers/json") for _ in range(ROUNDS)])
        daemon.give_image(workshop / "rootfs.tar")
        add(daemon, MANY)
        record("wakeup_many", OURS, [asked(daemon, "/_ping") for _ in range(ROUNDS)])
        record("wakeup_cold", OURS, [asked(daemon, "/_ping", forget_files) for _ in range(ROUNDS)])
        with running(daemon, RUNNING):
            if shutil.which("docker") is not None:
                record("wakeup_ps", OURS, [listed(daemon) for _ in range(ROUNDS)])
        add(daemon, THOUSAND - MANY)
        record("wakeup_thousand", OURS, [asked(daemon, "/_ping") for _ in range(ROUNDS)])
        record("wakeup_thousand_list", OURS, [asked(daemon, "/containers/json?all=1") for _ in range(ROUNDS)])
        await_sleep(daemon)
        pids = daemon.isolated.members()
        assert len(pids) == 1, "more than the sleeper runs"
        record("asleep_memory", OURS, [memory.pss(pids) / MEGABYTE], processes=len(pids))
        before = writes(pids)
        time.sleep(WATCHED_SECONDS)
        assert daemon.isolated.members() == pids, "something has woken the engine"
        record("asleep_writes", OURS, [writes(pids) - before])
    finally:
        daemon.close()


@pytest.mark.case("asleep_generation")
def test_what_each_waking_leaves_with_its_container(new_daemon: NewDaemon, workshop: Path, record: Record) -> None:
    """Of daemons that have gone, only the monitors of their containers are there: what they keep besides PSS counts."""
    daemon, found = new_daemon(SLEEPING), []
    try:
        daemon.give_image(workshop / "rootfs.tar")
        await_sleep(daemon)
        with memory.Cgroup(daemon.isolated.members) as cgroup:
            for _ in range(GENERATIONS + 1):
                with daemon.connect() as connection:
                    client.start(connection, client.create(connection, image.NAME, ["sleep", "600"]))
                await_sleep(daemon)
                pids = daemon.isolated.members()
                measures = (cgroup.charged(), memory.pss(pids), memory.distinct(pids), memory.available())
                found.append([each / MEGABYTE for each in measures])
        each, pss, distinct, available = (
            (last - first) / GENERATIONS for first, last in zip(found[0], found[-1], strict=True)
        )
        record("asleep_generation", OURS, [each], pss=pss, distinct=distinct, available=available)
    finally:
        daemon.close()


def add(daemon: Daemon, count: int) -> None:
    """Make so many containers, which are never started."""
    with daemon.connect() as connection:
        for _ in range(count):
            client.create(connection, image.NAME, ["sleep", "600"])


@contextlib.contextmanager
def running(daemon: Daemon, count: int) -> Iterator[None]:
    """So many containers more, which run meanwhile."""
    with daemon.connect() as connection:
        made = [client.create(connection, image.NAME, ["sleep", "600"]) for _ in range(count)]
        for each in made:
            client.start(connection, each)
    yield
    with daemon.connect() as connection:
        for each in made:
            client.remove(connection, each, force=True)


def listed(daemon: Daemon) -> float:
    """The milliseconds of a whole `docker ps`, the client's own start with it, while the engine sleeps."""
    await_sleep(daemon)
    environment = {**os.environ, "DOCKER_HOST": f"unix://{daemon.socket}"}
    began = time.perf_counter()
    shown = subprocess.run(["docker", "ps"], env=environment, capture_output=True, text=True, check=True)
    spent = (time.perf_counter() - began) * 1000
    assert shown.stdout.count(" Up ") == RUNNING, shown.stdout
    return spent


def forget_files() -> None:
    """Have the kernel drop what it keeps of files, as after a boot (Documentation/admin-guide/sysctl/vm.rst)."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")


def asked(daemon: Daemon, path: str, before: Callable[[], None] = lambda: None) -> float:
    """The milliseconds from the connection to a sleeping engine to its whole answer. before: done while it sleeps"""
    await_sleep(daemon)
    before()
    started = time.perf_counter()
    with daemon.connect() as connection:
        connection.call("GET", path)
    return (time.perf_counter() - started) * 1000


def await_sleep(daemon: Daemon) -> None:
    """Return when no daemon runs."""
    end = time.monotonic() + SECONDS
    while any(b"\0daemon\0" in command(pid) for pid in daemon.isolated.members()):
        assert time.monotonic() < end, daemon.isolated.tail()
        time.sleep(0.05)
    time.sleep(0.1)  # whoever starts the next daemon has seen the end of the last one


def command(pid: int) -> bytes:
    """The command line of a process whose program is not the sleeper, which names the daemon's; empty for that."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):  # the second where it ends while it is read
        return b""
    return b"" if words.startswith(b"engine listen\0") else words


def writes(pids: list[int]) -> int:
    """How often these processes have called write(2) and its kin, by the kernel's count (proc_pid_io(5))."""
    found = 0
    for pid in pids:
        rows = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
        found += int(rows["syscw"])
    return found
