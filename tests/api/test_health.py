"""Health checks: probed, judged, shown, told as events, and begun again with every run and every daemon."""

import os
import time
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from tests.harness import execs, rootfs
from tests.harness.daemon import Daemon
from tests.harness.listening import Listener, listening, past, until

pytestmark = pytest.mark.usefixtures("busybox")

MS = 1_000_000
QUICK = {"Interval": 100 * MS, "Timeout": 60_000 * MS}
SLEEP = ("sleep", "600")
UNTIL_GO = "while [ ! -e /go ]; do sleep 0.02; done"


def check(*test: str, **times: object) -> dict:
    """A Healthcheck that is run ten times a second."""
    return {"Test": list(test), **QUICK, **times}


def health(daemon: Daemon, container: str) -> dict | None:
    """State.Health of inspect."""
    return daemon.inspect(container)["State"].get("Health")


def becomes(daemon: Daemon, container: str, status: str) -> dict:
    """Wait until the health is this one."""
    return until(lambda: (found := health(daemon, container)) and found["Status"] == status and found)


def shown(daemon: Daemon, container: str) -> dict:
    """The container's row of the list."""
    return next(row for row in daemon.request("GET", "/containers/json?all=1").json() if row["Id"] == container)


def listed(daemon: Daemon, status: str) -> list[str]:
    """The containers with this health."""
    filters = '{"health":["' + status + '"]}'
    return [row["Id"] for row in daemon.request("GET", f"/containers/json?all=1&filters={filters}").json()]


def told(listener: Listener) -> list[str]:
    """The health events seen so far."""
    return [event["Action"] for event in listener.seen if event["Action"].startswith("health_status")]


def test_a_check_that_cannot_be_executed_has_failed_and_says_why(daemon: Daemon, container: Callable[..., str]) -> None:
    one = container(
        "sh", "-c", "echo text > /x; chmod +x /x; exec sleep 600", Healthcheck=check("CMD", "/x", Retries=2)
    )
    daemon.begin(one)
    last = becomes(daemon, one, "unhealthy")["Log"][-1]
    assert (last["ExitCode"], last["Output"]) == (255, "exec /x: exec format error\n")


def test_a_healthy_container(daemon: Daemon, container: Callable[..., str]) -> None:
    """Starting, then healthy after the first success; the log, the list, the filter, the event."""
    one = container(*SLEEP, Healthcheck=check("CMD-SHELL", f"{UNTIL_GO}; echo fine"))
    assert health(daemon, one) is None
    assert shown(daemon, one)["Health"] == {"Status": "none", "FailingStreak": 0}
    with listening(daemon, filters={"container": [one]}) as listener:
        daemon.begin(one)
        assert health(daemon, one) == {"Status": "starting", "FailingStreak": 0, "Log": []}
        assert shown(daemon, one)["Status"].endswith(" (health: starting)") and one in listed(daemon, "starting")
        daemon.put_file(one, "go")
        listener.until("health_status: healthy")
    found = health(daemon, one)
    assert (found["Status"], found["FailingStreak"]) == ("healthy", 0)
    probe = found["Log"][0]
    assert (probe["ExitCode"], probe["Output"]) == (0, "fine\n")
    assert daemon.inspect(one)["State"]["StartedAt"] < probe["Start"] < probe["End"]
    row = shown(daemon, one)
    assert row["Health"] == {"Status": "healthy", "FailingStreak": 0} and row["Status"].endswith(" (healthy)")
    assert one in listed(daemon, "healthy") and one not in listed(daemon, "none")


def test_the_events_of_a_probe(daemon: Daemon, container: Callable[..., str]) -> None:
    """exec_create, exec_start, exec_die and then the verdict, as dockerd tells them (transcript 308)."""
    one = container(*SLEEP, Labels={"k": "v"}, Healthcheck=check("CMD-SHELL", "exit 0", Interval=300 * MS))
    with listening(daemon, filters={"container": [one]}) as listener:
        daemon.begin(one)
        events = listener.until("health_status: healthy")
    line = "/bin/sh -c exit 0"
    assert [event["Action"] for event in events] == [
        "start",
        f"exec_create: {line}",
        f"exec_start: {line}",
        "exec_die",
        "health_status: healthy",
    ]
    made, started, died, verdict = (event["Actor"]["Attributes"] for event in events[1:])
    common = {"image": "busybox", "k": "v", "name": made["name"]}
    assert made == started == {**common, "execID": made["execID"]}
    assert died == {**common, "execID": made["execID"], "exitCode": "0"}
    assert verdict == common


