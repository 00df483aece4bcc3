"""Clients that wait for a container's end live through their daemon's death: kill -9, or an orderly stop.

The monitor has their connections too. Each answer is read to the end of its body, so that one that was sent twice, or
into another, would not parse.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.api.test_crash import monitor_of
from tests.api.test_many_waiters import told, waiting
from tests.harness.daemon import Daemon
from tests.harness.fixtures import World
from tests.harness.http import Connection

SECONDS = 60.0
UNTIL_TOLD = "trap 'exit {}' USR1; echo ready; while :; do sleep 0.02; done"
QUIET = {"NetworkMode": "none"}


@contextmanager
def wait_for(daemon: Daemon, container: str, condition: str = "") -> Iterator[Connection]:
    """A client that waits: it has read the head."""
    query = f"?condition={condition}" if condition else ""
    with daemon.connection(timeout=60) as connection:
        status, _ = connection.open_stream("POST", f"/containers/{container}/wait{query}")
        assert status == 200
        yield connection


def answer(connection: Connection) -> bytes:
    """The whole body of the answer, which must have its end."""
    return b"".join(connection.chunks()).strip()


def until(true: Callable[[], object], what: str) -> None:
    """Return when it has come true."""
    end = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def begin(daemon: Daemon, container: str) -> int:
    """Start a container that is told to end, once it can be told; its process 1."""
    daemon.begin(container)
    until(lambda: b"ready" in daemon.logs(container), "the container says nothing")
    return daemon.inspect(container)["State"]["Pid"]


def gone(pid: int) -> bool:
    """Whether a process has ended; its parent, in another namespace, may not have reaped it."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def crash(daemon: Daemon, how: Callable[[Daemon], object] = Daemon.kill9) -> None:
    """End the daemon and start it again."""
    how(daemon)
    daemon.start()


@pytest.fixture
def ends(crashing: Daemon) -> Iterator[Callable[..., str]]:
    """Start a container that ends with 23 when it is told to; it is removed after the test."""
    made = []

    def start(*, begun: bool = True, **how: object) -> str:
        made.append(crashing.create("sh", "-c", UNTIL_TOLD.format(23), **how))
        if begun:
            begin(crashing, made[-1])
        return made[-1]

    yield start
    if crashing.process is None:
        crashing.start()
    for one in made:
        crashing.remove(one)


def tell(daemon: Daemon, container: str) -> None:
    """Have it end."""
    assert daemon.request("POST", f"/containers/{container}/kill?signal=USR1").status == 204


@pytest.mark.parametrize(
    ("condition", "kills"),
    [
        pytest.param("", (Daemon.kill9, Daemon.kill9, Daemon.kill9), id="default"),
        pytest.param("next-exit", (Daemon.stop,), id="next-exit"),
    ],
)
def test_who_waits_lives_through_three_kills(
    crashing: Daemon, ends: Callable[..., str], condition: str, kills: tuple
) -> None:
    """And an orderly stop; the end comes while a daemon is there that knows nothing of the waiting."""
    one = ends()
    with wait_for(crashing, one, condition) as connection:
        for how in kills:
            crash(crashing, how)
        tell(crashing, one)
        assert answer(connection) == b'{"StatusCode":23}'
        assert crashing.inspect(one)["State"]["Status"] == "exited"  # the end was recorded first


def test_who_waits_before_the_start_lives_through_it_too(crashing: Daemon, ends: Callable[..., str]) -> None:
    """docker run does this: it waits for the next exit and only then starts the container."""
    one = ends(begun=False)
    with wait_for(crashing, one, "next-exit") as connection:
        begin(crashing, one)
        crash(crashing)
        tell(crashing, one)
        assert answer(connection) == b'{"StatusCode":23}'


@pytest.mark.parametrize("code", [7, 42])
def test_without_any_daemon_the_monitor_answers(crashing: Daemon, code: int) -> None:
    """In the daemon's own bytes, and then it ends. The next daemon knows the end as well."""
    one = crashing.create("sh", "-c", UNTIL_TOLD.format(code))
    pid, monitor = begin(crashing, one), monitor_of(crashing, one)
    with wait_for(crashing, one) as connection:
        crashing.kill9()
        os.kill(pid, signal.SIGUSR1)
        assert answer(connection) == b'{"StatusCode":%d}' % code
        assert connection.read_to_end() == b""
    until(lambda: gone(monitor), "the monitor stayed")
    crashing.start()
    assert crashing.inspect(one)["State"]["ExitCode"] == code
    crashing.remove(one)


