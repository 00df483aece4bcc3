"""Execs outlive the daemon: one that runs is adopted, and one that has ended is still known by its exit code."""

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.api.test_spares import children
from tests.harness import execs, frames
from tests.harness.daemon import Daemon
from tests.harness.http import Connection
from tests.harness.ready import ready

SECONDS = 60.0
_PIDFD_GETFD = 438
# Says a line every few milliseconds until there is a file, then how many there were, and ends with 23.
TALKER = "i=0; until [ -e /enough ]; do i=$((i+1)); echo line $i; sleep 0.005; done; echo $i in all; exit 23"


def until(true: Callable[[], object], what: str) -> None:
    """Return when it has come true."""
    end = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def crash(daemon: Daemon) -> None:
    """Kill the daemon, and only it, and start it again."""
    daemon.kill9()
    daemon.start()


def enough(daemon: Daemon, container: str) -> Callable[[], None]:
    """What has the talkers in a container end, without any daemon: a file that the container's root makes."""
    pid = daemon.inspect(container)["State"]["Pid"]
    inner, own = (os.stat(f"/proc/{which}/ns/user").st_ino for which in (pid, "self"))
    command = ["nsenter", f"--target={pid}", "--mount", "--root", "--wd", *(["--user"] if inner != own else [])]
    return lambda: subprocess.run([*command, "/bin/touch", "/enough"], check=True)


def whole(said: bytes) -> bool:
    """Whether these are all lines of a talk, by its own count."""
    lines = said.decode().splitlines()
    count = len(lines) - 1
    return count > 0 and lines == [*(f"line {number}" for number in range(1, count + 1)), f"{count} in all"]


@pytest.fixture(scope="module", params=["c", "python"])
def mortal(world, request: pytest.FixtureRequest) -> Iterator[Daemon]:
    """A daemon with one of the two muxers, which is killed and started again, with busybox."""
    daemon = world.daemon(("--muxer", request.param))
    daemon.start()
    daemon.import_busybox()
    yield daemon
    daemon.close()


@pytest.fixture
def one(mortal: Daemon) -> Iterator[str]:
    """A container that runs."""
    container = mortal.create("sleep", "600")
    mortal.begin(container)
    yield container
    if mortal.process is None:
        mortal.start()
    mortal.remove(container)


def homes(daemon: Daemon, container: str) -> list[str]:
    """The files of execs in the container's exec directory."""
    return [name for name in os.listdir(daemon.exec_root / "containers" / container) if name.startswith("exec.")]


def test_an_exec_in_the_foreground_lives_through_three_kills(mortal: Daemon, one: str) -> None:
    """Every line reaches its client; its end is heard by the daemon that is there then, which shows all of it."""
    exec_id = execs.create(mortal, one, "sh", "-c", TALKER, User="root", Privileged=True)
    with execs.attached(mortal, exec_id, timeout=60) as connection:
        said = connection.read_until(b"line 3\n")
        until(lambda: execs.inspect(mortal, exec_id)["Pid"], "the daemon does not know that it runs")
        before = execs.inspect(mortal, exec_id)
        assert before["Running"] and before["Pid"] > 0
        end = enough(mortal, one)
        for _ in range(3):
            crash(mortal)
            assert execs.inspect(mortal, exec_id) == before
            assert exec_id in mortal.inspect(one)["ExecIDs"]
        end()
        said += connection.read_to_end()
    assert execs.inspect(mortal, exec_id) == {**before, "Running": False, "ExitCode": 23}
    assert whole(frames.stdout(said))
    again = execs.create(mortal, one, "true")
    assert execs.run(mortal, one, "sh", "-c", "exit 5").code == 5
    assert execs.inspect(mortal, again)["ExitCode"] is None


def test_an_exec_that_ends_while_no_daemon_is_there_is_known_by_its_exit_code(mortal: Daemon, one: str) -> None:
    """Its client has every line and the end at once."""
    exec_id = execs.create(mortal, one, "sh", "-c", TALKER)
    end = enough(mortal, one)
    with execs.attached(mortal, exec_id, timeout=60) as connection:
        said = connection.read_until(b"line 1\n")
        until(lambda: execs.inspect(mortal, exec_id)["Pid"], "the daemon does not know that it runs")
        mortal.kill9()
        end()
        assert whole(frames.stdout(said + connection.read_to_end()))
    mortal.start()
    shown = execs.inspect(mortal, exec_id)
    assert (shown["Running"], shown["ExitCode"], shown["ContainerID"]) == (False, 23, one)
    assert mortal.inspect(one)["ExecIDs"] is None


def test_an_exec_that_ended_before_the_restart_is_known_too(mortal: Daemon, one: str) -> None:
    """Also a quick one, and one that could not be run is as little known as before it."""
    ids = [execs.create(mortal, one, "sh", "-c", f"exit {code}") for code in (0, 7, 255)]
    for exec_id in ids:
        with execs.attached(mortal, exec_id) as connection:
            connection.read_to_end()
    failed = execs.create(mortal, one, "nosuch")
    with execs.attached(mortal, failed) as connection:
        connection.read_to_end()
    mortal.restart()
    assert [execs.inspect(mortal, exec_id)["ExitCode"] for exec_id in ids] == [0, 7, 255]
    assert mortal.request("GET", f"/exec/{failed}/json").status == 404


