"""A Sandbox as an OCI runtime reads it."""

import json

import pytest

from engine.daemon.containers.security import ociconfig
from engine.errors import SystemFailure
from engine.sandbox.mounts import default_mounts
from engine.sandbox.spec import Device, Mount, Rlimit, Root, Sandbox
from engine.sandbox.users import Identity, with_home

BIND = Mount("bind", "/src", "/data", ("rbind", "ro"), asked=True)
LOG = Mount("bind", "/dev/log", "/dev/log", ("rbind",), propagation="rslave", asked=True)
SANDBOX = Sandbox(
    id="c" * 64,
    root=Root("/base", ("1",), "/upper", "/work", readonly=True),
    namespaces=("mount", "pid", "uts", "ipc"),
    argv=("sh", "-c", "true"),
    env=("A=b",),
    hostname="odd",
    mounts=(*default_mounts(1 << 20), BIND, LOG),
    devices=(Device("/dev/null", "c", 1, 3),),
    masked_paths=("/proc/kcore",),
    capabilities=("CAP_CHOWN",),
    no_new_privileges=True,
    rlimits=(Rlimit("nofile", 5, -1),),
    sysctls=(("net.ipv4.ip_forward", "1"),),
    oom_score_adj=7,
    joined=(("net", 42, 1),),
    apparmor="profile",
)


def config(**more: object) -> dict:
    """The config of that sandbox."""
    return json.loads(ociconfig.text(SANDBOX, "builtin", "cc"))


def test_what_is_mounted_before_is_not_the_runtimes_to_mount() -> None:
    before, runtimes = ociconfig.divided(SANDBOX)
    assert before == (BIND,)
    assert [each.target for each in runtimes] == [each.target for each in (*default_mounts(), LOG)]
    shown = {each["destination"]: each for each in config()["mounts"]}
    assert shown["/dev/log"] == {
        "destination": "/dev/log",
        "type": "bind",
        "source": "/dev/log",
        "options": ["rbind", "rslave"],
    }
    assert "size=1048576" in shown["/dev/shm"]["options"] and "/data" not in shown


@pytest.mark.parametrize(
    "mount",
    [
        Mount("tmpfs", "tmpfs", "/dev/x", asked=True),
        Mount("bind", "/src", "/sys/x", subpath="y", asked=True),
        Mount("tmpfs", "shm", "/dev/shm", holder=(1, 2, "/dev/shm")),
    ],
)
def test_what_no_runtime_can_mount_is_refused(mount: Mount) -> None:
    with pytest.raises(SystemFailure, match="a container of another runtime cannot have"):
        ociconfig.divided(Sandbox("c", SANDBOX.root, (), (), (), mounts=(mount,)))


def test_namespaces_are_new_or_others() -> None:
    assert config()["linux"]["namespaces"] == [
        *({"type": each} for each in ("mount", "pid", "uts", "ipc")),
        {"type": "network", "path": "/proc/42/ns/net"},
    ]


def test_the_process_has_the_rights_of_the_sandbox() -> None:
    process = config()["process"]
    assert process["capabilities"] == {key: ["CAP_CHOWN"] for key in ("bounding", "effective", "permitted")}
    assert process["rlimits"] == [{"type": "RLIMIT_NOFILE", "soft": 5, "hard": 2**64 - 1}]
    assert (process["noNewPrivileges"], process["oomScoreAdj"], process["apparmorProfile"]) == (True, 7, "profile")
    assert (process["args"], process["env"], process["terminal"]) == (["sh", "-c", "true"], ["A=b"], False)


def test_a_further_process_is_who_the_files_say() -> None:
    who = Identity(5, 6, (6, 7), "/home/odd")
    process = json.loads(ociconfig.process_text(SANDBOX, who))
    assert process == {**config()["process"], "user": process["user"], "env": ["A=b", "HOME=/home/odd"]}
    assert with_home(("HOME=", "A=b"), "/h") == ["A=b", "HOME=/h"]
    assert with_home(("HOME=/x", "A=b"), "/h") == ["HOME=/x", "A=b"]
    assert process["user"] == {"uid": 5, "gid": 6, "additionalGids": [6, 7]}


def test_the_root_is_where_it_is_mounted() -> None:
    found = config()
    assert found["root"] == {"path": "/upper", "readonly": True}
    assert (found["hostname"], found["linux"]["cgroupsPath"]) == ("odd", "/engine-runtimes/cc")
    assert found["linux"]["sysctl"] == {"net.ipv4.ip_forward": "1"}


def test_the_filter_has_the_rules_that_apply() -> None:
    """Those of the capabilities that the container has, and of this machine's architecture."""
    found = config()["linux"]["seccomp"]
    assert found["defaultAction"] == "SCMP_ACT_ERRNO"
    allowed = {name for rule in found["syscalls"] if rule["action"] == "SCMP_ACT_ALLOW" for name in rule["names"]}
    assert "read" in allowed and "mount" not in allowed
    assert any(rule.get("args") for rule in found["syscalls"])
    assert "seccomp" not in json.loads(ociconfig.text(SANDBOX, "unconfined", "cc"))["linux"]
    rule = {"names": ["mkdir"], "action": "SCMP_ACT_ERRNO", "errnoRet": 5}
    own = json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]})
    assert json.loads(ociconfig.text(SANDBOX, own, "cc"))["linux"]["seccomp"]["syscalls"] == [rule]
