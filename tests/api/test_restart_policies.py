"""Restart policies: who runs again, when, how often, and what a hand does in between; also over daemons."""

import contextlib
import itertools
import math
import os
import signal
import time
from collections.abc import Callable

import pytest

from engine.wire import exitfile
from tests.api.test_crash import monitor_of
from tests.harness import frames, listening
from tests.harness.daemon import Daemon

pytestmark = pytest.mark.usefixtures("busybox")

SECONDS = 40


def policy(name: str, most: int = 0, **more: object) -> dict:
    """A HostConfig with that policy."""
    return {"NetworkMode": "none", "RestartPolicy": {"Name": name, "MaximumRetryCount": most}, **more}


def until(daemon: Daemon, container: str, reached: Callable[[dict], bool], seconds: float = SECONDS) -> dict:
    """What inspect says once it says so."""
    end = time.monotonic() + seconds
    while not reached(shown := daemon.inspect(container)):
        assert time.monotonic() < end, shown["State"]
        time.sleep(0.01)
    return shown


def status(*wanted: str) -> Callable[[dict], bool]:
    """For `until`."""
    return lambda shown: shown["State"]["Status"] in wanted


def in_backoff(daemon: Daemon, container: str, seconds: float = 0.4) -> dict:
    """Return when the container waits for its next run, and will for about half of that time at least."""
    tries = 1
    while 0.1 * 2**tries < seconds * 1.5:
        tries += 1
    return until(daemon, container, lambda shown: shown["RestartCount"] > tries and status("restarting")(shown))


def post(daemon: Daemon, container: str, verb: str) -> int:
    """The status of a verb."""
    return daemon.request("POST", f"/containers/{container}/{verb}").status


@pytest.fixture
def failing(daemon: Daemon, container: Callable[..., str]) -> str:
    """A container that ends at once with 3 and is always run again, started."""
    made = container("sh", "-c", "exit 3", HostConfig=policy("always"))
    daemon.begin(made)
    return made


@pytest.mark.parametrize(
    ("name", "code", "again"),
    [
        ("no", 1, False),
        ("always", 0, True),
        ("always", 1, True),
        ("unless-stopped", 0, True),
        ("unless-stopped", 1, True),
        ("on-failure", 0, False),
        ("on-failure", 1, True),
    ],
)
def test_a_policy_runs_what_it_says_again(
    daemon: Daemon, container: Callable[..., str], name: str, code: int, again: bool
) -> None:
    """Within a tenth of a second; RestartCount counts."""
    one = container("sh", "-c", f"[ -e /again ] && exec sleep 60; touch /again; exit {code}", HostConfig=policy(name))
    daemon.begin(one)
    if not again:
        assert daemon.wait(one) == code
        time.sleep(0.3)
        shown = daemon.inspect(one)
        assert (shown["State"]["Status"], shown["RestartCount"]) == ("exited", 0)
        return
    shown = until(daemon, one, lambda shown: shown["RestartCount"] == 1 and shown["State"]["Pid"])
    assert shown["State"]["Status"] == "running" and shown["State"]["FinishedAt"] > "2020"


def test_on_failure_stops_at_its_count(daemon: Daemon, container: Callable[..., str]) -> None:
    """Two more tries, and every one of them wrote to the log."""
    one = container("sh", "-c", "echo try; exit 9", HostConfig=policy("on-failure", 2))
    daemon.begin(one)
    shown = until(daemon, one, status("exited"))
    assert (shown["RestartCount"], shown["State"]["ExitCode"]) == (2, 9)
    assert daemon.logs(one).count(b"try\n") == 3


@pytest.mark.alone
def test_the_waits_grow(daemon: Daemon, container: Callable[..., str]) -> None:
    """A tenth of a second, then twice as long each time: told by the container's own clock."""
    one = container("sh", "-c", "cat /proc/uptime; exit 1", HostConfig=policy("on-failure", 4))
    daemon.begin(one)
    until(daemon, one, status("exited"))
    moments = [float(line.split()[0]) for line in frames.stdout(daemon.logs(one)).splitlines()]
    waits = [after - before for before, after in itertools.pairwise(moments)]
    for waited, wanted in zip(waits, (0.1, 0.2, 0.4, 0.8), strict=True):
        assert wanted - 0.03 <= waited < wanted + 0.5, waits


