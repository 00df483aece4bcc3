"""Attempts to climb over the walls that HostConfig moves, from inside a container and through its options.

Against a running daemon, as what is tried goes through create, start and the kernel together. Each test is named after
what it tries; where a published flaw was of that kind, its docstring names it.
"""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.sandbox.seccomp_profile import LARGEST_TEXT
from tests.harness import frames
from tests.harness.daemon import Daemon
from tests.harness.listening import until

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("busybox")]


def host(**fields: object) -> dict:
    """A HostConfig without a network."""
    return {"NetworkMode": "none", **fields}


def refused(daemon: Daemon, **host_config: object) -> tuple[int, str]:
    """Status and text with which create, or else start, is refused."""
    answer = daemon.request("POST", "/containers/create", {"Image": "busybox", "HostConfig": host(**host_config)})
    if answer.status == 201:
        made = answer.json()["Id"]
        try:
            answer = daemon.request("POST", f"/containers/{made}/start")
        finally:
            daemon.remove(made)
    assert answer.status >= 400, answer.body
    return answer.status, answer.message


@pytest.mark.parametrize("path", ["/proc/1/ns/mnt", "/proc/1/ns/net", "/proc/1/ns/pid", "/proc/1/ns/uts"])
def test_the_hosts_namespaces_cannot_be_entered_from_its_pid_namespace(daemon: Daemon, path: str) -> None:
    """There the host's process 1 is seen, and no more."""
    output = daemon.run(
        "sh", "-c", f"readlink {path}; nsenter --target 1 --mount --net true", HostConfig=host(PidMode="host")
    )
    assert output.status != 0 and b"mnt:[" not in output.stdout and b"net:[" not in output.stdout


def test_a_joined_namespace_gives_no_way_to_the_other_containers_files(
    daemon: Daemon, container: Callable[..., str]
) -> None:
    """Processes are shared, roots are not: only who has all the rights of a process may look through it, as ever."""
    other = container("sh", "-c", "echo secret > /secret; exec sleep 60", HostConfig=host())
    daemon.begin(other)
    body = host(PidMode=f"container:{other}")
    script = "cat /proc/1/root/secret; ls /proc/1/fd"
    output = daemon.run("sh", "-c", script, User="1000:1000", HostConfig=body)
    assert output.status != 0 and b"secret\n" not in output.stdout


@pytest.mark.parametrize("numbers", ["c 1 1", "c 1 11", "b 254 0", "b 7 0", "c 10 232", "c 4 0"])
def test_a_node_that_is_made_inside_cannot_be_opened(daemon: Daemon, numbers: str) -> None:
    """mknod is docker's default, using the node is not (CVE-2015-3627 is of this kind)."""
    script = f"mknod /tmp/node {numbers} || exit 0; head -c1 /tmp/node; echo x > /tmp/node"
    output = daemon.run("sh", "-c", script, HostConfig=host(CapAdd=["SYSLOG", "SYS_RAWIO", "DAC_READ_SEARCH"]))
    assert output.stdout == b"" and output.stderr.count(b"Operation not permitted") == 2


def test_a_device_given_for_reading_cannot_be_written_through_another_node(daemon: Daemon) -> None:
    """The rule is about the numbers, whatever the node."""
    kmsg = {"PathOnHost": "/dev/kmsg", "PathInContainer": "/dev/kmsg", "CgroupPermissions": "rm"}
    script = "mknod /tmp/again c 1 11; echo x > /tmp/again"
    output = daemon.run("sh", "-c", script, HostConfig=host(Devices=[kmsg], CapAdd=["SYSLOG"]))
    assert b"Operation not permitted" in output.stderr


def test_the_device_cgroup_cannot_be_changed_from_inside(daemon: Daemon) -> None:
    """Its files are read-only, also with every capability."""
    script = "for f in /sys/fs/cgroup/devices/devices.allow /sys/fs/cgroup/cgroup.subtree_control; do"
    script += " [ -e $f ] && echo a > $f; done; mount -t cgroup -o devices x /tmp && echo a > /tmp/devices.allow; true"
    output = daemon.run("sh", "-c", script, HostConfig=host())
    assert b"Read-only file system" in output.stderr
    assert b"ermission denied" in output.stderr or b"not permitted" in output.stderr