def test_an_old_client_without_chunks_is_answered_as_well(crashing: Daemon, ends: Callable[..., str]) -> None:
    """HTTP/1.0: the body ends with the connection."""
    one = ends()
    pid = crashing.inspect(one)["State"]["Pid"]
    with crashing.connection(timeout=60) as connection:
        connection.send(f"POST /containers/{one}/wait HTTP/1.0\r\n\r\n".encode())
        connection.read_until(b"\r\n\r\n")
        crashing.kill9()
        os.kill(pid, signal.SIGUSR1)
        assert connection.read_to_end() == b'{"StatusCode":23}\n'


def test_who_waits_for_the_removal_is_told_when_the_next_daemon_has_removed_it(
    crashing: Daemon, ends: Callable[..., str]
) -> None:
    """The container ends while there is no daemon; nobody is told that it is removed before it is."""
    one = ends(begun=False, HostConfig={**QUIET, "AutoRemove": True}, name="survivor")
    with wait_for(crashing, one, "removed") as connection:
        pid, monitor = begin(crashing, one), monitor_of(crashing, one)
        crashing.kill9()
        os.kill(pid, signal.SIGUSR1)
        until(lambda: gone(pid), "the container did not end")
        connection.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.socket.recv(1)
        connection.socket.settimeout(60)
        crashing.start()
        assert answer(connection) == b'{"StatusCode":23}'
        assert crashing.request("GET", "/containers/survivor/json").status == 404
    until(lambda: gone(monitor), "the monitor stayed")


def test_the_removal_by_a_daemon_that_adopted_the_container(crashing: Daemon, ends: Callable[..., str]) -> None:
    """The end comes under another daemon than the wait."""
    one = ends(begun=False, HostConfig={**QUIET, "AutoRemove": True})
    with wait_for(crashing, one, "removed") as connection:
        begin(crashing, one)
        crash(crashing)
        tell(crashing, one)
        assert answer(connection) == b'{"StatusCode":23}'
        assert crashing.request("GET", f"/containers/{one}/json").status == 404


def test_a_daemon_that_died_within_the_removal_leaves_nobody_waiting(
    crashing: Daemon, ends: Callable[..., str]
) -> None:
    """The directory by which a monitor is found is gone by then; so the monitor answers when it has lost its daemon."""
    one = ends(begun=False, HostConfig={**QUIET, "AutoRemove": True})
    with wait_for(crashing, one, "removed") as connection:
        pid = begin(crashing, one)
        crashing.process.send_signal(signal.SIGSTOP)
        os.kill(pid, signal.SIGUSR1)
        until(lambda: gone(pid), "the container did not end")
        directory = crashing.exec_root / "containers" / one
        until((directory / "exit").exists, "no exit file")
        for left in directory.iterdir():
            left.unlink()
        directory.rmdir()
        crashing.kill9()
        assert answer(connection) == b'{"StatusCode":23}'


def test_a_thousand_live_through_it(crashing: Daemon, ends: Callable[..., str]) -> None:
    """However many files the monitor may have open by the usual limit."""
    one = ends()
    with waiting(crashing, [one] * 1000) as connections:
        crash(crashing)
        tell(crashing, one)
        assert told(connections) == [b'{"StatusCode":23}'] * 1000


def test_those_who_came_before_and_after_the_kill_are_all_told(crashing: Daemon, ends: Callable[..., str]) -> None:
    """Some by the monitor and some by the daemon, each once."""
    one = ends()
    with ExitStack() as stack:
        connections = []
        for _ in range(2):
            connections += [stack.enter_context(wait_for(crashing, one, "next-exit")) for _ in range(5)]
            crash(crashing)
        connections += [stack.enter_context(wait_for(crashing, one)) for _ in range(5)]
        tell(crashing, one)
        assert told(connections) == [b'{"StatusCode":23}'] * 15


def test_a_monitor_that_dies_leaves_its_waiters_to_the_daemon(crashing: Daemon, ends: Callable[..., str]) -> None:
    """The daemon ends the container, and has the connection as well."""
    one = ends()
    monitor = monitor_of(crashing, one)
    with wait_for(crashing, one) as connection:
        os.kill(monitor, signal.SIGKILL)
        assert answer(connection) == b'{"StatusCode":%d}' % crashing.inspect(one)["State"]["ExitCode"]