def test_what_waits_for_its_next_run_is_shown_as_dockerd_shows_it(daemon: Daemon, failing: str) -> None:
    """Running and Restarting both, no process; the listing has it without `all`."""
    state = in_backoff(daemon, failing)["State"]
    assert {key: state[key] for key in ("Status", "Running", "Restarting", "Paused", "Dead", "Pid", "ExitCode")} == {
        "Status": "restarting",
        "Running": True,
        "Restarting": True,
        "Paused": False,
        "Dead": False,
        "Pid": 0,
        "ExitCode": 3,
    }
    # It may run just when it is listed.
    while (listed := row(daemon, failing))["State"] != "restarting":
        in_backoff(daemon, failing)
    assert listed["Status"].startswith("Restarting (3) ") and listed["Status"].endswith(" ago")


def test_nobody_waits_for_the_next_run_of_what_waits_for_it(daemon: Daemon, container: Callable[..., str]) -> None:
    """It is called running, and no monitor will tell an end. The run to come here ends by a hand alone."""
    one = container(
        "sh", "-c", "[ $(wc -l </tries) -ge 6 ] && exec sleep 600; echo >>/tries; exit 1", HostConfig=policy("always")
    )
    daemon.begin(one)
    slowest, end = 0.0, time.monotonic() + SECONDS
    while True:
        begun = time.monotonic()
        shown = daemon.inspect(one)
        row(daemon, one)
        slowest = max(slowest, time.monotonic() - begun)
        if shown["RestartCount"] >= 6 and shown["State"]["Status"] == "running":
            break
        assert time.monotonic() < end, shown["State"]
        time.sleep(0.01)
    assert slowest < 3, f"an answer took {slowest:.1f} s"


def row(daemon: Daemon, container: str) -> dict:
    """The container as the list has it."""
    return next(each for each in daemon.request("GET", "/containers/json").json() if each["Id"] == container)


def test_verbs_on_what_waits_for_its_next_run(daemon: Daemon, failing: str) -> None:
    """The answers of dockerd 20.10."""
    calls = (("POST", "/start"), ("POST", "/pause"), ("POST", "/unpause"), ("DELETE", ""))
    name, answers = "", []
    while not answers:
        before = in_backoff(daemon, failing, 3)["State"]
        found = [daemon.request(method, f"/containers/{failing}{verb}", checked=False) for method, verb in calls]
        name = f"renamed-in-backoff-{len(name)}"
        assert post(daemon, failing, f"rename?name={name}") == 204
        if daemon.inspect(failing)["State"] == before:  # else it has run meanwhile, on a slow machine
            answers = found
    assert [answer.status for answer in answers] == [304, 409, 500, 409]
    assert [answer.message for answer in answers[1:]] == [
        f"Container {failing} is restarting, wait until the container is running",
        f"Container {failing} is not paused",
        f'cannot remove container "{failing}": container is restarting: '
        "stop the container before removing or force remove",
    ]
    assert daemon.request("DELETE", f"/containers/{failing}?force=1").status == 204
    assert daemon.request("GET", f"/containers/{failing}/json").status == 404


@pytest.mark.parametrize("verb", ["stop", "kill", "kill?signal=HUP", "kill?signal=TERM"])
def test_a_hand_ends_the_waiting(daemon: Daemon, failing: str, verb: str) -> None:
    """It is exited, with what it ended with, and stays so; a start by hand begins anew."""
    before = in_backoff(daemon, failing)
    assert post(daemon, failing, verb) == 204
    state = daemon.inspect(failing)["State"]
    assert (state["Status"], state["Running"]) == ("exited", False)
    assert state["ExitCode"] == 3 or state["StartedAt"] > before["State"]["StartedAt"]  # the hand met its next run
    time.sleep(1.5)
    assert daemon.inspect(failing)["State"]["StartedAt"] == state["StartedAt"]
    began = time.monotonic()
    daemon.begin(failing)
    count = daemon.inspect(failing)["RestartCount"]
    assert count <= most_tries(began)
    assert until(daemon, failing, lambda shown: shown["RestartCount"] >= 2)


