"""SecurityOpt and Sysctls: what is honoured, seen from inside, and what is refused in docker's words."""

import json
from pathlib import Path

import pytest

from engine.sandbox import seccomp
from tests.harness.daemon import Daemon

pytestmark = pytest.mark.usefixtures("busybox")


def host(**fields: object) -> dict:
    """A HostConfig without a network."""
    return {"NetworkMode": "none", **fields}


def refusal(daemon: Daemon, status: int, **host_config: object) -> str:
    """The text with which create, or else start, is refused."""
    answer = daemon.request("POST", "/containers/create", {"Image": "busybox", "HostConfig": host(**host_config)})
    if answer.status == 201:
        made = answer.json()["Id"]
        try:
            answer = daemon.request("POST", f"/containers/{made}/start")
        finally:
            daemon.remove(made)
    assert answer.status == status, answer.body
    return answer.message


def test_no_new_privileges(daemon: Daemon) -> None:
    """In each of its forms."""
    script = "grep NoNewPrivs /proc/self/status"
    for option, value in (
        ("no-new-privileges", 1),
        ("no-new-privileges=true", 1),
        ("no-new-privileges:true", 1),
        ("no-new-privileges=false", 0),
    ):
        assert daemon.shell(script, HostConfig=host(SecurityOpt=[option])) == f"NoNewPrivs:\t{value}"


def test_seccomp_unconfined_and_the_built_in_profile(daemon: Daemon) -> None:
    """None, or the default one."""
    script = "grep Seccomp: /proc/self/status; unshare -U true && echo unshared"
    free = daemon.run("sh", "-c", script, HostConfig=host(SecurityOpt=["seccomp=unconfined"]))
    assert free.stdout.startswith(b"Seccomp:\t0\n")
    kept = daemon.run("sh", "-c", script, HostConfig=host(SecurityOpt=["seccomp=builtin"]))
    assert kept.stdout == b"Seccomp:\t2\n" and kept.status != 0


@pytest.mark.parametrize("more", [[], ["no-new-privileges"]])
def test_a_profile_of_the_clients_own(daemon: Daemon, more: list[str]) -> None:
    """Its text comes in the option, as the CLI sends it."""
    profile = {
        "defaultAction": "SCMP_ACT_ALLOW",
        "flags": ["SECCOMP_FILTER_FLAG_LOG", "SECCOMP_FILTER_FLAG_SPEC_ALLOW"],
        "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 28}],
    }
    options = [f"seccomp={json.dumps(profile)}", *more]
    output = daemon.run("sh", "-c", "mkdir /tmp/x; chmod 700 /tmp && echo ok", HostConfig=host(SecurityOpt=options))
    assert output.stdout == b"ok\n" and b"No space left on device" in output.stderr


@pytest.mark.parametrize("answer", [1, 38])
def test_a_profile_older_than_the_calls_that_the_engine_makes(daemon: Daemon, answer: int) -> None:
    """Many a client keeps a copy of docker's default profile of years ago."""
    profile = json.loads((Path(seccomp.__file__).parent / "seccomp_default.json").read_bytes())
    young = {"openat2", "close_range", "faccessat2", "clone3", "pidfd_open", "mount_setattr", "fchmodat2", "statx"}
    for rule in profile["syscalls"]:
        rule["names"] = [name for name in rule["names"] if name not in young]
    profile["defaultErrnoRet"] = answer
    options = [f"seccomp={json.dumps(profile)}"]
    assert daemon.shell("echo ran", HostConfig=host(SecurityOpt=options)) == "ran"
    assert daemon.shell("echo ran", User="1000", HostConfig=host(SecurityOpt=options)) == "ran"


def test_a_privileged_container_may_have_a_profile_too(daemon: Daemon) -> None:
    """One that was asked for; by itself it has none."""
    rule = {"names": ["sethostname"], "action": "SCMP_ACT_ERRNO", "errnoRet": 28}
    profile = json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]})
    output = daemon.run("hostname", "x", HostConfig=host(Privileged=True, SecurityOpt=[f"seccomp={profile}"]))
    assert b"No space left on device" in output.stderr


@pytest.mark.parametrize("option", ["label=disable", "label=type:x_t", "label=level:s0:c1", "apparmor=unconfined"])
def test_labels_and_profiles_of_modules_that_the_host_lacks_change_nothing(daemon: Daemon, option: str) -> None:
    """dockerd takes them on such a host too."""
    if option.startswith("apparmor") and Path("/sys/kernel/security/apparmor").exists():
        pytest.skip("this host has AppArmor")
    assert daemon.shell("echo ran", HostConfig=host(SecurityOpt=[option])) == "ran"


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("whatever", 'invalid --security-opt 1: "whatever"'),
        ("what=ever", 'invalid --security-opt 2: "what=ever"'),
        ("systempaths=unconfined", 'invalid --security-opt 2: "systempaths=unconfined"'),
        ("no-new-privileges=perhaps", 'invalid --security-opt 2: "no-new-privileges=perhaps"'),
        ("seccomp", 'invalid --security-opt 1: "seccomp"'),
    ],
)
def test_an_option_that_dockerd_does_not_know_is_refused(daemon: Daemon, option: str, text: str) -> None:
    """With its number of the mistake, and the status of a late one."""
    assert refusal(daemon, 500, SecurityOpt=["no-new-privileges", option]) == text


def test_system_paths_unconfined(daemon: Daemon) -> None:
    """What the CLI makes of --security-opt systempaths=unconfined."""
    script = "grep -cE ' /proc/|/sys/firmware' /proc/mounts; head -c0 /proc/timer_list && echo seen"
    assert daemon.shell(script + "; true", HostConfig=host(MaskedPaths=[], ReadonlyPaths=[])).split() == ["0", "seen"]


# Sysctls


def test_a_parameter_of_the_containers_own_namespaces_is_set(daemon: Daemon) -> None:
    """With dots or slashes; the engine's own defaults stay, and can be overridden."""
    asked = {"net.ipv4.ip_default_ttl": "33", "kernel.msgmax": "9000", "fs/mqueue/msg_max": "20"}
    script = (
        "cd /proc/sys; cat net/ipv4/ip_default_ttl kernel/msgmax fs/mqueue/msg_max net/ipv4/ip_unprivileged_port_start"
    )
    assert daemon.shell(script, HostConfig=host(Sysctls=asked)).split() == ["33", "9000", "20", "0"]
    asked = {"net.ipv4.ip_unprivileged_port_start": "500"}
    assert daemon.shell(script, HostConfig=host(Sysctls=asked)).split()[-1] == "500"


@pytest.mark.parametrize(
    ("name", "more", "text"),
    [
        ("kernel.bogus", {}, 'sysctl "kernel.bogus" is not in a separate kernel namespace'),
        ("vm.swappiness", {}, 'sysctl "vm.swappiness" is not in a separate kernel namespace'),
        ("net.x", {"NetworkMode": "host"}, 'sysctl "net.x" not allowed in host network namespace'),
        ("kernel.sem", {"IpcMode": "host"}, 'sysctl "kernel.sem" is not allowed in the hosts ipc namespace'),
        (
            "kernel.hostname",
            {},
            'sysctl "kernel.hostname" is not allowed as it conflicts with the OCI "hostname" field',
        ),
    ],
)
def test_a_parameter_of_the_host_is_refused_at_the_start(daemon: Daemon, name: str, more: dict, text: str) -> None:
    """In runc's words."""
    created = "failed to create task for container: failed to create shim task: OCI runtime create failed: "
    assert refusal(daemon, 500, Sysctls={name: "1"}, **more) == f"{created}runc create failed: {text}"
