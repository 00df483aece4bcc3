"""The walls of a container as HostConfig moves them: privileged, devices, namespaces shared, the cgroup."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.api.test_security_options import host, refusal
from tests.harness.daemon import Daemon
from tests.harness.listening import until

pytestmark = pytest.mark.usefixtures("busybox")

ALL_DEVICES = "/sys/fs/cgroup/devices"
ZERO = {"PathOnHost": "/dev/zero", "PathInContainer": "/dev/other", "CgroupPermissions": "rwm"}


def namespace(daemon: Daemon, container: str, name: str) -> str:
    """The identity of a running container's namespace."""
    return os.readlink(f"/proc/{daemon.inspect(container)['State']['Pid']}/ns/{name}")


@contextlib.contextmanager
def donor(daemon: Daemon, **host_config: object) -> Iterator[str]:
    """A running container whose namespaces others are to join; its id."""
    made = daemon.create("sleep", "60", Hostname="giver", HostConfig=host(**host_config))
    try:
        daemon.begin(made)
        yield made
    finally:
        daemon.remove(made)


# Privileged


def test_a_privileged_container_has_all_that_the_host_has(daemon: Daemon) -> None:
    """Every capability of the engine, no filter, nothing hidden or read-only."""
    script = "grep -E 'CapEff|Seccomp:' /proc/self/status; grep -c . /proc/mounts >/dev/null; "
    script += "grep -E ' (/proc/|/sys ).* ro[, ]' /proc/mounts; echo 33 > /proc/sys/net/ipv4/ip_default_ttl && echo set"
    engines = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff"))
    lines = daemon.shell(script, HostConfig=host(Privileged=True)).splitlines()
    assert lines == [engines, "Seccomp:\t0", "set"]


def test_a_privileged_container_may_use_every_device_and_has_the_hosts_nodes(daemon: Daemon) -> None:
    """Those below /dev, as they are on the host; none of the host's terminals and queues."""
    names = [
        path
        for path in sorted(Path("/dev").iterdir())
        if (path.is_char_device() or path.is_block_device()) and path.name not in ("console", "ptmx")
        if not path.is_symlink()
    ]
    seen = daemon.shell("ls /dev", HostConfig=host(Privileged=True)).split()
    assert {path.name for path in names} <= set(seen) and len(names) > 10
    wanted = daemon.shell("stat -c '%t:%T:%a' /dev/kmsg; head -c0 /dev/kmsg", HostConfig=host(Privileged=True))
    assert wanted.startswith("1:b:")


def test_the_cgroups_of_a_privileged_container_can_be_written(daemon: Daemon) -> None:
    """And those of others cannot."""
    place = next(
        path for path in ("/sys/fs/cgroup/pids", "/sys/fs/cgroup/unified", "/sys/fs/cgroup") if Path(path).exists()
    )
    script = f"mkdir {place}/mine && rmdir {place}/mine && echo made"
    assert daemon.shell(script, HostConfig=host(Privileged=True)) == "made"
    assert daemon.shell(script, HostConfig=host(SecurityOpt=["writable-cgroups=true"])) == "made"
    assert daemon.run("sh", "-c", script, HostConfig=host()).status != 0


def test_what_inspect_shows_of_a_privileged_container(daemon: Daemon, container: Callable[..., str]) -> None:
    """It has no masks, no label, and with version 1 the host's cgroup namespace; so it is with dockerd."""
    shown = daemon.inspect(container("true", HostConfig=host(Privileged=True)))["HostConfig"]
    assert (shown["MaskedPaths"], shown["ReadonlyPaths"]) == (None, None)
    assert shown["SecurityOpt"] == ["label=disable"]
    version = daemon.request("GET", "/info").json()["CgroupVersion"]
    assert shown["CgroupnsMode"] == ("host" if version == "1" else "private")


# Devices


def test_a_device_is_there_under_the_name_asked_for(daemon: Daemon) -> None:
    """Also in a directory that is made for it."""
    device = {**ZERO, "PathInContainer": "/dev/deep/er/other"}
    script = "head -c3 /dev/deep/er/other | wc -c; stat -c '%F %t:%T' /dev/deep/er/other"
    assert daemon.shell(script, HostConfig=host(Devices=[device])) == "3\ncharacter special file 1:5"


