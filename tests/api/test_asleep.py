"""A daemon that ends when it has nothing to do, behind a socket that systemd holds (here a stand-in for it).

What it was doing nobody notices: clients are answered, containers run on, and what is due happens.
"""

import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.api.networking import container, networks, on, subnet
from tests.api.test_crash import monitor_of
from tests.harness import hosts, rootfs
from tests.harness.amounts import amount
from tests.harness.contexts import Member, build
from tests.harness.daemon import Daemon
from tests.harness.fixtures import AS_USER, World
from tests.harness.holdings import links
from tests.harness.http import Connection
from tests.harness.listening import past
from tests.harness.sleeping import UNTIL_TOLD, Activated, activated, first_process, until

SECOND = 1_000_000_000
PING = b"GET /_ping HTTP/1.1\r\nHost: engine\r\n\r\n"


@pytest.fixture(scope="module")
def engine(world: World) -> Iterator[Activated]:
    """A daemon that ends after a second, with busybox."""
    if rootfs.program() is None:
        pytest.skip("needs busybox: apt-get install busybox-static")
    with activated(world.daemon(("--idle-exit", "1"))) as manager:
        manager.daemon.import_busybox()
        yield manager


@pytest.fixture
def made(engine: Activated) -> Iterator[Callable[..., str]]:
    """Create and start containers, which are removed after the test."""
    containers: list[str] = []

    def make(*argv: str, **body: object) -> str:
        containers.append(engine.daemon.create(*argv, **body))
        engine.daemon.begin(containers[-1])
        return containers[-1]

    yield make
    for each in containers:
        engine.daemon.remove(each)


def policy(name: str, most: int = 0, **more: object) -> dict:
    """A HostConfig with that restart policy."""
    return {"NetworkMode": "none", "RestartPolicy": {"Name": name, "MaximumRetryCount": most}, **more}


def end(pid: int) -> None:
    """Have the container with this process 1 end with 3."""
    os.kill(pid, signal.SIGUSR1)


def bridges(daemon: Daemon) -> list[str]:
    """The names of the bridges beside it."""
    return [
        each["ifname"] for each in links(daemon.namespaces) if each.get("linkinfo", {}).get("info_kind") == "bridge"
    ]


def stays_awake(engine: Activated, seconds: float = 2.5) -> bool:
    """Whether the daemon, which ends after a second, is there for longer."""
    pid, until_then = engine.pid, time.monotonic() + seconds
    while time.monotonic() < until_then:
        if engine.asleep or engine.pid != pid:
            return False
        time.sleep(0.05)
    return True


def test_it_ends_and_the_next_client_starts_it_while_the_container_runs_on(
    engine: Activated, made: Callable[..., str]
) -> None:
    one = made("sleep", "1000")
    pid = engine.daemon.inspect(one)["State"]["Pid"]
    before = engine.starts
    engine.sleeps()
    assert engine.daemon.socket.exists()
    assert os.path.exists(f"/proc/{pid}")
    assert engine.daemon.inspect(one)["State"]["Pid"] == pid
    assert engine.starts == before + 1
    assert set(engine.statuses) == {0}
    assert not (engine.daemon.exec_root / "asleep").exists(), "a daemon that runs does not sleep"


def test_names_and_published_ports_are_served_while_it_sleeps(engine: Activated) -> None:
    """By the resolver, the proxy and the kernel: no daemon is started for them."""
    daemon = engine.daemon
    web = {"HostConfig": {"NetworkMode": "near", "PortBindings": {"80/tcp": [{"HostIp": "", "HostPort": "8099"}]}}}
    with (
        networks(daemon, near=subnet("10.94.0.0/24")),
        container(daemon, "httpd", "-f", "-h", "/etc", name="web", **web),
        container(daemon, name="asks", **on("near")),
    ):
        address = daemon.inspect("web")["NetworkSettings"]["Networks"]["near"]["IPAddress"]
        pid = daemon.inspect("asks")["State"]["Pid"]
        engine.sleeps()
        starts = engine.starts
        lookup = ("nsenter", f"--target={pid}", "--mount", "--net", "nslookup", "-type=a", "web.")
        assert f"Address: {address}" in subprocess.run(lookup, capture_output=True, text=True).stdout
        # The bridge of a user's daemon is in a network of its own, which the machine does not reach.
        for host in ("127.0.0.1",) if AS_USER else ("127.0.0.1", "10.94.0.1"):
            got = hosts.run(daemon.namespaces, "curl", "--silent", "--max-time", "10", f"http://{host}:8099/hostname")
            assert len(got.stdout.strip()) == 12, got
        assert engine.asleep and engine.starts == starts


