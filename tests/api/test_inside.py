"""SIGUSR1: a daemon that is stuck says where, and nobody else of the engine's dies of it."""

import contextlib
import os
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.inspection import tree
from tests.harness import execs
from tests.harness.daemon import Daemon
from tests.harness.fixtures import World, running
from tests.harness.listening import until


@pytest.fixture(scope="module")
def looked(world: World) -> Iterator[Daemon]:
    """A daemon with busybox."""
    with running(world.daemon()) as daemon:
        daemon.import_busybox()
        yield daemon


def told(daemon: Daemon) -> str:
    """What the daemon says at SIGUSR1, once it has said all of it."""
    before = len(daemon.log)
    os.kill(daemon.pid, signal.SIGUSR1)
    until(lambda: re.search(r"^  \d+ others are free$", daemon.log[before:], re.MULTILINE))
    return daemon.log[before:]


def until_told(daemon: Daemon, word: str) -> str:
    """What `told` returns, asked again and again until this is in it."""
    return until(lambda: next((text for text in [told(daemon)] if word in text), None))


@contextlib.contextmanager
def asleep(daemon: Daemon) -> Iterator[str]:
    """A container that sleeps, with an exec in it; its id."""
    name = "asleep"
    container = daemon.create("sleep", "600", name=name)
    try:
        daemon.begin(container)
        answer = daemon.request("POST", f"/exec/{execs.create(daemon, name, 'sleep', '600')}/start", {"Detach": True})
        assert answer.status == 200, answer
        yield container
    finally:
        daemon.remove(container)


def test_threads_and_links_are_in_the_log(looked: Daemon) -> None:
    """By the names of the threads, with the request that each serves."""
    with asleep(looked) as container:
        called = f"container {container[:12]} asleep"
        waiter = threading.Thread(target=lambda: looked.request("POST", f"/containers/{container}/wait"))
        waiter.start()
        seen = until_told(looked, f"/containers/{container}/wait, about")
        assert f"SIGUSR1: the threads, links and locks of process {looked.pid}\n" in seen
        assert '"MainThread"' in seen and '"links"' in seen and "monitors.py" in seen
        assert re.search(rf"request \d+ POST \S*/containers/{container}/wait, about {called}, for \d+\.\d s\n", seen)
        assert re.search(rf"  monitor of {called}: descriptor \d+, watched\n", seen)
        assert re.search(rf"  monitor of exec \w{{12}} in {called}: descriptor \d+, watched\n", seen)
        assert re.search(r"  spawner: descriptor \d+\n  resolver: not started\n", seen)
    waiter.join()


def send(pids: list[int], number: int) -> None:
    """Signal each; the process of an exec or a container that has just gone may have ended since it was listed."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def test_a_lock_that_is_held_is_named_with_who_waits(looked: Daemon) -> None:
    """A start whose monitor is stopped holds the container; a rename waits for it."""
    container = looked.create("sleep", "600", name="held")
    spawner = next(row.brief.pid for row in tree.find(str(looked.exec_root)).rows if row.brief.kind == "spawner")
    stopped = [row.brief.pid for row in tree.find(str(looked.exec_root)).rows if row.depth > 0]
    paths = (f"/containers/{container}/start", f"/containers/{container}/rename?name=later")
    asking = []
    try:
        send(stopped, signal.SIGSTOP)
        for path in paths:
            asking.append(threading.Thread(target=looked.request, args=("POST", path)))
            asking[-1].start()
            until_told(looked, path.partition("?")[0])
        text = until_told(looked, " waiting\n")
        lock = f"operation of container {container[:12]} held"
        assert re.search(rf"^  {lock}: held by \".*\" \(0x\w+\) for \d+\.\d s; \".*\" \(0x\w+\) waiting$", text, re.M)
        assert re.search(rf"^    waits for the lock {lock} for \d+\.\d s$", text, re.M)
    finally:
        send(stopped, signal.SIGCONT)
        for thread in asking:
            thread.join()
        looked.remove(container)
    assert spawner in stopped


def test_nobody_of_the_engine_dies_of_it(looked: Daemon) -> None:
    """The others have nothing to say, and ignore it; a container's process 1 decides for itself."""
    with asleep(looked) as container:
        kinds = {"daemon", "spawner", "monitor", "exec"}

        def found() -> list[int]:
            return [row.brief.pid for row in tree.find(str(looked.exec_root)).rows if row.brief.kind in kinds]

        # A monitor takes its name a moment after the start was answered.
        pids = until(lambda: these if len(these := found()) == len(kinds) else None)
        for pid in pids:
            os.kill(pid, signal.SIGUSR1)
        assert execs.shell(looked, container, "echo alive") == "alive"
        assert all(Path(f"/proc/{pid}").exists() for pid in pids)
        ignored = int(execs.shell(looked, container, "grep SigIgn /proc/self/status").split()[1], 16)
        assert not ignored & 1 << signal.SIGUSR1 - 1