def test_failures_in_a_row_make_it_unhealthy_and_one_success_healthy(
    daemon: Daemon, container: Callable[..., str]
) -> None:
    """`Retries` of them; each change is told once."""
    one = container("sh", "-c", "sleep 60", Healthcheck=check("CMD", "test", "-e", "/ok", Retries=2))
    with listening(daemon, filters={"container": [one], "event": ["health_status"]}) as listener:
        daemon.begin(one)
        listener.until("health_status: unhealthy")
        found = health(daemon, one)
        assert found["FailingStreak"] >= 2 and {probe["ExitCode"] for probe in found["Log"]} == {1}
        until(lambda: health(daemon, one)["FailingStreak"] > 4)
        assert len(health(daemon, one)["Log"]) == 5
        made = daemon.request("POST", f"/containers/{one}/exec", {"Cmd": ["touch", "/ok"]}).json()["Id"]
        daemon.request("POST", f"/exec/{made}/start", {"Detach": True})
        listener.until("health_status: healthy")
        assert health(daemon, one)["FailingStreak"] == 0
    assert told(listener) == ["health_status: unhealthy", "health_status: healthy"]


def test_a_probe_that_takes_too_long_is_killed(daemon: Daemon, container: Callable[..., str]) -> None:
    """It counts as failed, with docker's words and what it had said; nothing of it stays in the container."""
    command = ("CMD", "sh", "-c", "echo begun; exec sleep 47")
    one = container(*SLEEP, Healthcheck=check(*command, Interval=2000 * MS, Timeout=200 * MS, Retries=1))
    daemon.begin(one)
    # On a slow machine not every probe comes as far as to say something in its time.
    wanted = (-1, "Health check exceeded timeout (200ms): begun\n")
    until(lambda: wanted in [(probe["ExitCode"], probe["Output"]) for probe in health(daemon, one)["Log"]])
    assert health(daemon, one)["Status"] == "unhealthy"
    # The next one may have begun by now.
    until(lambda: len(daemon.request("GET", f"/containers/{one}/top").json()["Processes"]) == 1)


def test_a_command_that_is_not_there_is_a_failure(daemon: Daemon, container: Callable[..., str]) -> None:
    """Which the log explains."""
    one = container(*SLEEP, Healthcheck=check("CMD", "nosuch", Retries=1))
    daemon.begin(one)
    probe = becomes(daemon, one, "unhealthy")["Log"][0]
    assert probe["ExitCode"] == -1
    assert 'exec: "nosuch": executable file not found in $PATH' in probe["Output"]


def test_only_the_first_of_the_output_is_kept(daemon: Daemon, container: Callable[..., str]) -> None:
    """4096 bytes of both streams, and what is no text does no harm."""
    one = container(*SLEEP, Healthcheck=check("CMD-SHELL", "yes | head -c 5000; printf '\\377'; exit 0"))
    other = container(*SLEEP, Healthcheck=check("CMD-SHELL", "printf '\\377<&>' >&2"))
    for each in (one, other):
        daemon.begin(each)
    assert becomes(daemon, one, "healthy")["Log"][0]["Output"] == "y\n" * 2048 + "..."
    assert becomes(daemon, other, "healthy")["Log"][0]["Output"] == "\ufffd<&>"


def test_in_the_start_period_failures_do_not_count(daemon: Daemon, container: Callable[..., str]) -> None:
    """And probes come at the start interval, until the first success or the end of the period."""
    slow = check("CMD", "false", Interval=60_000 * MS, StartPeriod=30_000 * MS, StartInterval=100 * MS, Retries=1)
    one = container(*SLEEP, Healthcheck=slow)
    daemon.begin(one)
    found = until(lambda: (now := health(daemon, one)) and len(now["Log"]) >= 3 and now)
    assert (found["Status"], found["FailingStreak"]) == ("starting", 0)