def test_the_permissions_of_a_device(daemon: Daemon) -> None:
    """Reading is not writing. The node is another device than the usual ones, which may be used anyway."""
    kmsg = {"PathOnHost": "/dev/kmsg", "PathInContainer": "/dev/log-of-kernel", "CgroupPermissions": "r"}
    script = "head -c0 /dev/log-of-kernel && echo read; echo x > /dev/log-of-kernel || echo not written"
    output = daemon.run("sh", "-c", script, HostConfig=host(Devices=[kmsg], CapAdd=["SYSLOG"]))
    assert output.stdout.split(b"\n")[:2] == [b"read", b"not written"]
    kmsg["CgroupPermissions"] = "w"
    output = daemon.run("sh", "-c", script, HostConfig=host(Devices=[kmsg], CapAdd=["SYSLOG"]))
    assert b"read\n" not in output.stdout


def test_a_directory_of_devices_brings_all_that_are_in_it(daemon: Daemon) -> None:
    """With the directories between them."""
    if not Path("/dev/net/tun").exists():
        pytest.skip("needs a directory of devices: /dev/net")
    asked = [{"PathOnHost": "/dev/net", "PathInContainer": "/dev/nets", "CgroupPermissions": "rwm"}]
    assert daemon.shell("ls /dev/nets; stat -c %F /dev/nets/tun", HostConfig=host(Devices=asked)) == (
        "tun\ncharacter special file"
    )


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/dev/nope", "no such file or directory"),
        ("/etc/passwd", "not a device node"),
        ("/etc/ssl", "not a device node"),
    ],
)
def test_what_is_no_device_is_refused_at_the_start(daemon: Daemon, path: str, reason: str) -> None:
    """In docker's words."""
    text = refusal(daemon, 500, Devices=[{**ZERO, "PathOnHost": path}])
    assert text == f'error gathering device information while adding custom device "{path}": {reason}'


def test_device_cgroup_rules(daemon: Daemon) -> None:
    """A node that the container makes itself can be used with a rule for it, and not without."""
    script = "mknod /tmp/kmsg c 1 11 && head -c0 /tmp/kmsg && echo read"
    assert daemon.run("sh", "-c", script, HostConfig=host(CapAdd=["SYSLOG"])).stdout == b""
    for rule in ("c 1:11 r", "c 1:* rwm", "c *:* rw", "a *:* rwm"):
        body = host(CapAdd=["SYSLOG"], DeviceCgroupRules=[rule])
        assert daemon.shell(script, HostConfig=body) == "read", rule


@pytest.mark.parametrize(
    "rule", ["x 1:1 r", "c 1:1", "c 1:1 q", "c 1 r", "c 99999999999:1 r", "c 1:1 r\nb *:* rwm", ""]
)
def test_a_rule_that_is_none_is_refused(daemon: Daemon, rule: str) -> None:
    """At create."""
    assert refusal(daemon, 400, DeviceCgroupRules=[rule]) == f"invalid device cgroup rule format: '{rule}'"


def test_there_is_no_driver_of_devices_but_cdis(daemon: Daemon) -> None:
    """And that finds no device that no file describes."""
    for driver, capability in (("", "gpu"), ("", "amd"), ("amd", "x")):
        gpu = {"Driver": driver, "Count": -1, "Capabilities": [[capability]]}
        said = "failed to discover GPU vendor from CDI: no known GPU vendor found"
        assert refusal(daemon, 500, DeviceRequests=[gpu]) == said
    for driver, capability in (("", "compute"), ("nvidia", "gpu")):
        gpu = {"Driver": driver, "Count": -1, "Capabilities": [[capability]]}
        said = f'could not select device driver "{driver}" with capabilities: [[{capability}]]'
        assert refusal(daemon, 500, DeviceRequests=[gpu]) == said
    cdi = {"Driver": "cdi", "DeviceIDs": ["vendor.test/class=none"]}
    said = "CDI device injection failed: unresolvable CDI devices vendor.test/class=none"
    assert refusal(daemon, 500, DeviceRequests=[cdi]) == said


