"""Pausing: the processes stand still, the verbs know it, and a signal that is meant to end them arrives."""

import os
import time
from collections.abc import Callable

import pytest

from tests.harness.daemon import Daemon
from tests.harness.listening import until

pytestmark = pytest.mark.usefixtures("busybox")

COUNTER = "trap 'exit 7' TERM; trap 'echo usr1' USR1; echo ready; while :; do echo x; sleep 0.01; done"


def post(daemon: Daemon, container: str, verb: str) -> int:
    """The status of a verb."""
    return daemon.request("POST", f"/containers/{container}/{verb}").status


@pytest.fixture
def counting(daemon: Daemon, container: Callable[..., str]) -> str:
    """A container that talks all the time, started."""
    made = container("sh", "-c", COUNTER)
    daemon.begin(made)
    until(lambda: b"x" in daemon.logs(made))
    return made


@pytest.fixture
def paused(daemon: Daemon, counting: str) -> str:
    """The same, paused."""
    assert post(daemon, counting, "pause") == 204
    return counting


def grows(daemon: Daemon, container: str) -> bool:
    """Whether it talks."""
    before = len(daemon.logs(container))
    time.sleep(0.2)
    return len(daemon.logs(container)) > before


def test_what_is_paused_stands_still_until_it_is_let_go(daemon: Daemon, counting: str) -> None:
    """The same process before and after."""
    before = daemon.inspect(counting)["State"]
    assert post(daemon, counting, "pause") == 204
    until(lambda: not grows(daemon, counting))  # what it has said is still on its way
    assert not grows(daemon, counting)
    state = daemon.inspect(counting)["State"]
    assert (state["Status"], state["Running"], state["Paused"], state["Pid"]) == ("paused", True, True, before["Pid"])
    listed = next(each for each in daemon.request("GET", "/containers/json").json() if each["Id"] == counting)
    assert listed["State"] == "paused" and listed["Status"].endswith(" (Paused)")
    assert post(daemon, counting, "unpause") == 204
    until(lambda: grows(daemon, counting))
    after = daemon.inspect(counting)["State"]
    assert (after["Status"], after["Paused"], after["Pid"]) == ("running", False, before["Pid"])


def test_verbs_on_what_is_paused(daemon: Daemon, paused: str) -> None:
    """The transcript, call 172, and dockerd 20.10."""
    answer = daemon.request("POST", f"/containers/{paused}/pause", checked=False)
    assert (answer.status, answer.message) == (409, f"container {paused} is already paused")
    answer = daemon.request("POST", f"/containers/{paused}/start", checked=False)
    assert (answer.status, answer.message) == (409, "cannot start a paused container, try unpause instead")
    answer = daemon.request("DELETE", f"/containers/{paused}")
    assert (answer.status, answer.message) == (
        409,
        f'cannot remove container "{paused}": container is paused and must be unpaused first',
    )
    assert post(daemon, paused, "rename?name=renamed-while-paused") == 204
    assert daemon.inspect(paused)["State"]["Status"] == "paused"


@pytest.mark.parametrize("started", [False, True])
def test_verbs_on_what_is_not_paused(daemon: Daemon, container: Callable[..., str], started: bool) -> None:
    """The transcript, calls 125 and 170."""
    one = container("sleep", "60")
    if started:
        daemon.begin(one)
    answer = daemon.request("POST", f"/containers/{one}/unpause")
    assert (answer.status, answer.message) == (500, f"Container {one} is not paused")
    if not started:
        answer = daemon.request("POST", f"/containers/{one}/pause", checked=False)
        assert (answer.status, answer.message) == (409, f"container {one} is not running")


def test_stop_lets_it_end_in_order(daemon: Daemon, paused: str) -> None:
    """It is let go, and receives its signal."""
    assert post(daemon, paused, "stop?t=20") == 204
    assert daemon.inspect(paused)["State"]["ExitCode"] == 7


@pytest.mark.alone
def test_kill_kills_it(daemon: Daemon, paused: str) -> None:
    """At once, frozen or not."""
    pid = daemon.inspect(paused)["State"]["Pid"]
    begun = time.monotonic()
    assert post(daemon, paused, "kill") == 204
    assert time.monotonic() - begun < 5
    state = daemon.inspect(paused)["State"]
    assert (state["Status"], state["ExitCode"], state["Pid"]) == ("exited", 137, 0)
    assert not os.path.exists(f"/proc/{pid}")