def test_release_agents_cannot_be_set(daemon: Daemon) -> None:
    """CVE-2022-0492: a release_agent runs on the host."""
    script = "mkdir /tmp/c; unshare -UrmC sh -c 'mount -t cgroup -o memory x /tmp/c && echo /x > /tmp/c/release_agent'"
    assert daemon.run("sh", "-c", script, HostConfig=host()).status != 0


@pytest.mark.parametrize("path", ["/proc/kcore", "/proc/timer_list", "/proc/interrupts"])
def test_masks_hold_unless_the_container_is_privileged(daemon: Daemon, path: str) -> None:
    """CVE-2021-30465, CVE-2025-31133 and others went for these; a container may not take them off."""
    script = f"head -c1 {path} | wc -c; umount {path}; mount -t proc proc /tmp; mount -o remount,rw /proc/sys"
    output = daemon.run("sh", "-c", script, HostConfig=host())
    assert output.stdout == b"0\n" and output.stderr.count(b"denied") + output.stderr.count(b"permitted") >= 3


def test_a_volume_of_links_cannot_move_proc(daemon: Daemon, tmp_path: Path) -> None:
    """CVE-2019-19921: /proc a symbolic link into a volume, so that runtimes wrote attributes somewhere else.

    A container's root has a directory in the place of such a link.
    """
    archive = tmp_path / "linked.tar"
    root = tmp_path / "root"
    (root / "evil").mkdir(parents=True)
    (root / "bin").mkdir()
    shutil.copy(shutil.which("busybox"), root / "bin/busybox")
    (root / "bin/sh").symlink_to("busybox")
    for name in ("proc", "sys"):
        (root / name).symlink_to("/evil")
    subprocess.run(["tar", "-C", root, "-cf", archive, "."], check=True)
    daemon.import_image(archive.read_bytes(), "linked")
    script = "ls /evil; cat /proc/sys/net/ipv4/ip_default_ttl; grep -c ' /evil ' /proc/mounts"
    limits = host(Sysctls={"net.ipv4.ip_default_ttl": "9"})
    said = daemon.run(
        "/bin/busybox", "sh", "-c", script.replace("ls ", "busybox ls "), Image="linked", HostConfig=limits
    )
    assert (said.stdout, said.stderr) == (b"9\n0\n", b"")


def test_an_images_link_cannot_move_the_init_into_proc(daemon: Daemon, tmp_path: Path) -> None:
    """CVE-2019-16884 and CVE-2025-52881 put mounts there, so that a runtime's writes go astray."""
    root = tmp_path / "root"
    for name in ("bin", "sbin", "proc"):
        (root / name).mkdir(parents=True)
    shutil.copy(shutil.which("busybox"), root / "bin/busybox")
    (root / "bin/sh").symlink_to("busybox")
    (root / "sbin/docker-init").symlink_to("/proc/self/attr/exec")
    archive = tmp_path / "moved.tar"
    subprocess.run(["tar", "-C", root, "-cf", archive, "."], check=True)
    daemon.import_image(archive.read_bytes(), "moved")
    one = daemon.create("/bin/sh", "-c", "true", Image="moved", HostConfig=host(Init=True))
    try:
        answer = daemon.request("POST", f"/containers/{one}/start")
        assert answer.status == 500 and "/sbin/docker-init" in answer.message
    finally:
        daemon.remove(one)


@pytest.mark.parametrize(
    "name",
    [
        "net/../kernel/core_pattern",
        "net.//.kernel.core_pattern",
        "kernel.core_pattern",
        "fs/mqueue/../../kernel/core_pattern",
        "fs.mqueue.//.//.kernel.core_pattern",
        "net/./../kernel/core_pattern",
        "/proc/sys/kernel/core_pattern",
        "net",
        "net.",
        "",
        "..",
        "net.ipv4\0.ip_forward",
        "kernel/msgmax/../core_pattern",
    ],
)
def test_a_sysctl_leads_to_nothing_of_the_host(daemon: Daemon, name: str) -> None:
    """CVE-2022-0811 (cr8escape) set kernel.core_pattern so."""
    before = Path("/proc/sys/kernel/core_pattern").read_text()
    status, text = refused(daemon, Sysctls={name: "|/tmp/evil"})
    if "\0" in name:
        assert status == 400 and "NUL" in text
    else:
        assert status == 500 and ("namespace" in text or "open /proc/sys/net" in text)
    assert Path("/proc/sys/kernel/core_pattern").read_text() == before