def test_the_connection_serves_on_after_the_answer(crashing: Daemon, ends: Callable[..., str]) -> None:
    """The monitor lets go of it without a word, and of another's not at all."""
    one = ends()
    monitor = monitor_of(crashing, one)
    with wait_for(crashing, one) as connection:
        tell(crashing, one)
        assert answer(connection) == b'{"StatusCode":23}'
        until(lambda: gone(monitor), "the monitor stayed")
        assert connection.request("GET", "/_ping").status == 200


def test_the_monitor_drops_a_client_that_hangs_up(crashing: Daemon, ends: Callable[..., str]) -> None:
    """At once, with the daemon and without."""
    one = ends()
    descriptors = f"/proc/{monitor_of(crashing, one)}/fd"
    alone = len(os.listdir(descriptors))
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(wait_for(crashing, one))
        until(lambda: len(os.listdir(descriptors)) == alone + 1 + 3, "the monitor has none of them")
    until(lambda: len(os.listdir(descriptors)) == alone + 1, "the monitor keeps who has gone")
    with wait_for(crashing, one):
        crashing.kill9()
        until(lambda: len(os.listdir(descriptors)) == alone + 1, "the monitor does not have it")  # and no link
    until(lambda: len(os.listdir(descriptors)) == alone, "the monitor keeps who has gone")


def test_a_restart_by_policy_lets_those_go_who_waited_for_the_end(crashing: Daemon) -> None:
    """Over a kill, by the daemon that runs it again; and by the monitor when none is there."""
    policy = {"NetworkMode": "none", "RestartPolicy": {"Name": "always"}}
    one = crashing.create("sh", "-c", UNTIL_TOLD.format(23), HostConfig=policy)
    pid = begin(crashing, one)
    with wait_for(crashing, one, "next-exit") as connection:
        crash(crashing)
        os.kill(pid, signal.SIGUSR1)  # by the API it would count as stopped by hand
        assert answer(connection) == b'{"StatusCode":23}'
    until(lambda: crashing.logs(one).count(b"ready") == 2, "its policy did not run it again")
    until(lambda: crashing.inspect(one)["State"]["Pid"], "its second run is not recorded")
    pid = crashing.inspect(one)["State"]["Pid"]
    with wait_for(crashing, one) as connection:
        crashing.kill9()
        os.kill(pid, signal.SIGUSR1)
        assert answer(connection) == b'{"StatusCode":23}'
    crashing.start()
    crashing.remove(one)


def test_who_waits_for_a_removal_that_nobody_has_promised_ends_with_the_daemon(
    crashing: Daemon, ends: Callable[..., str]
) -> None:
    """Without AutoRemove the next daemon need never do it: the client sees that its answer is cut, as with docker."""
    one = ends()
    with wait_for(crashing, one, "removed") as connection:
        crashing.kill9()
        assert connection.read_to_end() == b""


def test_kills_around_the_very_end_answer_everybody_once(crashing: Daemon) -> None:
    """The daemon is killed at about the moment at which the container ends, on either side of it."""
    for number in range(4):
        one = crashing.create("sh", "-c", UNTIL_TOLD.format(23))
        pid = begin(crashing, one)
        with ExitStack() as stack:
            connections = [stack.enter_context(wait_for(crashing, one)) for _ in range(20)]
            os.kill(pid, signal.SIGUSR1)
            threading.Event().wait(number * 0.008)
            crashing.kill9()
            assert told(connections) == [b'{"StatusCode":23}'] * 20
        crashing.start()
        assert crashing.inspect(one)["State"]["ExitCode"] == 23
        crashing.remove(one)


@pytest.mark.parametrize("muxer", ["c", "python"])
def test_a_monitor_that_was_slow_answers_those_whom_it_had_not_heard_of_before_the_end(
    world: World, muxer: str
) -> None:
    """Twenty clients are entrusted to a monitor that does not run; the container ends, and the daemon is killed."""
    alone = world.daemon(("--muxer", muxer))
    alone.start()
    alone.import_busybox()
    one = alone.create("sh", "-c", UNTIL_TOLD.format(23))
    pid = begin(alone, one)
    monitor = monitor_of(alone, one)
    os.kill(monitor, signal.SIGSTOP)
    with ExitStack() as stack:
        try:
            connections = [stack.enter_context(wait_for(alone, one)) for _ in range(20)]
            os.kill(pid, signal.SIGUSR1)
            until(lambda: gone(pid), "the container does not end")
            alone.kill9()
        finally:
            os.kill(monitor, signal.SIGCONT)
        assert told(connections) == [b'{"StatusCode":23}'] * 20
    alone.close()