def test_a_build_wakes_it_and_what_was_left_meanwhile_is_gone(engine: Activated) -> None:
    """The build's context is on the disk before its daemon has a store of images."""
    engine.sleeps()
    left = engine.daemon.data_root / "tmp/build-1-1"
    left.mkdir()
    engine.daemon.request("GET", "/_ping")
    assert not left.exists()
    engine.sleeps()
    made = build(engine.daemon, "FROM busybox\nCOPY a /a", Member("a", "here"))
    assert made.id, made


def test_nobody_would_start_it_again_without_such_a_socket(world: World) -> None:
    """So it is refused, in words that name the socket."""
    daemon = world.daemon(("--idle-exit", "1")).start(wait=False)
    assert daemon.process is not None
    assert daemon.process.wait(60) == 1
    daemon.process = None
    assert f"nobody would listen on unix://{daemon.socket}" in daemon.log
    assert "Traceback" not in daemon.log


@pytest.mark.parametrize(
    "path", ["/events", "/containers/{}/logs?follow=1&stdout=1", "/containers/{}/stats", "POST /containers/{}/wait"]
)
def test_a_client_that_is_being_answered_keeps_it_awake(engine: Activated, made: Callable[..., str], path: str) -> None:
    one = made("sleep", "1000")
    method, _, target = path.rpartition(" ")
    with engine.daemon.connection() as client:
        assert client.open_stream(method or "GET", target.format(one))[0] == 200
        assert stays_awake(engine)
    engine.sleeps()


def test_an_exec_keeps_it_awake(engine: Activated, made: Callable[..., str]) -> None:
    """Also one that no client is attached to."""
    one = made("sleep", "1000")
    body = {"Cmd": ["sleep", "3"], "AttachStdout": False}
    exec_id = engine.daemon.request("POST", f"/containers/{one}/exec", body).json()["Id"]
    answer = engine.daemon.request("POST", f"/exec/{exec_id}/start", {"Detach": True})
    assert answer.status == 200, answer.body
    assert stays_awake(engine)
    engine.sleeps()
    assert engine.daemon.request("GET", f"/exec/{exec_id}/json").json()["ExitCode"] == 0


def test_an_exec_that_is_to_be_started_is_still_there(engine: Activated, made: Callable[..., str]) -> None:
    one = made("sleep", "1000")
    exec_id = engine.daemon.request("POST", f"/containers/{one}/exec", {"Cmd": ["true"]}).json()["Id"]
    assert stays_awake(engine, 2.0)
    answer = engine.daemon.request("POST", f"/exec/{exec_id}/start", {"Detach": True})
    assert answer.status == 200, answer.body


def test_a_health_check_keeps_it_awake_as_long_as_it_is_run(engine: Activated, made: Callable[..., str]) -> None:
    one = made("sleep", "1000", Healthcheck={"Test": ["CMD", "true"], "Interval": 60 * SECOND})
    assert stays_awake(engine)
    assert engine.daemon.request("POST", f"/containers/{one}/kill").status == 204
    engine.sleeps()


def test_a_client_that_waits_for_a_start_keeps_it_awake_and_is_served(engine: Activated) -> None:
    one = engine.daemon.create("echo", "hi")
    with engine.daemon.connection() as attached:
        attached.hijack(f"/containers/{one}/attach?stream=1&stdout=1")
        assert stays_awake(engine)
        engine.daemon.begin(one)
        assert b"hi\n" in attached.read_to_end()
    engine.daemon.remove(one)


@pytest.mark.parametrize("said", [b"", b"GET /_ping HT", PING], ids=["nothing", "half a head", "a request, once"])
def test_a_client_that_says_nothing_more_does_not_keep_it_awake(engine: Activated, said: bytes) -> None:
    """Its connection is closed with the daemon, after the time in which nothing was asked."""
    engine.daemon.request("GET", "/_ping")
    with Connection(engine.daemon.socket, timeout=60) as client:
        client.send(said)
        began = time.monotonic()
        rest = client.read_to_end()
        assert time.monotonic() - began > 0.9
        assert rest.startswith(b"HTTP/1.1 200" if said == PING else b"")
    engine.sleeps()