def test_restart_by_hand_while_it_waits(daemon: Daemon, failing: str) -> None:
    """It runs at once, and its tries are counted anew."""
    before, began = in_backoff(daemon, failing), time.monotonic()
    assert post(daemon, failing, "restart") == 204
    after = daemon.inspect(failing)
    assert after["State"]["StartedAt"] > before["State"]["StartedAt"]
    assert after["RestartCount"] <= most_tries(began)


def most_tries(began: float) -> int:
    """How often a container has been run again since then: once, unless this machine was slow to ask.

    The waits double from a tenth of a second.
    """
    return 1 + int(math.log2((time.monotonic() - began) / 0.1 + 1))


@pytest.mark.parametrize("name", ["always", "unless-stopped", "on-failure"])
@pytest.mark.parametrize("verb", ["stop?t=0", "kill"])
def test_what_is_stopped_by_hand_stays_stopped(
    daemon: Daemon, container: Callable[..., str], name: str, verb: str
) -> None:
    """Whatever the policy."""
    one = container("sleep", "60", HostConfig=policy(name))
    daemon.begin(one)
    assert post(daemon, one, verb) == 204
    time.sleep(0.4)
    shown = daemon.inspect(one)
    assert (shown["State"]["Status"], shown["RestartCount"], shown["State"]["ExitCode"]) == ("exited", 0, 137)


@pytest.mark.parametrize(("stop_signal", "again"), [(None, False), ("USR1", False), ("TERM", True)])
def test_a_signal_by_hand_is_a_wish_to_end_unless_another_is_that(
    daemon: Daemon, container: Callable[..., str], stop_signal: str | None, again: bool
) -> None:
    """Without a StopSignal every signal counts, with one only that (and SIGKILL), with dockerd too."""
    script = "trap 'exit 4' USR1; echo ready; while :; do sleep 0.02; done"
    one = container("sh", "-c", script, HostConfig=policy("always"), StopSignal=stop_signal)
    daemon.begin(one)
    end = time.monotonic() + SECONDS
    while b"ready" not in daemon.logs(one) and time.monotonic() < end:
        time.sleep(0.02)
    assert post(daemon, one, "kill?signal=USR1") == 204
    shown = until(daemon, one, lambda shown: shown["State"]["Status"] == "exited" or shown["RestartCount"] == 1)
    assert (shown["RestartCount"] == 1) is again


def test_a_process_that_is_killed_from_outside_is_run_again(daemon: Daemon, container: Callable[..., str]) -> None:
    """That was no hand of docker's."""
    one = container("sleep", "60", HostConfig=policy("unless-stopped"))
    daemon.begin(one)
    pid = daemon.inspect(one)["State"]["Pid"]
    os.kill(pid, signal.SIGKILL)
    shown = until(daemon, one, lambda shown: shown["RestartCount"] == 1 and shown["State"]["Pid"])
    assert shown["State"]["Pid"] != pid


def test_a_try_that_cannot_start_is_the_last(daemon: Daemon, container: Callable[..., str]) -> None:
    """So it is with dockerd; the error is told, with the exit code of the run before."""
    one = container("sh", "-c", "rm /bin/sh /bin/busybox; exit 6", HostConfig=policy("always"))
    daemon.begin(one)
    state = until(daemon, one, status("exited"))["State"]
    assert state["ExitCode"] == 6 and "sh" in state["Error"]
    time.sleep(0.4)
    assert daemon.inspect(one)["State"]["Status"] == "exited"