def test_a_sysctls_value_is_one_write_and_nothing_else(daemon: Daemon) -> None:
    """CVE-2022-0811 again: `+` and line ends were read as more parameters."""
    before = Path("/proc/sys/kernel/core_pattern").read_text()
    for value in ("64\nkernel.core_pattern=|/evil", "64+kernel.core_pattern=|/evil"):
        one = daemon.create("true", HostConfig=host(Sysctls={"net.ipv4.ip_default_ttl": value}))
        daemon.request("POST", f"/containers/{one}/start")
        daemon.remove(one)
    assert Path("/proc/sys/kernel/core_pattern").read_text() == before


@pytest.mark.parametrize(
    ("parent", "made"),
    [("../../..", ""), ("/../../etc", "etc"), ("x/../../../y", "y"), ("//../z", "z"), ("./..", ""), ("/", "")],
)
def test_a_cgroup_parent_never_leads_out_of_the_hierarchy(
    daemon: Daemon, container: Callable[..., str], parent: str, made: str
) -> None:
    """It ends at the root, and the cgroups of the container are gone with it."""
    one = container("sleep", "60", HostConfig=host(CgroupParent=parent))
    daemon.begin(one)
    pid = daemon.inspect(one)["State"]["Pid"]
    paths = [line.split(":", 2)[2] for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    assert any(path.endswith(one) for path in paths) and not any(".." in path for path in paths)
    assert not Path(f"/etc/{one}").exists() and not Path(f"/sys/{one}").exists()
    daemon.remove(one)
    # Another test's cgroups may be deeper than any path; walk() passes over those.
    assert not any(one in names for _, names, _ in os.walk("/sys/fs/cgroup"))
    for directory in Path("/sys/fs/cgroup").glob(f"*/{made}") if made else ():
        directory.rmdir()


@pytest.mark.parametrize("parent", ["a\0b", "a\nb", "x" * 5000])
def test_a_cgroup_parent_that_is_no_path_is_refused(daemon: Daemon, parent: str) -> None:
    """At create."""
    assert refused(daemon, CgroupParent=parent)[0] == 400


BOMBS = {
    "huge": "x" * (LARGEST_TEXT + 1),
    "deep": "[" * 60_000,
    "rules": json.dumps(
        {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["read"], "action": "SCMP_ACT_ERRNO"}] * 8000}
    ),
    "conditions": json.dumps(
        {
            "defaultAction": "SCMP_ACT_ALLOW",
            "syscalls": [
                {
                    "names": ["read", "write", "open"],
                    "action": "SCMP_ACT_ERRNO",
                    "args": [{"index": index, "value": 1 << 40 | index, "op": "SCMP_CMP_GE"} for index in range(6)],
                }
            ]
            * 200,
        }
    ),
    "number": '{"defaultAction": "SCMP_ACT_ALLOW", "defaultErrnoRet": ' + "9" * 10_000 + "}",
}


@pytest.mark.alone
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_seccomp_profile_is_no_bomb(daemon: Daemon, bomb: str) -> None:
    """Refused at create, quickly, and the daemon is as it was."""
    begun = time.monotonic()
    status, _ = refused(daemon, SecurityOpt=[f"seccomp={BOMBS[bomb]}"])
    assert status == 400 and time.monotonic() - begun < 3
    assert daemon.request("GET", "/_ping").status == 200


def test_a_profile_that_kills_everything_kills_the_container_and_nobody_else(daemon: Daemon) -> None:
    """The engine's own last steps run under it too."""
    profile = json.dumps({"defaultAction": "SCMP_ACT_KILL_PROCESS", "syscalls": []})
    profile = profile.replace('"syscalls": []', '"syscalls": [{"names": ["nothing"], "action": "SCMP_ACT_ALLOW"}]')
    one = daemon.create("true", HostConfig=host(SecurityOpt=[f"seccomp={profile}"]))
    try:
        if daemon.request("POST", f"/containers/{one}/start").status == 204:
            assert daemon.wait(one) == 128 + 31
        assert not daemon.inspect(one)["State"]["Running"]
    finally:
        daemon.remove(one)
    assert daemon.shell("echo well", HostConfig=host()) == "well"