# Namespaces shared with the host


@pytest.mark.parametrize(
    ("field", "name"), [("PidMode", "pid"), ("IpcMode", "ipc"), ("NetworkMode", "net"), ("CgroupnsMode", "cgroup")]
)
def test_a_namespace_of_the_host_is_shared(
    daemon: Daemon, container: Callable[..., str], field: str, name: str
) -> None:
    """The one that the daemon is in."""
    one = container("sleep", "60", HostConfig=host(**{field: "host"}))
    daemon.begin(one)
    assert namespace(daemon, one, name) == os.readlink(f"/proc/{daemon.pid}/ns/{name}")
    others = {"pid", "ipc", "net", "cgroup", "uts", "mnt"} - {name}
    assert all(namespace(daemon, one, other) != os.readlink(f"/proc/{daemon.pid}/ns/{other}") for other in others)


def test_the_hosts_uts_namespace(daemon: Daemon, container: Callable[..., str]) -> None:
    """Its name is the host's, and a name of its own is refused."""
    one = container("hostname", HostConfig=host(UTSMode="host"))
    daemon.begin(one)
    assert daemon.wait(one) == 0
    assert daemon.logs(one)[8:].decode().strip() == os.uname().nodename
    body = {"Image": "busybox", "Hostname": "own", "HostConfig": host(UTSMode="host")}
    answer = daemon.request("POST", "/containers/create", body)
    assert (answer.status, answer.message) == (400, "conflicting options: hostname and the UTS mode")


def test_the_hosts_shared_memory(daemon: Daemon) -> None:
    """With the host's IPC namespace comes its /dev/shm; with none there is none at all."""
    with Path("/dev/shm/of-the-test").open("w") as file:
        file.write("x")
    try:
        assert daemon.shell("cat /dev/shm/of-the-test", HostConfig=host(IpcMode="host")) == "x"
    finally:
        Path("/dev/shm/of-the-test").unlink()
    assert daemon.shell("grep -c /dev/shm /proc/mounts; true", HostConfig=host(IpcMode="none")) == "0"


def test_what_a_container_in_the_hosts_pid_namespace_leaves_is_ended_with_it(daemon: Daemon) -> None:
    """No process 1 takes the others along there."""
    one = daemon.create("sh", "-c", "sleep 1234 & echo $!", HostConfig=host(PidMode="host"))
    try:
        daemon.begin(one)
        daemon.wait(one)
        pid = int(daemon.logs(one)[8:])
        daemon.inspect(one)
    finally:
        daemon.remove(one)
    assert not Path(f"/proc/{pid}/cmdline").exists() or b"1234" not in Path(f"/proc/{pid}/cmdline").read_bytes()


# Namespaces of another container


def test_the_network_of_another_container(daemon: Daemon, container: Callable[..., str]) -> None:
    """With the files that go with it, and its name."""
    with donor(daemon, ExtraHosts=["there:1.2.3.4"]) as other:
        script = "cat /etc/hosts /etc/hostname; hostname; echo $HOSTNAME; sleep 60"
        one = container("sh", "-c", script, HostConfig=host(NetworkMode=f"container:{other[:12]}"))
        assert daemon.inspect(one)["HostConfig"]["NetworkMode"] == f"container:{other}"
        daemon.begin(one)
        assert namespace(daemon, one, "net") == namespace(daemon, other, "net")
        assert namespace(daemon, one, "uts") != namespace(daemon, other, "uts")
        until(lambda: daemon.logs(one).count(b"giver") == 3)
        daemon.request("POST", f"/containers/{one}/kill")
        daemon.wait(one)
        said = daemon.logs(one).decode(errors="replace")
        assert "1.2.3.4\tthere" in said and said.count("giver") == 3
        shown = daemon.inspect(one)
        assert shown["Config"]["Hostname"] == "giver"
        assert all(other in shown[key] for key in ("HostsPath", "HostnamePath", "ResolvConfPath"))


