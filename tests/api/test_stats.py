"""GET /containers/{id}/stats: real figures, once or every second, and what it costs."""

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator

import pytest

from tests.harness.amounts import amount
from tests.harness.daemon import Daemon
from tests.harness.http import Connection
from tests.harness.pace import patient

pytestmark = pytest.mark.usefixtures("busybox")

NEVER = "0001-01-01T00:00:00Z"
SPIN = "while :; do :; done"


def once(daemon: Daemon, container: str, query: str = "stream=0&one-shot=1") -> dict:
    """One sample."""
    answer = daemon.request("GET", f"/containers/{container}/stats?{query}")
    assert answer.status == 200, answer
    return answer.json()


def watch(daemon: Daemon, container: str, connection: Connection) -> Iterator[dict]:
    """The lines of a stream, as they come."""
    status, headers = connection.open_stream("GET", f"/containers/{container}/stats")
    assert (status, headers["content-type"]) == (200, "application/json")
    return (json.loads(chunk) for chunk in connection.chunks())


def until(condition: Callable[[], bool], seconds: float = 30.0) -> bool:
    """Whether the condition came true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def threads(daemon: Daemon) -> int:
    """How many threads the daemon has."""
    return len(os.listdir(f"/proc/{daemon.pid}/task"))


def test_what_does_not_run_uses_nothing(daemon: Daemon, container: Callable[..., str]) -> None:
    """Docker's empty answer, whichever way it is asked for once."""
    one = container("true")
    for query in ("stream=0", "stream=0&one-shot=1", "stream=false"):
        shown = once(daemon, one, query)
        assert (shown["id"], shown["read"], shown["preread"]) == (one, NEVER, NEVER)
        assert shown["name"].startswith("/") and shown["memory_stats"] == {} == shown["pids_stats"]
        assert shown["cpu_stats"]["cpu_usage"]["total_usage"] == 0
        assert shown["blkio_stats"]["io_service_bytes_recursive"] is None


@pytest.mark.alone
def test_one_shot_is_one_sample(daemon: Daemon, container: Callable[..., str]) -> None:
    """At once, with nothing to compare it with."""
    one = container("sleep", "60", HostConfig={"NetworkMode": "none", "Memory": 64 << 20, "PidsLimit": 50})
    daemon.begin(one)
    began = time.monotonic()
    shown = once(daemon, one)
    assert time.monotonic() - began < 0.9
    assert (shown["preread"], shown["precpu_stats"]["cpu_usage"]["total_usage"]) == (NEVER, 0)
    assert "system_cpu_usage" not in shown["precpu_stats"]
    assert shown["memory_stats"]["limit"] == 64 << 20 and 0 < shown["memory_stats"]["usage"] < 64 << 20
    assert shown["pids_stats"] == {"current": 1, "limit": 50}
    assert shown["cpu_stats"]["online_cpus"] == os.cpu_count()
    assert "networks" not in shown  # it has but a loopback


@pytest.mark.alone
def test_without_stream_there_are_two_samples(daemon: Daemon, container: Callable[..., str]) -> None:
    """A second apart: what a container that does nothing but work has used is what its processes have, and no more."""
    one = container("sh", "-c", SPIN)
    daemon.begin(one)
    shown = once(daemon, one, "stream=0")
    used, before = shown["cpu_stats"], shown["precpu_stats"]
    passed = (used["system_cpu_usage"] - before["system_cpu_usage"]) / used["online_cpus"]
    share = (used["cpu_usage"]["total_usage"] - before["cpu_usage"]["total_usage"]) / passed
    assert 0.05 < share < 1.2 and 0.9e9 < passed < 4e9  # on a busy machine it gets a small part of one
    assert shown["preread"] < shown["read"]


def test_memory_in_use_is_what_the_container_has_written(daemon: Daemon, container: Callable[..., str]) -> None:
    """Twenty megabytes in /dev/shm."""
    one = container("sh", "-c", "dd if=/dev/zero of=/dev/shm/x bs=1M count=20 2>&1; echo done; sleep 60")
    daemon.begin(one)
    assert until(lambda: b"done" in daemon.logs(one))
    memory = once(daemon, one)["memory_stats"]
    inactive = memory["stats"].get("total_inactive_file", memory["stats"].get("inactive_file"))
    assert 20 << 20 <= memory["usage"] - inactive < 30 << 20


@pytest.mark.alone
def test_a_stream_has_a_line_a_second(daemon: Daemon, container: Callable[..., str]) -> None:
    """The first without a sample before it, each other with the one before."""
    one = container("sleep", "60")
    daemon.begin(one)
    with daemon.connection() as connection:
        lines = watch(daemon, one, connection)
        first = next(lines)
        began = time.monotonic()
        second, third = next(lines), next(lines)
        assert 1.5 < time.monotonic() - began < 3.5
    assert (first["preread"], first["precpu_stats"]["cpu_usage"]["total_usage"]) == (NEVER, 0)
    assert (second["preread"], second["precpu_stats"]) == (first["read"], first["cpu_stats"])
    assert (third["preread"], third["precpu_stats"]) == (second["read"], second["cpu_stats"])