def test_after_the_start_period_they_do(daemon: Daemon, container: Callable[..., str]) -> None:
    """From then on at the usual interval."""
    one = container(*SLEEP, Healthcheck=check("CMD", "false", StartPeriod=500 * MS, StartInterval=100 * MS, Retries=2))
    daemon.begin(one)
    found = becomes(daemon, one, "unhealthy")
    begun = [moment(probe["Start"]) for probe in found["Log"]]
    over = moment(daemon.inspect(one)["State"]["StartedAt"]) + timedelta(milliseconds=500)
    # One that was judged after the verdict may be in the log, too; before it are those of the start period.
    assert found["FailingStreak"] == sum(start >= over for start in begun) >= 2 or len(begun) == 5


def moment(text: str) -> datetime:
    """A time as the API shows it, in microseconds."""
    whole, _, fraction = text.removesuffix("Z").partition(".")
    return datetime.fromisoformat(whole) + timedelta(microseconds=int(fraction.ljust(6, "0")[:6]))


@pytest.mark.parametrize(
    "asked", [{"Test": ["NONE"], **QUICK}, {"Test": [], **QUICK}, {"Test": ["WHAT", "true"], **QUICK}]
)
def test_what_asks_for_no_probes_gets_none(daemon: Daemon, container: Callable[..., str], asked: dict) -> None:
    """No health, neither in inspect nor in the list."""
    one = container(*SLEEP, Healthcheck=asked)
    daemon.begin(one)
    time.sleep(0.3)
    assert health(daemon, one) is None
    assert "health" not in shown(daemon, one)["Status"] and one in listed(daemon, "none")
    assert not [event for event in past(daemon, filters={"container": [one]}) if "exec" in event["Action"]]


def test_a_paused_container_is_not_probed(daemon: Daemon, container: Callable[..., str]) -> None:
    """Nobody vouches for it meanwhile (transcript 174); afterwards its probes come again."""
    one = container(*SLEEP, Healthcheck=check("CMD", "true"))
    daemon.begin(one)
    becomes(daemon, one, "healthy")
    assert daemon.request("POST", f"/containers/{one}/pause").status == 204
    paused = health(daemon, one)
    assert (paused["Status"], paused["FailingStreak"]) == ("unhealthy", 0)
    time.sleep(0.4)
    assert health(daemon, one) == paused
    with listening(daemon, filters={"container": [one], "event": ["health_status"]}) as listener:
        assert daemon.request("POST", f"/containers/{one}/unpause").status == 204
        listener.until("health_status: healthy")


def test_a_stopped_container_is_not_probed_and_a_new_run_begins_anew(
    daemon: Daemon, container: Callable[..., str]
) -> None:
    """It is unhealthy after the end, starting after a start, and the log is kept (transcript 200, 203)."""
    held = "while [ -e /held ]; do sleep 0.02; done"
    one = container(*SLEEP, Healthcheck=check("CMD-SHELL", held, Interval=200 * MS))
    daemon.begin(one)
    log = becomes(daemon, one, "healthy")["Log"]
    assert daemon.request("POST", f"/containers/{one}/kill").status == 204
    daemon.wait(one)
    ended = health(daemon, one)
    assert ended["Status"] == "unhealthy" and (log[0] in ended["Log"] or len(ended["Log"]) == 5)
    time.sleep(0.4)
    assert health(daemon, one) == ended
    daemon.put_file(one, "held")
    daemon.begin(one)
    again = health(daemon, one)
    assert again["Status"] == "starting" and again["Log"] == ended["Log"]
    execs.shell(daemon, one, "rm /held")
    becomes(daemon, one, "healthy")


