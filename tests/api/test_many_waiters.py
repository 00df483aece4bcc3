"""A thousand clients that wait: what they cost while nothing happens, and that every one of them is told."""

import os
import resource
import select
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.api.test_events import asleep
from tests.harness.daemon import Daemon
from tests.harness.http import Connection
from tests.harness.listening import until

WAITERS = 1000
MOST_BYTES = 16 * 1024 * 1024
IDLE_SECONDS = 5.0
# Of one core, for a thousand clients that wait: what the daemon takes by itself, and the clock's own grain.
MOST_IDLE_SECONDS = 0.02


def pss(daemon: Daemon) -> int:
    """The daemon's memory in bytes, shared pages by their share."""
    with open(f"/proc/{daemon.pid}/smaps_rollup") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def processor_seconds(daemon: Daemon) -> float:
    """What the daemon has computed so far."""
    with open(f"/proc/{daemon.pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def waiting(daemon: Daemon, containers: list[str]) -> Iterator[list[Connection]]:
    """Clients that wait for the next end, one for each entry."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        with ExitStack() as stack:
            connections = [stack.enter_context(daemon.connection(timeout=60)) for _ in containers]
            for connection, container in zip(connections, containers, strict=True):
                status, _ = connection.open_stream("POST", f"/containers/{container}/wait")
                assert status == 200
            yield connections
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def told(connections: list[Connection]) -> list[bytes]:
    """What each was told in the end."""
    return [b"".join(connection.chunks()).strip() for connection in connections]


def threads(daemon: Daemon) -> int:
    """How many threads the daemon has."""
    with open(f"/proc/{daemon.pid}/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("Threads:"))


def test_a_thousand_who_wait_for_one_container(own_daemon: Daemon) -> None:
    """They cost 16 MB at the most and no processor time, and all are told within a second or two."""
    daemon = own_daemon
    one = daemon.create("sleep", "600")
    daemon.begin(one)
    daemon.request("GET", "/_ping")
    before = pss(daemon)
    with waiting(daemon, [one] * WAITERS) as connections:
        cost = pss(daemon) - before
        until(lambda: asleep(daemon))
        begun = processor_seconds(daemon)
        time.sleep(IDLE_SECONDS)
        idle = processor_seconds(daemon) - begun
        killed = time.monotonic()
        assert daemon.request("POST", f"/containers/{one}/kill").status == 204
        answers = told(connections)
        seconds = time.monotonic() - killed
    print(f"{WAITERS} waiters: {cost / 1e6:.1f} MB, {idle:.3f} s of processor, all told in {seconds:.2f} s")
    assert answers == [b'{"StatusCode":137}'] * WAITERS
    assert cost <= MOST_BYTES
    assert idle <= MOST_IDLE_SECONDS
    assert seconds < 30


def test_waiters_of_many_containers_hear_of_their_own(own_daemon: Daemon) -> None:
    """And not of another's."""
    daemon = own_daemon
    made = [daemon.create("sh", "-c", f"sleep 1; exit {number}") for number in range(8)]
    for one in made:
        daemon.begin(one)
    with waiting(daemon, made * 20) as connections:
        assert told(connections) == [b'{"StatusCode":%d}' % number for number in range(8)] * 20


def test_who_goes_away_is_gone(own_daemon: Daemon) -> None:
    """It has no thread; nobody looks after it, its own hang-up ends it."""
    daemon = own_daemon
    one = daemon.create("sleep", "600")
    daemon.begin(one)
    before = threads(daemon)
    descriptors = len(os.listdir(f"/proc/{daemon.pid}/fd"))
    with waiting(daemon, [one] * 200):
        until(lambda: threads(daemon) <= before + 2)
    until(lambda: threads(daemon) <= before + 2)
    until(lambda: len(os.listdir(f"/proc/{daemon.pid}/fd")) <= descriptors + 2)


def test_a_client_that_only_finished_sending_is_still_told(own_daemon: Daemon) -> None:
    """A half-close is no hang-up."""
    daemon = own_daemon
    one = daemon.create("sleep", "600")
    daemon.begin(one)
    with waiting(daemon, [one]) as (connection,):
        connection.socket.shutdown(1)
        assert not select.select([connection.socket], [], [], 0.3)[0]
        threading.Thread(target=daemon.request, args=("POST", f"/containers/{one}/kill")).start()
        assert told([connection]) == [b'{"StatusCode":137}']


def test_a_daemon_that_is_told_to_stop_does_not_wait_for_them(own_daemon: Daemon) -> None:
    """They see their connection's end."""
    daemon = own_daemon
    one = daemon.create("sleep", "600")
    daemon.begin(one)
    with waiting(daemon, [one] * 50):
        assert daemon.stop() == 0  # within the harness's 20 seconds
    daemon.start()
    assert daemon.inspect(one)["State"]["Running"]


def test_a_small_limit_of_descriptors_holds_for_containers_and_not_for_the_daemon(world) -> None:
    """The usual 1024 would turn clients away; a container has what the daemon was started with, by any spawner."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    daemon = world.daemon()
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    try:
        daemon.start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    try:
        daemon.import_busybox()
        assert resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE) == (hard, hard)
        assert daemon.shell("ulimit -Sn; ulimit -Hn").split() == ["1024", str(hard)]
        for pid in Path(f"/proc/{daemon.pid}/task/{daemon.pid}/children").read_text().split():
            os.kill(int(pid), signal.SIGKILL)
        assert daemon.shell("ulimit -Sn; ulimit -Hn").split() == ["1024", str(hard)]
    finally:
        daemon.close()