def test_a_stream_outlives_the_run_and_ends_with_the_container(daemon: Daemon, container: Callable[..., str]) -> None:
    """Empty while nothing runs, real again after the next start, and the body is ended by the removal."""
    one = container("sleep", "60")
    with daemon.connection() as connection:
        lines = watch(daemon, one, connection)
        assert next(lines)["pids_stats"] == {}
        daemon.begin(one)
        assert any(next(lines)["pids_stats"].get("current") == 1 for _ in range(3))
        daemon.request("POST", f"/containers/{one}/kill")
        assert any(next(lines)["pids_stats"] == {} for _ in range(3))
        daemon.begin(one)
        assert any(next(lines)["pids_stats"].get("current") == 1 for _ in range(3))
        began = time.monotonic()
        daemon.remove(one)
        left = len(list(lines))
        assert left <= 2 + time.monotonic() - began


def test_a_stream_ends_at_the_removal_and_not_a_second_later(daemon: Daemon, container: Callable[..., str]) -> None:
    """As docker's. The best of some tries, since a busy machine takes its time."""
    found = []
    while len(found) < 5 and min(found, default=1) > 0.4:
        one = container("true")
        with daemon.connection() as connection:
            lines = watch(daemon, one, connection)
            next(lines)  # so the next one would come in a second
            daemon.remove(one)
            began = time.monotonic()
            assert not list(lines)
            found.append(time.monotonic() - began)
    assert min(found) < 0.4


def test_stream_and_one_shot_exclude_each_other(daemon: Daemon, container: Callable[..., str]) -> None:
    """In docker's words."""
    answer = daemon.request("GET", f"/containers/{container('true')}/stats?stream=1&one-shot=1")
    assert (answer.status, answer.message) == (400, "cannot have stream=true and one-shot=true")
    assert daemon.request("GET", "/containers/nope/stats").status == 404


def test_the_network_of_the_host_is_not_the_containers(daemon: Daemon, container: Callable[..., str]) -> None:
    """Its interfaces count for the whole machine."""
    one = container("sleep", "60", HostConfig={"NetworkMode": "host"})
    daemon.begin(one)
    assert "networks" not in once(daemon, one)


def test_an_old_client_gets_lines_without_chunks(daemon: Daemon, container: Callable[..., str]) -> None:
    """HTTP/1.0: until it hangs up."""
    one = container("sleep", "60")
    daemon.begin(one)
    with daemon.connection() as connection:
        connection.send(f"GET /containers/{one}/stats HTTP/1.0\r\n\r\n".encode())
        assert connection.read_head()[0] == 200
        assert json.loads(connection.read_until(b"\n"))["id"] == one


@pytest.mark.alone
def test_a_client_that_does_not_read_holds_up_nobody(daemon: Daemon, container: Callable[..., str]) -> None:
    """Its lines stay out; others get theirs."""
    one = container("sleep", "60")
    daemon.begin(one)
    with daemon.connection() as deaf, daemon.connection() as connection:
        deaf.socket.setsockopt(1, 8, 2048)  # SO_RCVBUF
        watch(daemon, one, deaf)
        lines = watch(daemon, one, connection)
        began = time.monotonic()
        for _ in range(4):
            next(lines)
        assert time.monotonic() - began < 6


def test_nothing_is_left_when_nobody_watches(own_daemon: Daemon) -> None:
    """No thread and no descriptor, whether the client left or the container did."""
    one = own_daemon.create("sleep", "60")
    own_daemon.begin(one)
    own_daemon.inspect(one)
    before = threads(own_daemon), len(os.listdir(f"/proc/{own_daemon.pid}/fd"))
    for _ in range(6):
        with own_daemon.connection() as connection:
            next(watch(own_daemon, one, connection))
    assert until(lambda: (threads(own_daemon), len(os.listdir(f"/proc/{own_daemon.pid}/fd"))) <= before)


def processor_time(pid: int) -> float:
    """Seconds of processor time that a process has used."""
    with open(f"/proc/{pid}/schedstat") as file:
        total = int(file.read().split()[0])
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(FileNotFoundError):  # it has ended meanwhile
            if int(task) == pid:
                continue
            with open(f"/proc/{pid}/task/{task}/schedstat") as file:
                total += int(file.read().split()[0])
    return total / 1e9


def test_to_watch_fifty_containers_costs_little(own_daemon: Daemon) -> None:
    """Two hundredths of a processor are promised; twice that is the bound here, on a busy machine."""
    containers = [own_daemon.create("sleep", "60") for _ in range(50)]
    for one in containers:
        own_daemon.begin(one)
    connections = [own_daemon.connection() for _ in containers]
    try:
        streams = [watch(own_daemon, one, each) for one, each in zip(containers, connections, strict=True)]
        for stream in streams:
            next(stream)
            next(stream)
        began, used = time.monotonic(), processor_time(own_daemon.pid)
        for _ in range(amount(10, 4)):
            for stream in streams:
                assert next(stream)["pids_stats"]["current"] == 1
        share = (processor_time(own_daemon.pid) - used) / (time.monotonic() - began)
    finally:
        for each in connections:
            each.close()
    print(f"50 containers: {share:.2%} of one processor")
    assert share < patient(0.04)