def test_a_signal_lets_it_go_as_in_dockerd(daemon: Daemon, paused: str) -> None:
    """Without a StopSignal of its own, every signal could be meant to end it."""
    assert post(daemon, paused, "kill?signal=USR1") == 204
    assert daemon.inspect(paused)["State"]["Status"] == "running"
    until(lambda: b"usr1" in daemon.logs(paused))


def test_a_signal_that_is_not_its_stop_signal_waits_for_the_end_of_the_pause(
    daemon: Daemon, container: Callable[..., str]
) -> None:
    """With a StopSignal, no other one lets it go."""
    one = container("sh", "-c", COUNTER, StopSignal="SIGINT")
    daemon.begin(one)
    until(lambda: b"x" in daemon.logs(one))
    assert post(daemon, one, "pause") == 204
    assert post(daemon, one, "kill?signal=USR1") == 204
    time.sleep(0.2)
    assert daemon.inspect(one)["State"]["Status"] == "paused" and b"usr1" not in daemon.logs(one)
    assert post(daemon, one, "unpause") == 204
    until(lambda: b"usr1" in daemon.logs(one))


def test_removal_by_force(daemon: Daemon, paused: str) -> None:
    """Kills it first."""
    pid = daemon.inspect(paused)["State"]["Pid"]
    assert daemon.request("DELETE", f"/containers/{paused}?force=1").status == 204
    assert not os.path.exists(f"/proc/{pid}")


def test_restart_of_what_is_paused(daemon: Daemon, paused: str) -> None:
    """It runs, and is not paused."""
    assert post(daemon, paused, "restart?t=5") == 204
    assert daemon.inspect(paused)["State"]["Status"] == "running"
    until(lambda: grows(daemon, paused))


def test_a_waiter_does_not_take_a_pause_for_an_end(daemon: Daemon, counting: str) -> None:
    """Nor the end of a pause."""
    with daemon.connection() as connection:
        sent, headers = connection.open_stream("POST", f"/containers/{counting}/wait")
        assert post(daemon, counting, "pause") == 204
        assert post(daemon, counting, "unpause") == 204
        assert post(daemon, counting, "stop?t=20") == 204
        assert b'"StatusCode":7' in connection.read_body("POST", sent, headers).replace(b" ", b"")


@pytest.mark.parametrize("crash", [False, True])
def test_the_next_daemon_finds_it_paused(own_daemon: Daemon, crash: bool) -> None:
    """And can let it go; one that runs, runs."""
    daemon = own_daemon
    one, other = daemon.create("sh", "-c", COUNTER), daemon.create("sh", "-c", COUNTER)
    for each in (one, other):
        daemon.begin(each)
    assert post(daemon, one, "pause") == 204
    before = daemon.inspect(one)["State"]
    if crash:
        daemon.kill9()
        daemon.start()
    else:
        daemon.restart()
    assert daemon.inspect(one)["State"] == before and before["Status"] == "paused"
    assert daemon.inspect(other)["State"]["Status"] == "running"
    until(lambda: not grows(daemon, one))
    assert not grows(daemon, one)
    until(lambda: grows(daemon, other))
    assert post(daemon, one, "unpause") == 204
    until(lambda: grows(daemon, one))
    assert post(daemon, one, "pause") == 204
    assert post(daemon, one, "stop?t=20") == 204
    assert daemon.inspect(one)["State"]["ExitCode"] == 7


def test_a_daemon_that_died_between_freezing_and_writing_it_down_leaves_nothing_frozen(own_daemon: Daemon) -> None:
    """What the record says is what the next daemon makes true."""
    daemon = own_daemon
    one = daemon.create("sh", "-c", COUNTER)
    daemon.begin(one)
    pid = daemon.inspect(one)["State"]["Pid"]
    daemon.kill9()
    with open(f"/proc/{pid}/cgroup") as lines:
        groups = dict(line.strip().split(":")[1:] for line in lines)
    if "freezer" in groups:
        file, word = f"/sys/fs/cgroup/freezer{groups['freezer']}/freezer.state", "FROZEN"
    else:
        file, word = f"/sys/fs/cgroup{groups['']}/cgroup.freeze", "1"
    with open(file, "w") as freezer:
        freezer.write(word)
    daemon.start()
    assert daemon.inspect(one)["State"]["Status"] == "running"
    until(lambda: grows(daemon, one))