def test_the_image_s_check_is_taken_field_by_field(daemon: Daemon, container: Callable[..., str]) -> None:
    """Its shell too; a client's NONE switches it off."""
    changes = (
        *rootfs.CHANGES,
        "HEALTHCHECK --interval=100ms --timeout=7s --retries=4 CMD echo from the image",
    )
    daemon.import_image(rootfs.busybox(), "checked:1", changes)
    try:
        own, merged, none = (
            container(*SLEEP, Image="checked:1", **more)
            for more in ({}, {"Healthcheck": {"Timeout": 3000 * MS}}, {"Healthcheck": {"Test": ["NONE"]}})
        )
        image = {"Test": ["CMD-SHELL", "echo from the image"], "Interval": 100 * MS, "Timeout": 7000 * MS, "Retries": 4}
        assert daemon.inspect(own)["Config"]["Healthcheck"] == image
        assert daemon.inspect(merged)["Config"]["Healthcheck"] == {**image, "Timeout": 3000 * MS}
        for each in (own, none):
            daemon.begin(each)
        assert becomes(daemon, own, "healthy")["Log"][0]["Output"] == "from the image\n"
        assert health(daemon, none) is None
        for each in (own, merged, none):
            daemon.remove(each)
    finally:
        daemon.request("DELETE", "/images/checked:1?force=1")


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"Test": ["CMD", "true"], "Interval": 1}, "Interval in Healthcheck cannot be less than 1ms"),
        ({"Test": ["CMD", "true"], "Timeout": 999_999}, "Timeout in Healthcheck cannot be less than 1ms"),
        ({"Test": ["CMD", "true"], "StartPeriod": -1}, "StartPeriod in Healthcheck cannot be less than 1ms"),
        ({"Test": ["CMD", "true"], "StartInterval": 5}, "StartInterval in Healthcheck cannot be less than 1ms"),
        ({"Test": ["CMD", "true"], "Retries": -1}, "Retries in Healthcheck cannot be negative"),
    ],
)
def test_impossible_checks_are_refused(daemon: Daemon, asked: dict, text: str) -> None:
    """In docker's words."""
    answer = daemon.request("POST", "/containers/create", {"Image": "busybox", "Cmd": ["true"], "Healthcheck": asked})
    assert (answer.status, answer.message) == (400, text)


def test_health_survives_the_daemon(own_daemon: Daemon) -> None:
    """A running container is probed by the next daemon, an ended one shows what the last probes said."""
    running = own_daemon.create(*SLEEP, Healthcheck=check("CMD", "true"))
    ended = own_daemon.create(*SLEEP, Healthcheck=check("CMD-SHELL", "echo last words; exit 1", Retries=1))
    paused = own_daemon.create(*SLEEP, Healthcheck=check("CMD", "true"))
    for each in (running, ended, paused):
        own_daemon.begin(each)
    becomes(own_daemon, ended, "unhealthy")
    becomes(own_daemon, paused, "healthy")
    own_daemon.request("POST", f"/containers/{ended}/kill")
    own_daemon.wait(ended)
    own_daemon.request("POST", f"/containers/{paused}/pause")
    own_daemon.kill9()
    own_daemon.start()
    assert becomes(own_daemon, running, "healthy")["Log"]
    found = health(own_daemon, ended)
    # One more probe may have been on its way when the kill met both.
    said = [probe["Output"] for probe in found["Log"][-2:] if probe["ExitCode"] == 1]
    assert found["Status"] == "unhealthy" and said[-1] == "last words\n"
    assert health(own_daemon, paused)["Status"] == "unhealthy"
    assert own_daemon.request("POST", f"/containers/{paused}/unpause").status == 204
    becomes(own_daemon, paused, "healthy")


def test_fifty_checks_need_no_thread_each(own_daemon: Daemon) -> None:
    """Between two probes there is only the schedule."""
    made = [own_daemon.create(*SLEEP, Healthcheck=check("CMD", "true", Interval=60_000 * MS)) for _ in range(50)]
    own_daemon.begin(made[0])
    before = threads(own_daemon)
    for each in made[1:]:
        own_daemon.begin(each)
    until(lambda: threads(own_daemon) <= before + 2)


def threads(daemon: Daemon) -> int:
    """How many threads the daemon has."""
    return len(os.listdir(f"/proc/{daemon.pid}/task"))
