"""What HostConfig says about walls, as the data that walls are made of: options, devices, parents, modes."""

import os
from pathlib import Path

import pytest

from engine.daemon.containers import config
from engine.daemon.containers.mounts.requests import UncheckedByDockerd
from engine.daemon.containers.record import Container
from engine.daemon.containers.security import dockerinit, joins, resources, specify, walls
from engine.daemon.containers.security.walls import Security
from engine.daemon.containers.verbs.create import create
from engine.errors import Conflict, Invalid, SystemFailure
from engine.sandbox import mounts, seccomp
from engine.sandbox.spec import Device, Limits, Rlimit
from tests.harness import parts
from tests.unit.containers.fakes import make_engine


def whole(**asked: object) -> dict:
    """A complete HostConfig."""
    return config.host_config(asked)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (None, Security()),
        ([], Security()),
        (["no-new-privileges"], Security(no_new_privileges=True)),
        (["no-new-privileges:1"], Security(no_new_privileges=True)),
        (["no-new-privileges", "no-new-privileges=F"], Security(no_new_privileges=False)),
        (["seccomp=unconfined", "apparmor=x"], Security(seccomp="unconfined", apparmor="x")),
        (["seccomp:unconfined"], Security(seccomp="unconfined")),
        (['seccomp={"a": "b=c:d"}'], Security(seccomp='{"a": "b=c:d"}')),
        (["label=disable", "label:type:x", "disable"], Security(labels=("disable", "type:x", "disable"))),
        (["writable-cgroups"], Security(writable_cgroups=True)),
        (["writable-cgroups=false"], Security()),
    ],
)
def test_security_options_are_taken_apart_as_dockerd_does(options: list[str] | None, wanted: Security) -> None:
    assert walls.security(options) == wanted


def test_the_daemons_word_about_new_privileges_is_for_who_says_nothing() -> None:
    assert walls.security(None, no_new_privileges=True) == Security(no_new_privileges=True)
    assert walls.security(["no-new-privileges=false"], no_new_privileges=True) == Security()


@pytest.mark.parametrize(
    ("option", "number"),
    [("x", 1), ("seccomp", 1), ("x=y", 2), ("x:y", 2), ("no-new-privileges=", 2), ("credentialspec=a", 2)],
)
def test_other_options_are_refused_with_dockerds_number(option: str, number: int) -> None:
    with pytest.raises(UncheckedByDockerd, match=f'invalid --security-opt {number}: "{option}"'):
        walls.security([option])


def test_a_filter_is_the_default_one_unless_it_is_said() -> None:
    held = ("CAP_CHOWN",)
    default = seccomp.default_profile(held)
    assert walls.filter_of(whole(), held) == default
    assert walls.filter_of(whole(SecurityOpt=["seccomp=builtin"]), held) == default
    assert walls.filter_of(whole(SecurityOpt=["seccomp=unconfined"]), held) == b""
    assert walls.filter_of(whole(Privileged=True), held) == b""
    own = walls.filter_of(whole(Privileged=True, SecurityOpt=['seccomp={"defaultAction":"SCMP_ACT_ALLOW"}']), held)
    assert own and own != default
    allowing = '{"defaultAction":"SCMP_ACT_ALLOW"}'
    assert walls.filter_of(whole(), held, allowing) == walls.filter_of(whole(SecurityOpt=[f"seccomp={allowing}"]), held)
    assert walls.filter_of(whole(SecurityOpt=["seccomp=builtin"]), held, allowing) == default
    assert walls.filter_of(whole(), held, "unconfined") == b""
    assert walls.filter_of(whole(Privileged=True), held, allowing) == b""


def container(**host_config: object) -> Container:
    """A container that asks for this."""
    return parts.container(id="a" * 64, host_config=whole(**host_config))


def test_an_ordinary_container_has_what_a_spare_has_prepared() -> None:
    """Else no start would be as fast as it is."""
    plain = whole()
    assert walls.mounts_of(plain, joins.Namespaces(joins.OWN)) == mounts.DEFAULT_MOUNTS
    assert walls.devices_of(plain) == (mounts.DEFAULT_DEVICES, ())
    assert walls.devices_of(plain)[0] is mounts.DEFAULT_DEVICES
    assert joins.namespaces_of(None, container()) is joins.namespaces_of(None, container(PidMode="", UTSMode=""))


