"""The spare that an engine keeps: the next start takes it, and needs it not."""

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness import execs
from tests.harness.daemon import PYTHON, Daemon
from tests.harness.listening import until
from tests.harness.released import monitor_of


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


def waiting_joiner(daemon: Daemon) -> int | None:
    """The child of the spare for execs, which bears its name."""
    spawner = children(daemon.pid)["engine spawner"]
    for spare in Path(f"/proc/{spawner}/task/{spawner}/children").read_text().split():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if "engine spare" in (found := children(int(spare))):
                return found["engine spare"]
    return None


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


@pytest.mark.parametrize("which", ["the monitor", "its init"])
def test_a_spare_of_c_that_was_killed_costs_no_start(own_daemon: Daemon, which: str) -> None:
    """Nor does one that is killed when it has taken the request: its init is, and does not hear of the plan."""
    monitor, init = spare(own_daemon)
    os.kill(init if which == "its init" else monitor, signal.SIGKILL)
    for number in range(3):
        assert own_daemon.run("echo", f"made anew {number}").stdout == b"made anew %d\n" % number


def test_a_spare_for_execs_that_was_killed_costs_no_exec(own_daemon: Daemon) -> None:
    """Its joiner waits for the plan."""
    container = own_daemon.create("sleep", "600")
    own_daemon.begin(container)
    assert execs.run(own_daemon, container, "true").code == 0
    os.kill(until(lambda: waiting_joiner(own_daemon)), signal.SIGKILL)
    assert execs.run(own_daemon, container, "echo", "made anew").out == "made anew\n"
    own_daemon.remove(container)


def test_a_spare_ends_with_the_spawner(pure: Daemon) -> None:
    both = spare(pure)
    pure.kill9()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in both))
    pure.start()


@pytest.mark.skipif(sys.executable != PYTHON, reason="with musl the memory of C is not apart from that of Python")
def test_a_spare_in_c_has_no_part_of_pythons_memory(own_daemon: Daemon) -> None:
    """Its fork copies no page tables of what the spawner has put into a file, and it has run nothing that needs it."""
    assert all(mapped(pid) < 1 << 20 for pid in spare(own_daemon))


def test_a_monitor_in_c_has_a_few_pages_of_its_own(own_daemon: Daemon) -> None:
    """The state of its container, the names of its variables, and a stack: 28 KB, where malloc(3) made it 80."""
    container = own_daemon.create("sleep", "600")
    own_daemon.begin(container)
    monitor = monitor_of(own_daemon.inspect(container)["State"]["Pid"])
    assert until(lambda: own(monitor) < 48 << 10)
    own_daemon.remove(container)


def test_no_generation_of_the_engine_leaves_memory_in_its_monitors(own_daemon: Daemon) -> None:
    """Neither a daemon that was killed, nor one that was stopped, nor a spawner that has died: not in the monitor of a
    container, nor in that of an exec, which the next daemon still attaches to and resizes."""
    ends = (
        own_daemon.kill9,
        own_daemon.stop,
        lambda: os.kill(children(own_daemon.pid)["engine spawner"], signal.SIGKILL),
    )
    containers, monitors = [], set()
    for end in ends:
        containers.append(own_daemon.create("cat", Tty=True, OpenStdin=True))
        own_daemon.begin(containers[-1])
        monitors.add(monitor_of(own_daemon.inspect(containers[-1])["State"]["Pid"]))
        with execs.attached(own_daemon, execs.create(own_daemon, containers[-1], "sleep", "600")):
            (one,) = own_daemon.inspect(containers[-1])["ExecIDs"]
            monitors.add(monitor_of(execs.inspect(own_daemon, one)["Pid"]))
        end()
        if own_daemon.process is None:
            own_daemon.start()
    assert len(monitors) == 2 * len(ends)
    for each in monitors:
        assert until(lambda each=each: shared(each) < 300 << 10)
    for each in containers:
        with own_daemon.connection() as client:
            client.hijack(f"/containers/{each}/attach?stream=1&stdin=1&stdout=1")
            assert own_daemon.request("POST", f"/containers/{each}/resize?h=11&w=22").status == 200
            client.send(b"still here\n")
            assert b"still here" in client.read(10)
        own_daemon.remove(each)


def shared(pid: int) -> int:
    """Bytes that a process has in common with others, or had with those that have ended, and that are no files' of a
    disk: all that it keeps in the host's memory for itself."""
    rollup = dict(line.split(":") for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    shmem = sum(
        int(line.split()[1])
        for part in Path(f"/proc/{pid}/smaps").read_text().split("VmFlags")
        if "memfd" in part
        for line in part.splitlines()
        if line.startswith("Size:")
    )
    return (int(rollup["Anonymous"].split()[0]) + shmem) << 10


def own(pid: int) -> int:
    """Bytes that no other process has."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return next(int(line.split()[1]) << 10 for line in rollup.splitlines() if line.startswith("Private_Dirty:"))


def mapped(pid: int) -> int:
    """Bytes of a process's mappings that are no files'."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("RssAnon:"))