def test_a_donor_cannot_lead_who_joins_its_memory_somewhere_else(daemon: Daemon, container: Callable[..., str]) -> None:
    """Its /dev/shm a link to its root, or to /proc/1/root: the one who joins gets nothing of the host."""
    for target in ("/", "/proc/1/root/../../.."):
        script = f"umount /dev/shm; rmdir /dev/shm; ln -s {target} /dev/shm; echo done; sleep 60"
        donor = container("sh", "-c", script, HostConfig=host(IpcMode="shareable", CapAdd=["SYS_ADMIN"]))
        daemon.begin(donor)
        until(lambda donor=donor: b"done" in daemon.logs(donor))
        one = container("ls", "/dev/shm", HostConfig=host(IpcMode=f"container:{donor}"))
        if daemon.request("POST", f"/containers/{one}/start").status == 204:
            daemon.wait(one)
            seen = set(frames.stdout(daemon.logs(one)).decode().splitlines())
            assert seen <= set(os.listdir(f"/proc/{_pid(daemon, donor)}/root"))


def _pid(daemon: Daemon, container: str) -> int:
    return daemon.inspect(container)["State"]["Pid"]


def test_a_pid_that_was_used_again_is_not_joined(daemon: Daemon, container: Callable[..., str]) -> None:
    """What was looked up and what is entered are held together by the start time."""
    from engine.errors import SystemFailure
    from engine.kernel import syscalls
    from engine.sandbox import namespaces

    mine = os.getpid()
    start = syscalls.process_start(mine)
    os.close(namespaces.open_one("net", mine, start))
    with pytest.raises(SystemFailure, match="has ended"):
        namespaces.open_one("net", mine, start + 1)
    with pytest.raises(SystemFailure, match="has ended"):
        namespaces.open_one("net", 1 << 22, 5)


def test_who_ends_while_it_is_looked_at_is_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """A descriptor that stayed would hold its network for as long as the daemon lives."""
    from engine.errors import SystemFailure
    from engine.kernel import syscalls
    from engine.sandbox import namespaces

    def ended(_: int) -> int:
        raise ProcessLookupError

    monkeypatch.setattr(syscalls, "process_start", ended)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(SystemFailure, match="has ended"):
        namespaces.open_one("net", os.getpid(), 5)
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.parametrize("more", [{}, {"CapAdd": ["ALL"]}, {"PidMode": "host"}])
def test_setns_to_a_namespace_of_the_host_is_not_had_by_a_leaked_descriptor(daemon: Daemon, more: dict) -> None:
    """CVE-2024-21626, CVE-2016-9962: nothing above 2 is open in process 1, whatever the modes."""
    assert daemon.shell("ls /proc/self/fd | tr '\\n' ' '", HostConfig=host(**more)) == "0 1 2 3"


def test_a_user_namespace_gives_back_no_filter(daemon: Daemon) -> None:
    """no-new-privileges and the filter stay with what is started."""
    script = "grep -E 'Seccomp:|NoNewPrivs' /proc/self/status; sh -c 'grep Seccomp: /proc/self/status'"
    lines = daemon.shell(script, HostConfig=host(SecurityOpt=["no-new-privileges"])).splitlines()
    assert lines == ["NoNewPrivs:\t1", "Seccomp:\t2", "Seccomp:\t2"]


def test_cve_2020_15257_no_socket_of_the_engines_is_abstract(daemon: Daemon, container: Callable[..., str]) -> None:
    """Who shares the host's network could connect to such a one; those with a path are in the host's files."""
    daemon.begin(container("sleep", "60"))  # so that there is a monitor, which has a socket too
    said = daemon.run("cat", "/proc/net/unix", HostConfig={"NetworkMode": "host"}).stdout.decode()
    names = [line.split()[-1] for line in said.splitlines()[1:] if len(line.split()) == 8]
    assert str(daemon.socket) in names, "it is the host's network"
    assert not [name for name in names if name.startswith("@")]
    assert "/" not in daemon.shell("cat /proc/net/unix"), "and a network of one's own has nothing of it"