def test_the_processes_of_another_container(daemon: Daemon, container: Callable[..., str]) -> None:
    """They are seen, and can be signalled; the end of the other one's process 1 is the end of all."""
    with donor(daemon) as other:
        one = container("sh", "-c", "ps; sleep 60", HostConfig=host(PidMode=f"container:{other}"))
        daemon.begin(one)
        assert namespace(daemon, one, "pid") == namespace(daemon, other, "pid")
        until(lambda: b"sleep 60" in daemon.logs(one))
        daemon.request("POST", f"/containers/{other}/kill")
        assert daemon.wait(one) == 137
        assert b"1 root" in daemon.logs(one) and b"sleep 60" in daemon.logs(one)


def test_the_shared_memory_of_another_container(daemon: Daemon, container: Callable[..., str]) -> None:
    """If it shares it; and it stays when the other one has ended."""
    with donor(daemon, IpcMode="shareable") as other:
        mode = f"container:{other}"
        one = container("sh", "-c", "echo text > /dev/shm/left; sleep 60", HostConfig=host(IpcMode=mode))
        daemon.begin(one)
        assert namespace(daemon, one, "ipc") == namespace(daemon, other, "ipc")
        script = "until [ -s /dev/shm/left ]; do sleep 0.02; done; cat /dev/shm/left"
        assert daemon.shell(script, HostConfig=host(IpcMode=mode)) == "text"
        # One that has joined can be joined in turn.
        assert daemon.shell(script, HostConfig=host(IpcMode=f"container:{one}")) == "text"
    with donor(daemon) as other:
        text = refusal(daemon, 400, IpcMode=f"container:{other}")
        assert text.endswith("non-shareable IPC (hint: use IpcMode:shareable for the donor container)")


def test_a_container_that_does_not_run_cannot_be_joined(daemon: Daemon, container: Callable[..., str]) -> None:
    """Docker's words, for each of the three."""
    one = container("true", name="not-yet")
    mode = f"container:{one}"
    assert refusal(daemon, 409, NetworkMode=mode) == (
        "cannot join network namespace of a non running container: container not-yet is created"
    )
    assert f"failed to join PID namespace: container {one} is not running" in refusal(daemon, 500, PidMode=mode)
    assert f"container {one} is not running" in refusal(daemon, 409, IpcMode=mode)
    assert refusal(daemon, 500, NetworkMode="container:nope") == (
        "joining network namespace of container: No such container: nope"
    )


@pytest.mark.parametrize("field", ["PidMode", "IpcMode"])
def test_a_container_that_is_not_there_cannot_be_joined(daemon: Daemon, field: str) -> None:
    """The create says so already."""
    body = {"Image": "busybox", "HostConfig": host(**{field: "container:nope"})}
    answer = daemon.request("POST", "/containers/create", body)
    assert (answer.status, answer.message) == (400, "No such container: nope")


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"Hostname": "x"}, "conflicting options: hostname and the network mode"),
        ({"ExposedPorts": {"80/tcp": {}}}, "conflicting options: port exposing and the container type network mode"),
        ({"Dns": ["1.1.1.1"]}, "conflicting options: dns and the network mode"),
        ({"ExtraHosts": ["a:1.1.1.1"]}, "conflicting options: custom host-to-IP mapping and the network mode"),
        ({"PublishAllPorts": True}, "conflicting options: port publishing and the container type network mode"),
        (
            {"Links": ["a:b"]},
            "conflicting options: container type network can't be used with links."
            " This would result in undefined behavior",
        ),
    ],
)
def test_what_does_not_go_with_the_network_of_another_container(daemon: Daemon, more: dict, text: str) -> None:
    """Refused at create."""
    body: dict = {"Image": "busybox", "HostConfig": {"NetworkMode": "container:x"}}
    for key, value in more.items():
        (body if key in ("Hostname", "ExposedPorts") else body["HostConfig"])[key] = value
    answer = daemon.request("POST", "/containers/create", body)
    assert (answer.status, answer.message) == (400, text)


# The cgroup