def test_a_privileged_containers_sysfs_and_cgroups_can_be_written() -> None:
    found = walls.mounts_of(whole(Privileged=True), joins.Namespaces(joins.OWN))
    flags = {mount.target: mount.flags for mount in found}
    assert "ro" not in flags["/sys"] and "ro" not in flags["/sys/fs/cgroup"]
    flags = {
        mount.target: mount.flags
        for mount in walls.mounts_of(whole(SecurityOpt=["writable-cgroups"]), joins.Namespaces(joins.OWN))
    }
    assert "ro" in flags["/sys"] and "ro" not in flags["/sys/fs/cgroup"]


def test_devices_are_nodes_and_rules(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/dev/zero")
    asked = [
        {"PathOnHost": str(tmp_path / "link"), "PathInContainer": "/dev/a/../b", "CgroupPermissions": "wr"},
        {"PathOnHost": "/dev/full", "PathInContainer": "", "CgroupPermissions": ""},
    ]
    nodes, rules = walls.devices_of(whole(Devices=asked, DeviceCgroupRules=["c 9:* r"]))
    mode = os.stat("/dev/zero").st_mode & 0o7777
    assert (
        Device("/dev/b", "c", 1, 5, mode, source="/dev/zero") in nodes and len(nodes) == len(mounts.DEFAULT_DEVICES) + 1
    )
    assert rules == ("c 1:5 rw", "c 9:* r")


@pytest.mark.parametrize("path", ["/dev/no-such", "/etc/passwd", "/etc"])
def test_a_device_that_is_none_is_refused(path: str) -> None:
    with pytest.raises(SystemFailure, match=f'while adding custom device "{path}": '):
        walls.devices_of(whole(Devices=[{"PathOnHost": path, "CgroupPermissions": "rwm"}]))


@pytest.mark.parametrize(
    "asked",
    [
        {"Devices": [{"PathOnHost": "/dev/zero", "CgroupPermissions": "rwx"}]},
        {"Devices": [{"PathOnHost": "/dev/ze\0ro", "CgroupPermissions": "r"}]},
        {"DeviceCgroupRules": ["all"]},
        {"SecurityOpt": ["seccomp={"]},
    ],
)
def test_what_can_be_seen_to_be_wrong_is_refused_at_create(asked: dict) -> None:
    with pytest.raises(Invalid):
        walls.check(whole(**asked))


def test_sysctls_add_to_the_engines_own() -> None:
    default = (("net.a", "0"), ("net.b", "1"))
    own = joins.Namespaces(joins.OWN)
    assert walls.sysctls_of(whole(), default, own) is default
    asked = whole(Sysctls={"net.b": "5", "kernel.sem": "6"})
    assert walls.sysctls_of(asked, default, own) == (("net.a", "0"), ("net.b", "5"), ("kernel.sem", "6"))
    with pytest.raises(SystemFailure, match="not allowed in the hosts ipc namespace"):
        walls.sysctls_of(asked, default, joins.Namespaces(("net",)))
    joined = joins.Namespaces(("net",), (("ipc", 1, 2),))
    assert len(walls.sysctls_of(asked, default, joined)) == 3


# Namespaces


def test_modes_say_which_namespaces_are_made() -> None:
    modes = {"PidMode": "host", "IpcMode": "host", "UTSMode": "host", "NetworkMode": "host", "CgroupnsMode": "host"}
    assert joins.namespaces_of(None, container(**modes)).own == ("mount",)
    assert joins.namespaces_of(None, container(IpcMode="none")).own == joins.OWN


def running(engine: object, name: str, status: str = "running", **host_config: object) -> object:
    """A container of this name that has a process 1, or has ended."""
    made, _ = create(engine, name, {"Image": "busybox", "HostConfig": host_config}, None)
    made.state.status = status
    if status in ("running", "paused"):
        made.state.pid, made.state.pid_start = 4321, 99
    return made


def test_another_containers_namespaces_are_named_by_its_process_1(tmp_path: Path) -> None:
    engine = make_engine(tmp_path)
    other = running(engine, "other", IpcMode="shareable")
    modes = dict.fromkeys(("NetworkMode", "IpcMode", "PidMode"), f"container:{other.id}")
    found = joins.namespaces_of(engine, container(**modes))
    assert found.own == ("mount", "uts", "cgroup")
    assert set(found.joined) == {("net", 4321, 99), ("ipc", 4321, 99), ("pid", 4321, 99)}
    shm = joins.shm_of(whole(**modes), found)
    assert shm.holder == (4321, 99, "/dev/shm")


@pytest.mark.parametrize(
    ("key", "wanted", "kind", "text"),
    [
        ("NetworkMode", "nope", SystemFailure, "joining network namespace of container: No such container: nope"),
        (
            "NetworkMode",
            "ended",
            Conflict,
            "cannot join network namespace of a non running container: container ended is exited",
        ),
        ("IpcMode", "nope", Invalid, "failed to join IPC namespace: No such container: nope"),
        ("IpcMode", "ended", Conflict, "failed to join IPC namespace: container ended is not running"),
        ("IpcMode", "private", Invalid, "non-shareable IPC"),
        ("PidMode", "nope", SystemFailure, "failed to join PID namespace: No such container: nope"),
        ("PidMode", "ended", SystemFailure, "failed to join PID namespace: container ended is not running"),
    ],
)
def test_what_cannot_be_joined_is_refused(tmp_path: Path, key: str, wanted: str, kind: type, text: str) -> None:
    engine = make_engine(tmp_path)
    running(engine, "ended", "exited")
    running(engine, "private")
    with pytest.raises(kind, match=text):
        joins.namespaces_of(engine, container(**{key: f"container:{wanted}"}))


def test_nobody_joins_himself(tmp_path: Path) -> None:
    engine = make_engine(tmp_path)
    own = running(engine, "own")
    own.host_config = {**own.host_config, "NetworkMode": "container:own"}
    with pytest.raises(SystemFailure, match="cannot join own network namespace"):
        joins.namespaces_of(engine, own)
    own.host_config = {**own.host_config, "NetworkMode": "none", "PidMode": "container:own"}
    with pytest.raises(SystemFailure, match="is not running"):
        joins.namespaces_of(engine, own)


def test_who_is_joined_is_kept_by_id_and_labels_are_disabled(tmp_path: Path) -> None:
    engine = make_engine(tmp_path)
    other = running(engine, "other")
    made, _ = create(engine, None, {"Image": "busybox", "HostConfig": {"PidMode": "container:other"}}, None)
    assert made.host_config["PidMode"] == f"container:{other.id}"
    # Only the network of a container may be asked for before that container is there.
    made, _ = create(engine, None, {"Image": "busybox", "HostConfig": {"NetworkMode": "container:later"}}, None)
    assert made.host_config["NetworkMode"] == "container:later"
    for key in ("PidMode", "IpcMode"):
        with pytest.raises(Invalid, match=r"^No such container: later$"):
            create(engine, None, {"Image": "busybox", "HostConfig": {key: "container:later"}}, None)
    for asked in ({"PidMode": "host"}, {"IpcMode": "host"}, {"Privileged": True}):
        made, _ = create(engine, None, {"Image": "busybox", "HostConfig": asked}, None)
        assert made.host_config["SecurityOpt"] == ["label=disable"]
        asked["SecurityOpt"] = ["label=level:s0"]
        made, _ = create(engine, None, {"Image": "busybox", "HostConfig": asked}, None)
        assert made.host_config["SecurityOpt"] == ["label=level:s0"]


# Init and resource limits


@pytest.mark.parametrize(
    ("asked", "default", "mode", "wanted"),
    [
        (None, False, "", False),
        (None, True, "", True),
        (True, False, "", True),
        (False, True, "", False),
        (True, True, "host", False),
        (True, True, "container:x", False),
    ],
)
def test_an_init_is_for_who_wants_it_and_has_processes_of_his_own(
    asked: bool | None, default: bool, mode: str, wanted: bool
) -> None:
    settings = parts.settings(init=default)
    assert dockerinit.is_wanted(settings, whole(Init=asked, PidMode=mode)) is wanted


def test_the_program_of_the_daemons_choice_must_be_there(tmp_path: Path) -> None:
    settings = parts.settings(init_path=str(tmp_path / "init"))
    with pytest.raises(SystemFailure, match="--init-path"):
        dockerinit.mount(settings)
    Path(settings.init_path).touch(0o755)
    mount = dockerinit.mount(settings)
    assert (mount.source, mount.target, mount.flags) == (settings.init_path, "/sbin/docker-init", ("ro",))


def test_the_daemons_resource_limits_are_for_who_does_not_name_them() -> None:
    asked = whole(Ulimits=[{"Name": "nofile", "Soft": 1, "Hard": 2}])
    found = resources.rlimits_of(asked, ("nofile=5:6", "core=0:-1"))
    assert found == (Rlimit("nofile", 1, 2), Rlimit("core", 0, -1))


def test_every_limit_of_the_api_has_its_field() -> None:
    device = [{"Path": "/dev/x", "Rate": 7, "Weight": 7}]
    asked = whole(
        Memory=1,
        MemorySwap=2,
        MemoryReservation=3,
        MemorySwappiness=0,
        OomKillDisable=True,
        CpuShares=4,
        CpuPeriod=5,
        CpuQuota=6,
        CpuRealtimePeriod=7,
        CpuRealtimeRuntime=8,
        NanoCpus=9,
        CpusetCpus="0",
        CpusetMems="0",
        BlkioWeight=10,
        PidsLimit=11,
        BlkioWeightDevice=device,
        **{f"BlkioDevice{way}{what}": device for way in ("Read", "Write") for what in ("Bps", "IOps")},
    )
    found = resources.limits_of(asked, lambda path: f"of {path}")
    assert not [name for name in Limits.__slots__ if getattr(found, name) == getattr(Limits(), name)]
    assert found.blkio_write_iops == (("of /dev/x", 7),)
    assert resources.limits_of(whole(), str) == Limits()


def test_what_the_host_cannot_do_is_taken_out_of_what_is_shown() -> None:
    class Poor:
        features = frozenset({"cpu_cfs"})

        def fitting(self, limits: Limits) -> tuple[Limits, list[str]]:
            return Limits(nano_cpus=limits.nano_cpus), ["discarded"]

    asked = whole(
        Memory=1 << 30,
        PidsLimit=5,
        CpusetCpus="0",
        MemorySwappiness=3,
        BlkioDeviceReadBps=[{"Path": "/x", "Rate": 1}],
        NanoCpus=5,
    )
    assert resources.discard(asked, Poor()) == ["discarded"]
    left = {
        key: asked[key] for key in ("Memory", "MemorySwap", "PidsLimit", "CpusetCpus", "MemorySwappiness", "NanoCpus")
    }
    assert left == {
        "Memory": 0,
        "MemorySwap": -1,
        "PidsLimit": None,
        "CpusetCpus": "",
        "MemorySwappiness": None,
        "NanoCpus": 5,
    }
    assert asked["BlkioDeviceReadBps"] == []
    with pytest.raises(Invalid, match="kernel does not support CPU real-time scheduler"):
        resources.discard(whole(CpuRealtimeRuntime=5), Poor())
    assert resources.check(whole(BlkioWeight=5, Memory=5), Poor()) == ["discarded"]
    for impossible, text in (({"BlkioWeight": 5}, "Range of blkio weight"), ({"Memory": 5}, "Minimum memory limit")):
        with pytest.raises(Invalid, match=text):
            resources.check(whole(**impossible), None)


def test_further_processes_have_the_rights_of_the_first(tmp_path: Path) -> None:
    engine = make_engine(tmp_path)
    engine.cgroups.entries = lambda *of, running: ("/x/tasks",)
    made = running(engine, "one", SecurityOpt=["no-new-privileges"], OomScoreAdj=5)
    process = specify.process_of(engine, made)
    assert (process.no_new_privileges, process.oom_score_adj, process.cgroups) == (True, 5, ("/x/tasks",))