@pytest.mark.parametrize("condition", ["not-running", "next-exit"])
def test_each_end_lets_go_who_waits_for_one(daemon: Daemon, failing: str, condition: str) -> None:
    """dockerd does so too, also for not-running, with the code of that end; also for one who begins while it waits."""
    assert daemon.wait(failing, condition) == 3
    in_backoff(daemon, failing)
    assert daemon.wait(failing, condition) == 3


def test_who_waits_for_an_end_is_let_go_when_the_waiting_ends(daemon: Daemon, failing: str) -> None:
    """By a stop, for there is no next run to wait for."""
    in_backoff(daemon, failing, 2)
    with daemon.connection() as connection:
        sent, headers = connection.open_stream("POST", f"/containers/{failing}/wait?condition=next-exit")
        assert post(daemon, failing, "stop") == 204
        assert b'"StatusCode":3' in connection.read_body("POST", sent, headers).replace(b" ", b"")


def test_autoremove_and_a_policy_exclude_each_other(daemon: Daemon) -> None:
    """The transcript, call 36."""
    body = {"Image": "busybox", "HostConfig": policy("always", AutoRemove=True)}
    answer = daemon.request("POST", "/containers/create", body)
    assert (answer.status, answer.message) == (400, "can't create 'AutoRemove' container with restart policy")


def test_autoremove_bears_a_restart_by_hand(daemon: Daemon) -> None:
    """It is removed at its own end, not at that of the restart."""
    one = daemon.create("sleep", "60", HostConfig={"NetworkMode": "none", "AutoRemove": True})
    daemon.begin(one)
    before = daemon.inspect(one)["State"]["Pid"]
    assert post(daemon, one, "restart?t=0") == 204
    assert daemon.inspect(one)["State"]["Pid"] not in (0, before)
    assert post(daemon, one, "stop?t=0") == 204
    assert daemon.request("POST", f"/containers/{one}/wait?condition=removed").status in (200, 404)


def test_restart_starts_what_does_not_run_and_tells_what_cannot(daemon: Daemon, container: Callable[..., str]) -> None:
    """A created one, a paused one, one that is not there, one whose command is not there."""
    one = container("sleep", "60")
    assert post(daemon, one, "restart") == 204
    assert post(daemon, one, "pause") == 204
    assert post(daemon, one, "restart?t=0") == 204
    assert daemon.inspect(one)["State"]["Status"] == "running"
    assert daemon.request("POST", "/containers/nope/restart").message == "No such container: nope"
    two = container("nosuchcmd")
    answer = daemon.request("POST", f"/containers/{two}/restart", checked=False)
    assert answer.status == 400 and answer.message.startswith(f"Cannot restart container {two}: ")


def kept_dead(daemon: Daemon, containers: dict[str, str]) -> None:
    """Kill the daemon, then process 1 of each container, and start a daemon."""
    pids = {one: daemon.inspect(one)["State"]["Pid"] for one in containers.values()}
    daemon.kill9()
    for one, pid in pids.items():
        if pid:
            os.kill(pid, signal.SIGKILL)
            listening.until((daemon.exec_root / "containers" / one / exitfile.EXIT).exists)
    daemon.start()


POLICIES = ("no", "always", "unless-stopped", "on-failure")


def test_what_ended_while_no_daemon_was_there_runs_again(crashing: Daemon) -> None:
    """If its policy says so."""
    daemon = crashing
    made = {name: daemon.create("sleep", "600", HostConfig=policy(name)) for name in POLICIES}
    for one in made.values():
        daemon.begin(one)
    kept_dead(daemon, made)
    for name, one in made.items():
        if name == "no":
            assert daemon.inspect(one)["State"]["Status"] == "exited"
        else:
            assert daemon.inspect(one)["State"]["Running"]  # from the first answer on
            until(daemon, one, status("running"))
        daemon.remove(one)


