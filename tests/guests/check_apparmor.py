"""Containers under AppArmor: the engine's profile is loaded, applied and shown, and what it denies is denied."""

from engine.client.api import ApiError
from tests.guests.inside import Host, read

MOUNTS = ("sh", "-c", "mkdir -p /m && mount -t tmpfs none /m && echo mounted")
ADMIN = {"CapAdd": ["SYS_ADMIN"], "SecurityOpt": ["seccomp=unconfined"]}


def check_a_container_runs_under_the_engines_profile(host: Host) -> None:
    """So does an exec; a privileged container does not."""
    assert "name=apparmor" in host.ask("GET", "/info")["SecurityOptions"]
    one = host.begin("sleep", "10000")
    pid = host.inspect(one)["State"]["Pid"]
    assert read(f"/proc/{pid}/attr/current") == "engine-default (enforce)"
    assert host.execute(one, "cat", "/proc/self/attr/current") == (0, "engine-default (enforce)\r\n")
    assert host.inspect(one)["AppArmorProfile"] == "engine-default"
    other = host.begin("sleep", "10000", HostConfig={"Privileged": True})
    assert read(f"/proc/{host.inspect(other)['State']['Pid']}/attr/current") == "unconfined"
    host.remove(one, other)


def check_a_mount_is_denied_by_the_profile_alone(host: Host) -> None:
    """With the capability and without seccomp, only AppArmor stands in the way."""
    one = host.begin("sleep", "10000", HostConfig=ADMIN)
    assert "mounted" not in host.execute(one, *MOUNTS)[1]
    assert host.execute(one, "sh", "-c", "echo 1 > /proc/sysrq-trigger")[0] != 0
    assert host.execute(one, "sh", "-c", "echo x > /tmp/x && cat /tmp/x && kill -0 $$")[0] == 0
    free = {**ADMIN, "SecurityOpt": [*ADMIN["SecurityOpt"], "apparmor=unconfined"]}
    other = host.begin("sleep", "10000", HostConfig=free)
    assert "mounted" in host.execute(other, *MOUNTS)[1]
    host.remove(one, other)


def check_verbs_reach_a_confined_container(host: Host) -> None:
    """Signals from the engine, top, stats, and a stop that its program obeys."""
    one = host.begin("sh", "-c", "trap 'exit 5' TERM; while :; do sleep 0.1; done")
    assert host.ask("GET", f"/containers/{one}/top")["Processes"]
    host.ask("POST", f"/containers/{one}/stop")
    assert host.inspect(one)["State"]["ExitCode"] == 5
    host.remove(one)


def check_dockers_name_is_taken_and_an_unknown_one_refused(host: Host) -> None:
    """A profile that is not loaded fails the start, in words."""
    one = host.begin("sleep", "10000", HostConfig={"SecurityOpt": ["apparmor=docker-default"]})
    assert host.inspect(one)["AppArmorProfile"] == "engine-default"
    made = host.ask(
        "POST",
        "/containers/create",
        {"Image": "busybox", "Cmd": ["true"], "HostConfig": {"SecurityOpt": ["apparmor=no-such"]}},
    )
    try:
        host.ask("POST", f"/containers/{made['Id']}/start")
    except ApiError as error:
        assert "no-such" in str(error), error
    else:
        raise AssertionError("it was started")
    host.remove(one, made["Id"])