def asked(spawner: int) -> bool:
    """Whether a stopped spawner has something to read."""
    pidfd = os.pidfd_open(spawner)
    found = []
    try:
        for name in os.listdir(f"/proc/{spawner}/fd"):
            if os.readlink(f"/proc/{spawner}/fd/{name}").startswith("socket:"):
                found.append(ctypes.CDLL(None).syscall(_PIDFD_GETFD, pidfd, int(name), 0))
        return any(ready(each) for each in found)
    finally:
        for each in (pidfd, *found):
            os.close(each)


@contextlib.contextmanager
def being_started(daemon: Daemon, exec_id: str) -> Iterator[tuple[Connection, int]]:
    """An exec whose client has asked for its start, which the spawner, a stopped process, has not read: the client's
    connection, and the spawner."""
    spawner = children(daemon.pid)["engine spawner"]
    os.kill(spawner, signal.SIGSTOP)
    try:
        with daemon.connection() as connection:
            connection.send_request("POST", f"/exec/{exec_id}/start", {}, {"Connection": "Upgrade", "Upgrade": "tcp"})
            until(lambda: asked(spawner), "the daemon does not start it")
            yield connection, spawner
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(spawner, signal.SIGCONT)


def test_the_head_of_the_answer_comes_when_the_exec_runs(mortal: Daemon, one: str) -> None:
    """Also when the daemon is killed while it starts: then the client has all of it, and the next daemon its code."""
    exec_id = execs.create(mortal, one, "sh", "-c", "echo here; exit 6")
    with being_started(mortal, exec_id) as (connection, spawner):
        assert not ready(connection.socket, 0.2), "the client was told that it runs"
        mortal.kill9()
        os.kill(spawner, signal.SIGCONT)
        assert connection.read_head()[0] == 101
        assert frames.stdout(connection.read_to_end()) == b"here\n"
    mortal.start()
    until(lambda: execs.inspect(mortal, exec_id)["ExitCode"] == 6, "its code is not known")


def test_the_client_of_an_exec_that_came_to_nothing_was_not_told_that_it_runs(mortal: Daemon, one: str) -> None:
    """The daemon and the spawner die before it runs: the connection ends without an answer, which clients tell."""
    exec_id = execs.create(mortal, one, "true")
    with being_started(mortal, exec_id) as (connection, spawner):
        mortal.kill9()
        os.kill(spawner, signal.SIGKILL)
        with contextlib.suppress(ConnectionResetError):
            assert connection.read_to_end() == b""


def test_an_adopted_exec_has_a_terminal_that_can_be_resized(mortal: Daemon, one: str) -> None:
    """And takes what is typed."""
    exec_id = execs.create(mortal, one, "sh", Tty=True, AttachStdin=True)
    with execs.attached(mortal, exec_id, tty=True) as connection:
        connection.read_until(b"# ")
        until(lambda: execs.inspect(mortal, exec_id)["Pid"], "the daemon does not know that it runs")
        crash(mortal)
        assert mortal.request("POST", f"/exec/{exec_id}/resize?h=33&w=77").status == 200
        # The new size and the next bytes take different ways to the terminal; what is typed is shown, too.
        connection.send(b"until stty size | grep '33 7[7]'; do sleep 0.02; done; exit 4\n")
        assert b"33 77" in connection.read_to_end()
    assert execs.inspect(mortal, exec_id)["ExitCode"] == 4


def test_an_exec_whose_monitor_was_killed_meanwhile_is_not_known(mortal: Daemon, one: str) -> None:
    """Nobody can say what became of it, and nothing of it stays behind."""
    exec_id = execs.create(mortal, one, "sleep", "600")
    assert mortal.request("POST", f"/exec/{exec_id}/start", {"Detach": True}).status == 200
    pid = execs.inspect(mortal, exec_id)["Pid"]

    def parent() -> int:
        with open(f"/proc/{pid}/status") as status:
            return int(next(line.split()[1] for line in status if line.startswith("PPid:")))

    def launched() -> bool:
        with contextlib.suppress(FileNotFoundError):  # the half that has launched it ends just now
            return Path(f"/proc/{parent()}/comm").read_text().startswith("engine exec")
        return False

    until(lambda: len(homes(mortal, one)) == 2, "it has no home")
    until(launched, "the half that has launched it stays")
    mortal.kill9()
    os.kill(parent(), signal.SIGKILL)
    mortal.start()
    assert mortal.request("GET", f"/exec/{exec_id}/json").status == 404
    assert homes(mortal, one) == []


def test_the_execs_of_a_container_that_has_ended_are_forgotten(mortal: Daemon, one: str) -> None:
    """Nobody knows them any more; their files go with the run's."""
    exec_id = execs.create(mortal, one, "true")
    with execs.attached(mortal, exec_id) as connection:
        connection.read_to_end()
    assert len(homes(mortal, one)) == 2
    assert mortal.request("POST", f"/containers/{one}/kill").status == 204
    assert mortal.wait(one) == 137
    until(lambda: not (mortal.exec_root / "containers" / one).exists(), "its files stay")
    crash(mortal)
    assert mortal.request("GET", f"/exec/{exec_id}/json").status == 404