def test_what_was_stopped_by_hand_and_the_next_daemon(crashing: Daemon) -> None:
    """What has `always` runs, what has `unless-stopped` does not, and `on-failure` goes by the exit code."""
    daemon = crashing
    script = "trap 'exit 0' TERM; echo; while :; do sleep 0.02; done"
    made = {name: daemon.create("sleep", "600", HostConfig=policy(name)) for name in POLICIES}
    made["well"] = daemon.create("sh", "-c", script, HostConfig=policy("on-failure"))
    made["never"] = daemon.create("sleep", "600", HostConfig=policy("always"))
    for name, one in made.items():
        if name != "never":
            daemon.begin(one)
    listening.until(lambda: b"\n" in daemon.logs(made["well"]))
    for name, one in made.items():
        post(daemon, one, "stop?t=10" if name == "well" else "stop?t=0")
    daemon.restart()
    for name in ("always", "on-failure"):
        until(daemon, made[name], status("running"))
    for name, wanted in (("no", "exited"), ("unless-stopped", "exited"), ("well", "exited"), ("never", "created")):
        assert daemon.inspect(made[name])["State"]["Status"] == wanted, name
    for one in made.values():
        daemon.remove(one)


def test_a_stop_by_hand_is_remembered_over_many_daemons_until_a_start_by_hand(crashing: Daemon) -> None:
    """unless-stopped; a start by hand forgets it."""
    daemon = crashing
    one = daemon.create("sleep", "600", HostConfig=policy("unless-stopped"))
    daemon.begin(one)
    post(daemon, one, "stop?t=0")
    for _ in range(2):
        daemon.kill9()
        daemon.start()
        assert daemon.inspect(one)["State"]["Status"] == "exited"
    daemon.begin(one)
    kept_dead(daemon, {"": one})
    until(daemon, one, status("running"))
    daemon.remove(one)


def test_one_that_waited_for_its_next_run_is_run_by_the_next_daemon(crashing: Daemon) -> None:
    """At once, and its tries are counted anew."""
    daemon = crashing
    one = daemon.create("sh", "-c", "exit 3", HostConfig=policy("always"))
    daemon.begin(one)
    before = in_backoff(daemon, one, 5)
    daemon.kill9()
    daemon.start()
    shown = until(daemon, one, lambda shown: shown["State"]["StartedAt"] > before["State"]["StartedAt"], 9)
    assert shown["RestartCount"] < before["RestartCount"]
    daemon.remove(one)


def test_after_a_reboot_of_the_host(crashing: Daemon) -> None:
    """The exec root is gone and so is every process: what is to run runs, and the rest ended with 255."""
    daemon = crashing
    made = {name: daemon.create("sleep", "600", HostConfig=policy(name)) for name in POLICIES}
    for one in made.values():
        daemon.begin(one)
    pids = [daemon.inspect(one)["State"]["Pid"] for one in made.values()]
    parents = [monitor_of(daemon, one) for one in made.values()]
    daemon.kill9()
    for pid in (*parents, *pids):
        with contextlib.suppress(ProcessLookupError):  # it goes with its parent
            os.kill(pid, signal.SIGKILL)
    listening.until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in (*parents, *pids)))
    for one in made.values():
        place = daemon.exec_root / "containers" / one
        for file in place.iterdir():
            file.unlink()
        place.rmdir()
    daemon.start()
    state = daemon.inspect(made["no"])["State"]
    assert (state["Status"], state["ExitCode"]) == ("exited", 255)
    for name in ("always", "unless-stopped", "on-failure"):
        until(daemon, made[name], status("running"))
    for one in made.values():
        daemon.remove(one)


def test_a_policy_outlives_the_daemon_that_started_it(crashing: Daemon) -> None:
    """A container that runs on and ends under the next daemon is run again by that one."""
    daemon = crashing
    one = daemon.create("sleep", "600", HostConfig=policy("always"))
    daemon.begin(one)
    daemon.kill9()
    daemon.start()
    pid = daemon.inspect(one)["State"]["Pid"]
    os.kill(pid, signal.SIGKILL)
    shown = until(daemon, one, lambda shown: shown["RestartCount"] == 1 and shown["State"]["Pid"])
    assert shown["State"]["Pid"] != pid
    daemon.remove(one)