def needs_cgroupfs(daemon: Daemon) -> None:
    """Where systemd makes the cgroups, a parent is one of its slices."""
    if daemon.request("GET", "/info").json()["CgroupDriver"] == "systemd":
        pytest.skip("systemd makes the cgroups here")


def test_a_cgroup_parent(daemon: Daemon, container: Callable[..., str]) -> None:
    """Any path, made where it is missing, and never above the root. systemd's are tested in tests/guests."""
    needs_cgroupfs(daemon)
    for asked, made in (
        ("/of-the-test/inner", "/of-the-test/inner"),
        ("of-the-test", "/of-the-test"),
        ("../../of-the-test/x/..", "/of-the-test"),
    ):
        one = container("sleep", "60", HostConfig=host(CgroupParent=asked))
        daemon.begin(one)
        pid = daemon.inspect(one)["State"]["Pid"]
        lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
        assert next(path for _, name, path in lines if name in ("pids", "")) == f"{made}/{one}"
        daemon.remove(one)
    top = Path("/sys/fs/cgroup")
    for name in ("of-the-test/inner", "of-the-test"):
        for directory in {found.resolve() for found in (*top.glob(name), *top.glob(f"*/{name}"))}:
            directory.rmdir()


def test_a_slice_is_refused_in_words(daemon: Daemon) -> None:
    """There is no systemd to ask for it."""
    needs_cgroupfs(daemon)
    assert "systemd slice" in refusal(daemon, 400, CgroupParent="machine.slice")


def test_the_oom_score(daemon: Daemon) -> None:
    """Process 1's and its children's."""
    assert daemon.shell("cat /proc/self/oom_score_adj", HostConfig=host(OomScoreAdj=321)) == "321"


# What there is only one of


@pytest.mark.parametrize("name", ["runc", "io.containerd.runc.v2"])
def test_dockers_own_runtimes_are_this_engine(daemon: Daemon, name: str) -> None:
    """Clients name them."""
    assert daemon.shell("echo ran", HostConfig=host(Runtime=name)) == "ran"


@pytest.mark.parametrize(
    ("field", "value", "status", "text"),
    [
        ("Runtime", "kata", 400, "unknown or invalid runtime name: kata"),
        ("Isolation", "hyperv", 400, "invalid isolation (hyperv): linux only supports 'default'"),
        ("StorageOpt", {"inodes": "9"}, 400, "--storage-opt inodes is not known: there is only size"),
    ],
)
def test_what_this_engine_has_no_second_of_is_refused(
    daemon: Daemon, field: str, value: object, status: int, text: str
) -> None:
    """In docker's words."""
    assert refusal(daemon, status, **{field: value}) == text


def test_annotations_are_kept(daemon: Daemon, container: Callable[..., str]) -> None:
    """And shown."""
    one = container("true", HostConfig=host(Annotations={"a.b/c": "d"}))
    assert daemon.inspect(one)["HostConfig"]["Annotations"] == {"a.b/c": "d"}


def test_walls_stand_when_the_daemon_is_another(own_daemon: Daemon) -> None:
    """After a crash: the cgroup of its own parent is found and removed, the shared namespaces are left alone."""
    needs_cgroupfs(own_daemon)
    one = own_daemon.create(
        "sleep", "60", HostConfig=host(CgroupParent="/of-a-crash", PidMode="host", Devices=[ZERO], PidsLimit=9)
    )
    own_daemon.begin(one)
    pid = own_daemon.inspect(one)["State"]["Pid"]
    own_daemon.kill9()
    own_daemon.start()
    assert own_daemon.inspect(one)["State"]["Pid"] == pid
    assert own_daemon.request("POST", f"/containers/{one}/update", {"PidsLimit": 8}).status == 200
    assert own_daemon.request("POST", f"/containers/{one}/pause").status == 204
    assert own_daemon.request("POST", f"/containers/{one}/unpause").status == 204
    own_daemon.remove(one)
    assert not list(Path("/sys/fs/cgroup").glob(f"*/of-a-crash/{one}"))
    for directory in Path("/sys/fs/cgroup").glob("*/of-a-crash"):
        directory.rmdir()
