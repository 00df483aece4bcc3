"""The spare that an engine without the C muxer keeps: the next start takes it, and needs it not."""

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.daemon import Daemon
from tests.harness.listening import until


@pytest.fixture
def pure(make_daemon: Callable[..., Daemon]) -> Daemon:
    """A daemon with the Python muxer and busybox."""
    daemon = make_daemon("--muxer", "python")
    daemon.import_busybox()
    return daemon


def children(pid: int) -> dict[str, int]:
    """The children of a process, by their names in ps(1)."""
    found = {}
    for child in map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            found[Path(f"/proc/{child}/comm").read_text().strip()] = child
    return found


def spare(daemon: Daemon) -> tuple[int, int]:
    """The spare's process and its init."""
    spawner = children(daemon.pid)["engine spawner"]
    monitor = until(lambda: children(spawner).get("engine spare"))
    return monitor, until(lambda: children(monitor).get("engine init"))


def test_the_next_start_takes_the_spare(pure: Daemon) -> None:
    """Its init becomes the container's process 1, and another spare is made."""
    monitor, init = spare(pure)
    container = pure.create("sleep", "600")
    pure.begin(container)
    assert Path(f"/proc/{init}/comm").read_text() == "sleep\n"
    assert Path(f"/proc/{monitor}/comm").read_text() == "engine monitor"[:15] + "\n"
    assert spare(pure)[0] != monitor
    pure.remove(container)


def test_a_start_that_a_spare_cannot_serve_leaves_it(pure: Daemon) -> None:
    before = spare(pure)
    assert pure.run("echo", "on the host's", HostConfig={"NetworkMode": "host"}).stdout == b"on the host's\n"
    assert spare(pure) == before


@pytest.mark.parametrize("which", [0, 1], ids=["the monitor", "its init"])
def test_a_spare_that_was_killed_costs_no_start(pure: Daemon, which: int) -> None:
    os.kill(spare(pure)[which], signal.SIGKILL)
    assert pure.run("echo", "made anew").stdout == b"made anew\n"
    assert pure.run("echo", "and again").stdout == b"and again\n"


def test_a_spare_ends_with_the_spawner(pure: Daemon) -> None:
    both = spare(pure)
    pure.kill9()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in both))
    pure.start()