def test_whoever_connects_while_it_ends_is_answered(engine: Activated) -> None:
    """200 clients around the moment of the end, again and again: none is refused, and none is lost."""
    failures: list[str] = []
    threads = []

    def ask(moment: float) -> None:
        time.sleep(max(0.0, moment - time.monotonic()))
        try:
            with Connection(engine.daemon.socket, timeout=90) as client:
                answer = client.request("GET", "/_ping")
                if answer.status != 200:
                    failures.append(str(answer))
        except (OSError, EOFError) as error:
            failures.append(f"{type(error).__name__}: {error}")

    for _ in range(amount(20, 2)):
        engine.daemon.request("GET", "/_ping")
        ends = time.monotonic() + 1.0
        # Most of them come in the tenth of a second in which the daemon ends.
        threads = [threading.Thread(target=ask, args=(ends + each / 1000,)) for each in range(-20, 80)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert not failures
        engine.sleeps()


@pytest.mark.parametrize("name", ["always", "unless-stopped", "on-failure"])
def test_a_container_that_ends_meanwhile_is_run_again(engine: Activated, made: Callable[..., str], name: str) -> None:
    """Its monitor wakes the engine; no client has to come. The tries are counted, as they are by a daemon that runs."""
    one = made("sh", "-c", UNTIL_TOLD, HostConfig=policy(name))
    pid = first_process(engine.daemon, one)
    engine.sleeps()
    before = engine.starts
    end(pid)
    until(lambda: engine.starts > before, "nobody woke the engine")
    until(lambda: engine.daemon.inspect(one)["State"]["Pid"] not in (0, pid), "it is not run again")
    assert engine.daemon.inspect(one)["RestartCount"] == 1


def test_the_last_try_of_a_policy_is_the_last_one(engine: Activated, made: Callable[..., str]) -> None:
    """The count lives through the sleep: a daemon that was started anew would begin to count again."""
    one = made("sh", "-c", UNTIL_TOLD, HostConfig=policy("on-failure", 1))
    end(first_process(engine.daemon, one))
    until(lambda: engine.daemon.inspect(one)["RestartCount"] == 1, "it is not run again")
    pid = first_process(engine.daemon, one)
    engine.sleeps()
    end(pid)
    until(lambda: not engine.daemon.inspect(one)["State"]["Running"], "it runs")
    engine.sleeps()
    state = engine.daemon.inspect(one)
    assert (state["State"]["Status"], state["State"]["ExitCode"], state["RestartCount"]) == ("exited", 3, 1)


def test_what_was_stopped_stays_stopped(engine: Activated, made: Callable[..., str]) -> None:
    """The policy `always` starts it when a daemon is started, as docker's does, but not when one wakes up."""
    one = made("sleep", "1000", HostConfig=policy("always"))
    assert engine.daemon.request("POST", f"/containers/{one}/stop?t=0").status == 204
    engine.sleeps()
    assert not engine.daemon.inspect(one)["State"]["Running"]
    time.sleep(0.3)
    assert not engine.daemon.inspect(one)["State"]["Running"]


def test_a_container_that_is_to_be_removed_is_removed(engine: Activated, made: Callable[..., str]) -> None:
    one = made("sh", "-c", UNTIL_TOLD, HostConfig={"NetworkMode": "none", "AutoRemove": True})
    pid = first_process(engine.daemon, one)
    engine.sleeps()
    before = engine.starts
    end(pid)
    until(lambda: engine.starts > before, "nobody woke the engine")
    until(lambda: engine.daemon.request("GET", f"/containers/{one}/json").status == 404, "it is there")


def test_other_ends_wake_nobody_and_are_known_all_the_same(engine: Activated, made: Callable[..., str]) -> None:
    one = made("sh", "-c", UNTIL_TOLD)
    pid = first_process(engine.daemon, one)
    engine.sleeps()
    before = engine.starts
    end(pid)
    until(lambda: (engine.daemon.exec_root / "containers" / one / "exit").exists(), "its end is not on disk")
    time.sleep(0.3)
    assert engine.starts == before
    state = engine.daemon.inspect(one)["State"]
    assert (state["Status"], state["ExitCode"]) == ("exited", 3)


def test_events_are_told_with_the_times_at_which_they_happened(engine: Activated, made: Callable[..., str]) -> None:
    """Those of before the sleep, and the end during it."""
    one = made("sh", "-c", UNTIL_TOLD)
    pid = first_process(engine.daemon, one)
    told = past(engine.daemon, filters={"container": [one], "event": ["create", "start"]})
    engine.sleeps()
    before = time.time_ns()
    end(pid)
    until(lambda: (engine.daemon.exec_root / "containers" / one / "exit").exists(), "its end is not on disk")
    after = time.time_ns()
    time.sleep(0.2)
    events = past(engine.daemon, filters={"container": [one]})
    assert events[: len(told)] == told
    (died,) = [event for event in events if event["Action"] == "die"]
    assert before < died["timeNano"] < after
    assert died["Actor"]["Attributes"]["exitCode"] == "3"
    times = [event["timeNano"] for event in past(engine.daemon)]
    assert times == sorted(times)


def test_a_monitor_that_wakes_nobody_keeps_it_awake(engine: Activated, made: Callable[..., str]) -> None:
    """As one of an older release: its container is to be run again. Here a stopped monitor stands for it."""
    one = made("sleep", "1000", HostConfig=policy("always"))
    monitor = monitor_of(engine.daemon, one)
    engine.sleeps()
    os.kill(monitor, signal.SIGSTOP)
    try:
        engine.daemon.request("GET", "/_ping", timeout=60)  # its greeting is not heard, so it may be of any release
        assert stays_awake(engine)
    finally:
        os.kill(monitor, signal.SIGCONT)


def test_a_daemon_that_was_killed_is_woken_by_what_is_due(engine: Activated, made: Callable[..., str]) -> None:
    """The word that an earlier sleep has left still holds."""
    one = made("sh", "-c", UNTIL_TOLD, HostConfig=policy("always"))
    pid = first_process(engine.daemon, one)
    engine.sleeps()
    engine.daemon.request("GET", "/_ping")
    before = engine.starts
    os.kill(engine.pid, signal.SIGKILL)
    until(lambda: engine.asleep, "it is there")
    end(pid)
    until(lambda: engine.starts > before, "nobody woke the engine")
    until(lambda: engine.daemon.inspect(one)["State"]["Pid"] not in (0, pid), "it is not run again")


@pytest.mark.parametrize("killed", [False, True], ids=["asleep", "killed"])
def test_bridges_of_containers_that_end_while_no_daemon_runs_go_with_the_next_one(
    engine: Activated, made: Callable[..., str], killed: bool
) -> None:
    """Also where that one uses no network."""
    daemon = engine.daemon
    with networks(daemon, near=subnet("10.94.0.0/24")) as known:
        bridge = f"br-{known['near'][:12]}"
        one = made("sh", "-c", UNTIL_TOLD, **on("near"))
        pid = first_process(daemon, one)
        if killed:  # while the bridge is idle already
            end(pid)
            daemon.request("POST", f"/containers/{one}/wait")
            os.kill(engine.pid, signal.SIGKILL)
            until(lambda: engine.asleep, "it is there")
        else:
            engine.sleeps()
            assert bridge in bridges(daemon)
            end(pid)
        daemon.request("GET", "/_ping")
        engine.sleeps()
        assert bridge not in bridges(daemon)


def test_a_signal_ends_it_as_ever(engine: Activated) -> None:
    """Also one of which the file of a sleep that was never slept would tell otherwise."""
    engine.daemon.request("GET", "/_ping")
    os.kill(engine.pid, signal.SIGTERM)
    until(lambda: engine.asleep, "it is there")
    assert "stopped; containers run on" in engine.daemon.log
    assert not (engine.daemon.exec_root / "asleep").exists()


def test_what_is_left_in_the_place_of_a_sleep_is_no_harm(engine: Activated, made: Callable[..., str]) -> None:
    """Bytes that are no saved state: a warning, and a daemon that starts as ever."""
    one = made("sleep", "1000")
    engine.sleeps()
    (engine.daemon.exec_root / "asleep").write_bytes(json.dumps({"boot": 1, "events": [[1]]}).encode()[:-3])
    assert engine.daemon.inspect(one)["State"]["Running"]
    assert "the daemon that fell asleep has left cannot be used" in engine.daemon.log


def test_a_socket_that_hangs_up_at_once_is_no_client(engine: Activated) -> None:
    """What a monitor does to wake an engine: it starts, and sleeps again."""
    engine.sleeps()
    before = engine.starts
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(engine.daemon.socket))
    until(lambda: engine.starts > before, "it is not woken")
    engine.sleeps()
