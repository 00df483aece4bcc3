"""A power-off: what runs then, and what the next boot finds of it."""

from tests.guests.inside import Host

TRAPS = "trap 'exit {}' TERM; while :; do sleep 0.1; done"


def check_what_runs_when_the_host_goes_down(host: Host) -> None:
    """Three containers that end with a code of their own, for the check after the power-off."""
    for name, code, policy in (("once", 7, "no"), ("again", 8, "always"), ("unless", 9, "unless-stopped")):
        host.begin("sh", "-c", TRAPS.format(code), name=name, HostConfig={"RestartPolicy": {"Name": policy}})


def check_what_the_host_that_went_down_has_left(host: Host) -> None:
    """Each container got its signal and its time, its code is recorded, and policies start what they want."""
    host.until(host.answers)
    journal = host.run("journalctl", "-b", "-1", "--no-pager", "-u", "engine.service")
    state = host.inspect("once")["State"]
    assert (state["Status"], state["ExitCode"]) == ("exited", 7), f"{state}\n{journal[-3000:]}"
    for name in ("again", "unless"):
        host.until(lambda name=name: host.inspect(name)["State"]["Running"])
    assert "the host goes down" in journal, journal[-2000:]
    assert "Failed" not in journal.partition("the host goes down")[2]
