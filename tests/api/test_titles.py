"""What the engine's processes are called in ps(1), by either muxer, and `inspect-processes`, which reads it."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api import networking
from tests.harness import execs
from tests.harness.daemon import Daemon
from tests.harness.fixtures import World, running
from tests.harness.listening import until

MUXERS = ("auto", "python")


@pytest.fixture(scope="module", params=MUXERS)
def titled(world: World, request: pytest.FixtureRequest) -> Iterator[Daemon]:
    """A daemon with busybox, by one muxer and by the other."""
    with running(world.daemon(["--muxer", request.param])) as daemon:
        daemon.import_busybox()
        yield daemon


@contextlib.contextmanager
def busy(daemon: Daemon) -> Iterator[str]:
    """A container called `busy` with an exec in it, in a network of its own, whose lines go to syslog; its id."""
    logs = {"Type": "syslog", "Config": {"syslog-address": f"unixgram://{daemon.root}/syslog"}}
    with contextlib.ExitStack() as stack:
        stack.enter_context(syslog(daemon.root / "syslog"))
        stack.enter_context(networking.networks(daemon, titles={}))
        host = {"NetworkMode": "titles", "LogConfig": logs}
        name = stack.enter_context(networking.container(daemon, name="busy", HostConfig=host))
        answer = daemon.request("POST", f"/exec/{execs.create(daemon, name, 'sleep', '600')}/start", {"Detach": True})
        assert answer.status == 200, answer
        # They take their names a moment after the start was answered.
        names = {"engine monitor", "engine exec", "engine forward", "engine resolver"}
        until(lambda: names <= {said for said, _ in family(daemon.pid).values()})
        yield daemon.inspect(name)["Id"]


@contextlib.contextmanager
def syslog(path: Path) -> Iterator[object]:
    """Somebody who takes lines."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(path))
        try:
            yield listener
        finally:
            path.unlink()


def family(pid: int) -> dict[int, tuple[str, str]]:
    """pid → (command's name, command line) of a process and of all that descend from it."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found = {pid}
    while more := {each for each, parent in parents.items() if parent in found} - found:
        found |= more
    said = {}
    for each in found:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            line = Path(f"/proc/{each}/cmdline").read_text().replace("\0", " ").strip()
            said[each] = Path(f"/proc/{each}/comm").read_text().strip(), line
    return said


def expected(container: str) -> set[tuple[str, str]]:
    """The names and the lines of all processes, but for the daemon's line."""
    short = container[:12]
    kinds = {"monitor": short, "exec": short, "forward": short, "resolver": "", "spawner": "", "spare": "", "init": ""}
    named = {(f"engine {kind}", f"engine {kind} {of}".strip()) for kind, of in kinds.items()}
    return {*named, ("sleep", "sleep 600")}


def test_every_process_says_what_it_is(titled: Daemon) -> None:
    """And but for the daemon's own, no command line tells a container of the host."""
    with busy(titled) as container:
        wanted = expected(container)
        here = until(lambda: {said for pid, said in family(titled.pid).items() if pid != titled.pid} == wanted or None)
        assert here
        assert family(titled.pid)[titled.pid][0] == "engine daemon"
        assert "engine daemon" in family(titled.pid)[titled.pid][1]


def inspect_processes(*options: object) -> subprocess.CompletedProcess:
    """What `python3 -m engine inspect-processes` prints."""
    command = [sys.executable, "-m", "engine", "inspect-processes", *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def rows(text: str) -> dict[str, str]:
    """What was printed, by the name of each process that is there once."""
    lines = [line for line in text.splitlines() if line[:1].isdigit()]
    names = ("daemon", "spawner", "monitor", "exec ", "resolver", "forward", "sleep")
    return {name: line for line in lines for name in names if name in line}


def test_an_operator_sees_the_tree(titled: Daemon) -> None:
    """Each process with its container, memory, threads, descriptors, and where it waits."""
    with busy(titled) as container:
        short = container[:12]
        told = inspect_processes("--exec-root", titled.exec_root)
        assert told.returncode == 0, told.stderr
        by_name = rows(told.stdout)
        assert by_name["daemon"].split()[0] == str(titled.pid)
        for name in ("monitor", "exec ", "forward"):
            assert f"{short} busy" in by_name[name], told.stdout
        assert "1 pidfds" in by_name["monitor"] and "logs" in by_name["monitor"] and "pipes" in by_name["monitor"]
        assert "sockets" in by_name["resolver"] and "MB" in by_name["resolver"]
        assert inspect_processes("--pidfile", titled.pidfile).stdout.splitlines()[0] == told.stdout.splitlines()[0]


def test_a_daemon_that_hangs_or_is_dead_does_not_hide_the_others(titled: Daemon) -> None:
    """It is not asked, and what it has left is found by what it is called."""
    with busy(titled) as container:
        os.kill(titled.pid, signal.SIGSTOP)
        try:
            until(lambda: Path(f"/proc/{titled.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
            stopped = inspect_processes("--exec-root", titled.exec_root)
            assert "state T" in rows(stopped.stdout)["daemon"] or "do_signal_stop" in rows(stopped.stdout)["daemon"]
            assert f"{container[:12]} busy" in rows(stopped.stdout)["monitor"]
        finally:
            os.kill(titled.pid, signal.SIGCONT)
        titled.kill9()
        left = inspect_processes("--exec-root", titled.exec_root)
        titled.start()
        assert left.stdout.startswith("No daemon runs"), left
        found = rows(left.stdout)
        assert f"{container[:12]} busy" in found["monitor"] and "daemon" not in found
        assert {"resolver", "forward", "exec "} <= set(found)


def test_where_there_is_no_engine_it_says_so(tmp_path: Path) -> None:
    """In words, with a status of its own."""
    told = inspect_processes("--exec-root", tmp_path)
    assert (told.returncode, told.stdout) == (1, "")
    assert "no process of an engine" in told.stderr
    (tmp_path / "pid").write_text(f"{os.getpid()}\n")
    assert "is not a running daemon" in inspect_processes("--pidfile", tmp_path / "pid").stderr
    assert "cannot read a process id" in inspect_processes("--pidfile", tmp_path / "none").stderr
    assert inspect_processes("--help").stdout.startswith("Usage: engine inspect-processes")
