"""An engine that sleeps under the host's systemd: it is woken, and at a power-off its containers are stopped."""

from pathlib import Path

from tests.guests.asleep import ONE_SECOND, sleep_and_wake
from tests.guests.inside import Host

SETTINGS = Path("/etc/systemd/system/engine.service.d/soon.conf")
TELLS = "trap 'sleep 0.3; echo told; exit 7' TERM; while :; do sleep 0.1; done"


def check_the_engine_falls_asleep_and_is_woken(host: Host) -> None:
    """With the units as they are, but for the time."""
    host.engine("install-units")
    SETTINGS.parent.mkdir()
    SETTINGS.write_text(ONE_SECOND)
    host.run("systemctl", "daemon-reload")
    host.run("systemctl", "enable", "--now", "engine.socket")
    sleep_and_wake(host, lambda: inactive(host))


def check_what_runs_while_the_engine_sleeps_when_the_host_goes_down(host: Host) -> None:
    """The guest goes down after this check; the next one is of the boot that follows."""
    host.begin("sh", "-c", TELLS, name="told")
    host.until(lambda: sleeps(host))


def check_what_it_has_left(host: Host) -> None:
    """It was told to end, had its time, and its code was kept."""
    host.until(host.answers)
    state = host.inspect("told")["State"]
    assert (state["Status"], state["ExitCode"]) == ("exited", 7), state
    assert b"told" in host.ask("GET", "/containers/told/logs", stdout=True)


def inactive(host: Host) -> bool:
    """No daemon runs; AssertionError where one does."""
    return host.run("systemctl", "is-active", "engine.service", status=3).strip() == "inactive"


def sleeps(host: Host) -> bool:
    """The same without AssertionError."""
    try:
        return inactive(host)
    except AssertionError:
        return False
