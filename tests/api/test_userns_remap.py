"""`--userns-remap`: containers have a user namespace, in which root is a user of the host without rights."""

import io
import os
import shutil
import struct
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.api.building import build
from tests.harness import contexts, frames, rootfs, users
from tests.harness.contexts import Member
from tests.harness.daemon import Daemon, Output
from tests.harness.fixtures import World, running
from tests.harness.listening import until
from tests.harness.namespaces import Namespaces

pytestmark = [pytest.mark.root, pytest.mark.seldom]

FIRST, COUNT = users.SUBORDINATE
OPTION = f"--userns-remap={users.NAME}"
UNMAPPED = 65534
CAPABILITY = struct.pack("<IIIII", 0x02000001, 1 << 10, 0, 0, 0)  # cap_net_bind_service, effective (linux/capability.h)
PRIVILEGED = (
    "privileged mode is incompatible with user namespaces.  You must run the container in the host namespace when"
    " running privileged mode"
)


@pytest.fixture(scope="module")
def host(world: World) -> users.UserMachine:
    """A machine with a user who has subordinate ids."""
    if not Path("/etc/subuid").exists():
        pytest.skip("needs /etc/subuid: apt-get install passwd")
    return world.user_machine()


@pytest.fixture(scope="module")
def remapped(world: World, host: users.UserMachine) -> Iterator[Daemon]:
    """A daemon whose containers have that user's ids."""
    daemon = Daemon(world.directory(), host, [OPTION])
    with running(daemon):
        daemon.import_busybox()
        yield daemon


@pytest.fixture
def sleeper(remapped: Daemon) -> Iterator[str]:
    """A container that runs."""
    made = remapped.create("sleep", "1000", HostConfig={"NetworkMode": "none", "IpcMode": "shareable"})
    remapped.begin(made)
    yield made
    remapped.remove(made)


def execute(daemon: Daemon, container: str, *argv: str, **asked: object) -> Output:
    """Run a command in a container, to its end."""
    body = {"Cmd": list(argv), "AttachStdout": True, "AttachStderr": True, **asked}
    made = daemon.request("POST", f"/containers/{container}/exec", body).json()["Id"]
    said = daemon.request("POST", f"/exec/{made}/start", {"Detach": False}).body
    status = daemon.request("GET", f"/exec/{made}/json").json()["ExitCode"]
    return Output(status, frames.stdout(said), frames.stderr(said))


def members(archive: bytes) -> dict[str, tuple[int, int]]:
    """The owner of each member."""
    return {each.name: (each.uid, each.gid) for each in tarfile.open(fileobj=io.BytesIO(archive))}


def test_root_is_another_user_of_the_host(remapped: Daemon, sleeper: str) -> None:
    pid = remapped.inspect(sleeper)["State"]["Pid"]
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    assert [line.split()[1:] for line in status if line.startswith(("Uid:", "Gid:"))] == [[str(FIRST)] * 4] * 2
    assert remapped.shell("id -u; cat /proc/self/uid_map").split() == ["0", "0", str(FIRST), str(COUNT)]
    assert "name=userns" in remapped.request("GET", "/info").json()["SecurityOptions"]


def test_files_have_the_owners_that_the_image_says(remapped: Daemon) -> None:
    """In the container and, for the daemon, on disk: images are shared with containers of the host's namespace."""
    script = (
        "touch /x && chown 5:6 /x && rm /etc/shadow &&"
        " stat -c '%u:%g %n' / /bin/busybox /etc/hosts /x /dev /dev/null /dev/shm /dev/mqueue"
    )
    made = remapped.create("sh", "-c", script)
    remapped.begin(made)
    assert remapped.wait(made) == 0
    owners = {line.split()[1]: line.split()[0] for line in frames.stdout(remapped.logs(made)).decode().splitlines()}
    assert owners.pop("/x") == "5:6"
    assert set(owners.values()) == {"0:0"}
    found = (remapped.data_root / "containers" / made / "upper" / "x").stat()
    assert (found.st_uid, found.st_gid) == (5, 6)
    remapped.remove(made)


def test_another_user(remapped: Daemon) -> None:
    said = remapped.shell("id -u; id -G; echo here > /dev/stdout; grep Cap /proc/self/status", User="1000:7")
    uid, groups, *rest = said.splitlines()
    assert (uid, groups, rest[0]) == ("1000", "7", "here")
    assert {line.split()[1] for line in rest if "Eff" in line or "Prm" in line} == {"0" * 16}


def test_a_user_who_is_not_mapped(remapped: Daemon) -> None:
    made = remapped.create("true", User=str(COUNT))
    answer = remapped.request("POST", f"/containers/{made}/start")
    assert answer.status >= 400
    assert "not mapped" in answer.json()["message"]
    remapped.remove(made)


def test_the_rights_of_the_host_are_gone(remapped: Daemon) -> None:
    """With all capabilities, of which each is one in the user namespace alone."""
    script = (
        "grep CapEff /proc/self/status; mknod /n c 1 3; echo 1 > /proc/sys/kernel/printk; umount /proc/sys; date -s @0;"
        " hostname mine && hostname; mkdir /m && mount -t tmpfs none /m && echo mounted"
    )
    more = {"NetworkMode": "none", "CapAdd": ["ALL"], "SecurityOpt": ["seccomp=unconfined", "apparmor=unconfined"]}
    output = remapped.run("sh", "-c", script, HostConfig=more)
    words = output.stdout.decode().split()
    assert words[-2:] == ["mine", "mounted"]
    assert int(words[1], 16).bit_count() > 30
    refused = [line.rpartition(": ")[2] for line in output.stderr.decode().splitlines()]
    denied = "Operation not permitted"
    assert refused == [denied, "Read-only file system", "Invalid argument", denied]  # the third: the mask is locked


def test_the_network_is_its_own_roots(remapped: Daemon) -> None:
    sysctls = {"net.ipv4.ip_forward": "1", "kernel.msgmax": "10000", "fs.mqueue.msg_max": "20"}
    more = {"NetworkMode": "none", "CapAdd": ["NET_ADMIN"], "Sysctls": sysctls}
    script = (
        "ping -c 1 127.0.0.1 > /dev/null && echo answered; ip link add x type bridge && ip link show x > /dev/null &&"
        " echo made; cat /proc/sys/net/ipv4/ip_forward /proc/sys/kernel/msgmax /proc/sys/fs/mqueue/msg_max"
    )
    assert remapped.shell(script, HostConfig=more).split() == ["answered", "made", "1", "10000", "20"]


def test_a_bridge_and_a_name(remapped: Daemon) -> None:
    network = remapped.request("POST", "/networks/create", {"Name": "own"}).json()["Id"]
    on = {"HostConfig": {"NetworkMode": "own"}}
    made = remapped.create("sh", "-c", "echo hello | nc -l -p 80", name="server", **on)
    remapped.begin(made)
    assert remapped.shell("until nc server 80; do sleep 0.1; done 2> /dev/null", **on) == "hello"
    remapped.remove(made)
    remapped.request("DELETE", f"/networks/{network}")


def test_a_volume_is_the_containers_own(remapped: Daemon) -> None:
    """Its root may write to it, and what it writes has the ids that every container sees."""
    for asked in ({"Type": "volume", "Source": "own", "Target": "/v"}, {"Type": "volume", "Target": "/v"}):
        host = {"NetworkMode": "none", "Mounts": [asked]}
        assert remapped.shell("touch /v/f && chown 7:8 /v/f && stat -c %u:%g /v /v/f", HostConfig=host) == "0:0\n7:8"
    host = {"NetworkMode": "none", "Binds": ["own:/v"]}
    assert remapped.shell("stat -c %u:%g /v/f", HostConfig=host) == "7:8"
    assert remapped.shell("stat -c %u:%g /v/f", HostConfig={**host, "UsernsMode": "host"}) == "7:8"
    remapped.request("DELETE", "/volumes/own")
    host = {"NetworkMode": "none", "Binds": ["on-etc:/etc", "on-etc:/v"]}
    assert remapped.shell("stat -c %u:%g /v /v/hosts /v/mtab", HostConfig=host).split() == ["0:0"] * 3
    assert remapped.request("DELETE", "/volumes/on-etc").status == 204


def test_a_bind_is_the_hosts(remapped: Daemon, tmp_path: Path) -> None:
    """Its files are not the container's root's, as with dockerd; what they may do they may do as that user."""
    host, its = tmp_path / "host", tmp_path / "its"
    host.mkdir()
    its.mkdir()
    os.chown(its, FIRST + 3, FIRST + 4)
    binds = {"NetworkMode": "none", "Binds": [f"{host}:/h", f"{its}:/i"]}
    output = remapped.run("sh", "-c", "stat -c %u:%g /h /i; touch /i/f; touch /h/f", HostConfig=binds)
    assert (output.status, output.stdout.split()) == (1, [b"%d:%d" % (UNMAPPED, UNMAPPED), b"3:4"])
    assert os.listdir(host) == []
    assert ((its / "f").stat().st_uid, (its / "f").stat().st_gid) == (FIRST, FIRST)


def test_a_directory_that_is_made_for_a_bind_is_the_containers(remapped: Daemon, tmp_path: Path) -> None:
    for mode, owner in (("", FIRST), ("host", 0)):
        host = {"NetworkMode": "none", "UsernsMode": mode, "Binds": [f"{tmp_path}/new{mode}/one:/n"]}
        assert remapped.shell("touch /n/f; stat -c %u /n", HostConfig=host) == "0"
        for path in (tmp_path / f"new{mode}", tmp_path / f"new{mode}" / "one", tmp_path / f"new{mode}" / "one" / "f"):
            assert (path.stat().st_uid, path.stat().st_gid) == (owner, owner)
    assert tmp_path.stat().st_uid == 0


def test_an_image_and_a_tmpfs(remapped: Daemon) -> None:
    host = {
        "NetworkMode": "none",
        "Mounts": [{"Type": "image", "Source": "busybox", "Target": "/i"}],
        "Tmpfs": {"/t": "uid=5,gid=6"},
    }
    assert remapped.shell("stat -c %u:%g /i/bin/busybox /t", HostConfig=host).split() == ["0:0", "5:6"]


def test_capabilities_of_a_file(remapped: Daemon) -> None:
    """They are those of the image, which the container's root may have given too."""
    program = Path(rootfs.program()).read_bytes()
    member = Member("busybox", program, mode=0o755, attributes=(("security.capability", CAPABILITY.decode("latin-1")),))
    remapped.import_image(contexts.archive(member), "capable:latest")
    said = remapped.run("/busybox", "grep", "CapEff", "/proc/self/status", Image="capable", User="1000").stdout
    assert said.split()[1] == b"%016x" % (1 << 10)


def test_an_exec(remapped: Daemon, sleeper: str) -> None:
    script = "id -u; cat /proc/self/uid_map; touch /made; stat -c %u /made; echo here > /dev/stdout"
    said = execute(remapped, sleeper, "sh", "-c", script)
    assert said == Output(0, b"0\n%10d %10d %10d\n0\nhere\n" % (0, FIRST, COUNT), b"")
    assert execute(remapped, sleeper, "id", "-u", User="5").stdout == b"5\n"
    assert execute(remapped, sleeper, "mknod", "/n", "c", "1", "3", Privileged=True).status == 1


def test_an_exec_with_a_terminal(remapped: Daemon, sleeper: str) -> None:
    made = {"Cmd": ["sh", "-c", "stat -c '%u %n' $(tty)"], "AttachStdout": True, "Tty": True, "User": "5"}
    made = remapped.request("POST", f"/containers/{sleeper}/exec", made).json()["Id"]
    assert remapped.request("POST", f"/exec/{made}/start", {"Tty": True}).body.split()[0] == b"5"


def test_a_terminal(remapped: Daemon) -> None:
    assert (
        remapped.run("sh", "-c", "stat -c %u $(tty); echo x > /dev/console", Tty=True, User="5").stdout == b"5\r\nx\r\n"
    )


def test_all_processes_are_in_the_containers_cgroup(remapped: Daemon) -> None:
    """CVE-2025-47291: so its limits hold."""
    made = remapped.create("sleep", "1000", HostConfig={"NetworkMode": "none", "PidsLimit": 5})
    remapped.begin(made)
    output = execute(remapped, made, "sh", "-c", "for i in 1 2 3 4 5 6 7 8; do sleep 5 & done")
    assert b"can't fork" in output.stderr
    remapped.remove(made)


def test_a_health_check(remapped: Daemon) -> None:
    check = {"Test": ["CMD-SHELL", "test $(id -u) = 0 && touch /healthy"], "Interval": 100_000_000}
    made = remapped.create("sleep", "1000", Healthcheck=check)
    remapped.begin(made)
    until(lambda: remapped.inspect(made)["State"]["Health"]["Status"] == "healthy")
    remapped.remove(made)


def test_files_are_copied_in_and_out_with_the_containers_ids(remapped: Daemon, sleeper: str) -> None:
    body = contexts.archive(Member("in", "x", uid=5, gid=6))
    headers = {"Content-Type": "application/x-tar"}
    execute(remapped, sleeper, "mkdir", "-m", "700", "/closed")
    execute(remapped, sleeper, "chown", "9:9", "/closed")

    def go(path: str) -> tuple[int, int]:
        answer = remapped.request("PUT", f"/containers/{sleeper}/archive?path={path}", body, headers)
        assert answer.status == 200, answer
        return members(remapped.request("GET", f"/containers/{sleeper}/archive?path={path}/in").body)["in"]

    assert [go("/tmp"), go("/closed")] == [(5, 6)] * 2
    assert execute(remapped, sleeper, "stat", "-c", "%u:%g", "/tmp/in", "/closed/in").stdout.split() == [b"5:6"] * 2
    whole = members(remapped.request("GET", f"/containers/{sleeper}/export").body)
    assert (whole["tmp/in"], whole["bin/busybox"], whole["closed"]) == ((5, 6), (0, 0), (9, 9))
    remapped.request("POST", f"/containers/{sleeper}/kill")
    remapped.wait(sleeper)
    assert go("/tmp") == (5, 6)


def test_capabilities_of_a_file_are_copied_in_and_out(remapped: Daemon, sleeper: str) -> None:
    """Of a container that runs and of one that does not; with the setuid bit."""
    program = Path(rootfs.program()).read_bytes()
    attributes = (("security.capability", CAPABILITY.decode("latin-1")),)
    body = contexts.archive(Member("busybox", program, mode=0o4755, uid=5, attributes=attributes))
    where = f"/containers/{sleeper}/archive?path="
    for runs in (True, False):
        answer = remapped.request("PUT", f"{where}/tmp", body, {"Content-Type": "application/x-tar"})
        assert answer.status == 200, answer
        if runs:
            said = execute(remapped, sleeper, "/tmp/busybox", "grep", "CapPrm", "/proc/self/status", User="7")
            assert said.stdout.split() == [b"CapPrm:", b"%016x" % (1 << 10)]
        with tarfile.open(fileobj=io.BytesIO(remapped.request("GET", f"{where}/tmp/busybox").body)) as archive:
            (copied,) = archive
        assert (copied.mode & 0o7777, copied.uid) == (0o4755, 5)
        assert copied.pax_headers["SCHILY.xattr.security.capability"].encode("latin-1") == CAPABILITY
        remapped.request("POST", f"/containers/{sleeper}/kill")
        remapped.wait(sleeper)


def test_a_member_whose_owner_is_not_mapped(remapped: Daemon, sleeper: str) -> None:
    body = contexts.archive(Member("in", "x", uid=COUNT))
    headers = {"Content-Type": "application/x-tar"}
    answer = remapped.request("PUT", f"/containers/{sleeper}/archive?path=/tmp", body, headers)
    assert (answer.status, "not mapped" in answer.json()["message"]) == (500, True)


def test_changes_and_a_commit(remapped: Daemon, sleeper: str) -> None:
    execute(remapped, sleeper, "sh", "-c", "touch /made; chown 5:6 /made; rm /etc/shadow; rm -r /home; mkdir /home")
    changes = {each["Path"]: each["Kind"] for each in remapped.request("GET", f"/containers/{sleeper}/changes").json()}
    assert (changes["/made"], changes["/etc/shadow"]) == (1, 2)
    assert remapped.request("POST", f"/commit?container={sleeper}&repo=committed").status == 201
    assert remapped.shell("stat -c %u:%g /made; ls -A /home", Image="committed") == "5:6"
    host = {"NetworkMode": "none", "UsernsMode": "host"}
    assert remapped.shell("stat -c %u:%g /made; ls -A /home", Image="committed", HostConfig=host) == "5:6"


def test_a_build(remapped: Daemon) -> None:
    lines = (
        "FROM busybox",
        "RUN touch /made && chown 5:6 /made && cat /proc/self/uid_map > /map",
        "COPY --chown=7:8 x /x",
        "RUN --mount=type=cache,target=/c,uid=3 test $(stat -c %u /c) = 3 && touch /c/f",
        "RUN --mount=type=bind,source=x,target=/b test $(stat -c %u /b) = 0",
        "USER 7",
        "RUN test $(id -u) = 7 && echo more >> /x",
    )
    done = build(remapped, {"Dockerfile": "\n".join(lines), "x": "text\n"}, t="made-here")
    assert done.image
    said = remapped.shell("stat -c %u:%g /made /x; cat /map", Image="made-here").split()
    assert said == ["5:6", "7:8", "0", str(FIRST), str(COUNT)]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"Privileged": True}, PRIVILEGED),
        ({"NetworkMode": "host"}, "cannot share the host's network namespace when user namespaces are enabled"),
        ({"PidMode": "host"}, "cannot share the host PID namespace when user namespaces are enabled"),
    ],
)
def test_what_needs_the_hosts_user_namespace(remapped: Daemon, asked: dict, words: str) -> None:
    """In dockerd's words, and possible for who asks for it."""
    body = {"Image": "busybox", "Cmd": ["cat", "/proc/self/uid_map"], "HostConfig": {"NetworkMode": "none", **asked}}
    answer = remapped.request("POST", "/containers/create", body)
    assert (answer.status, answer.json()["message"]) == (400, words)
    whole = {"NetworkMode": "none", "UsernsMode": "host", **asked}
    assert remapped.shell("cat /proc/self/uid_map", HostConfig=whole).split() == ["0", "0", "4294967295"]


def test_other_runtimes_are_refused(world: World, host: users.UserMachine) -> None:
    daemon = Daemon(world.directory(), host, [OPTION, f"--add-runtime=odd={shutil.which('true')}"])
    with running(daemon):
        daemon.import_busybox()
        made = daemon.create("true", HostConfig={"NetworkMode": "none", "Runtime": "odd"})
        answer = daemon.request("POST", f"/containers/{made}/start")
        assert (answer.status, "--userns-remap" in answer.json()["message"]) == (501, True)


@pytest.mark.parametrize("mode", ["NetworkMode", "PidMode", "IpcMode"])
def test_containers_that_share_a_namespace_share_the_user_namespace(remapped: Daemon, sleeper: str, mode: str) -> None:
    def number(container: str | int) -> str:
        return os.readlink(f"/proc/{remapped.inspect(container)['State']['Pid']}/ns/user")

    guest = remapped.create("sleep", "1000", HostConfig={"NetworkMode": "none", mode: f"container:{sleeper}"})
    remapped.begin(guest)
    other = remapped.create("sleep", "1000")
    remapped.begin(other)
    assert number(guest) == number(sleeper) != number(other)
    assert execute(remapped, guest, "ping", "-c", "1", "127.0.0.1").status == 0
    for each in (guest, other):
        remapped.remove(each)


def test_the_files_of_a_shared_network_are_the_containers_own(remapped: Daemon, sleeper: str) -> None:
    host = {"NetworkMode": f"container:{sleeper}"}
    assert remapped.shell("cd /etc && stat -c %u hosts hostname resolv.conf && echo >> hosts", HostConfig=host) == (
        "0\n0\n0"
    )


def test_no_namespace_is_shared_with_a_container_of_the_hosts(remapped: Daemon) -> None:
    """The guest would become root of the host."""
    made = remapped.create("sleep", "1000", HostConfig={"NetworkMode": "none", "UsernsMode": "host"})
    remapped.begin(made)
    guest = remapped.create("true", HostConfig={"NetworkMode": f"container:{made}"})
    answer = remapped.request("POST", f"/containers/{guest}/start")
    assert "user namespace of the host" in answer.json()["message"]
    for each in (guest, made):
        remapped.remove(each)


def test_containers_outlive_the_option(world: World, host: users.UserMachine) -> None:
    """Whoever ran before runs on in the namespace in which it was started, and the next run is in the other one."""
    daemon = Daemon(world.directory(), host)
    with running(daemon):
        daemon.import_busybox()
        made = daemon.create("sleep", "1000")
        daemon.begin(made)
        for options, mapped in (([OPTION], False), ([], True)):
            daemon.stop()
            daemon.options = tuple(options)
            daemon.start()
            assert (str(FIRST) in execute(daemon, made, "cat", "/proc/self/uid_map").stdout.decode()) == mapped
            assert daemon.request("POST", f"/containers/{made}/restart?t=0").status == 204
            assert (str(FIRST) in execute(daemon, made, "cat", "/proc/self/uid_map").stdout.decode()) != mapped


def test_the_engines_own_files_are_out_of_reach(remapped: Daemon, sleeper: str) -> None:
    """CVE-2021-21284: a process of the host with the ids of the container's root does not get into the data root."""
    script = f"cd {remapped.data_root}/containers/{sleeper} || ls {remapped.data_root}/volumes || echo out"
    command = ["setpriv", f"--reuid={FIRST}", f"--regid={FIRST}", "--clear-groups", "sh", "-c", script]
    done = subprocess.run(remapped.namespaces.command(command), capture_output=True, text=True)
    assert done.stdout == "out\n"
    owners = {(found.st_uid, found.st_gid) for each in remapped.data_root.rglob("*") if (found := each.lstat())}
    assert not {owner for owner in owners if FIRST <= owner[0] < FIRST + COUNT or FIRST <= owner[1] < FIRST + COUNT}


# The option


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("nobody-of-that-name", "no entry in /etc/passwd"),
        (f"{users.NAME}:no-such-group", "no entry in /etc/group"),
        ("a:b:c", "invalid user/group specification"),
        (":x", "invalid user/group specification"),
        ("root", "root cannot be remapped with itself"),
        ("daemon", "no subuid ranges found"),
    ],
)
def test_a_value_that_cannot_be(world: World, host: users.UserMachine, value: str, words: str) -> None:
    daemon = Daemon(world.directory(), host, [f"--userns-remap={value}"])
    daemon.start(wait=False)
    assert daemon.process.wait(60) == 1
    daemon.process = None
    assert words in daemon.log


@pytest.fixture
def ranges(host: users.UserMachine, tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Has the machine show these lines as /etc/subuid and /etc/subgid."""
    files = ("/etc/subuid", "/etc/subgid")
    text = tmp_path / "ranges"
    text.touch()
    for each in files:
        subprocess.run(host.command(["mount", "--bind", str(text), each]), check=True)
    yield lambda lines: text.write_text(lines) and None
    for each in files:
        subprocess.run(host.command(["umount", "--lazy", each]), check=True)


def test_few_ids(world: World, host: users.UserMachine, ranges: Callable[[str], None]) -> None:
    """Fewer than the group of terminals has; in two ranges."""
    ranges(f"{users.NAME}:{FIRST}:1\n{users.NAME}:{FIRST + 10}:2\n")
    with running(Daemon(world.directory(), host, [OPTION])) as daemon:
        daemon.import_busybox()
        script = "cat /proc/self/uid_map; touch /x && chown 2:1 /x && stat -c %u:%g /x"
        said = daemon.shell(script, User="0:0").split()
        assert said == ["0", str(FIRST), "1", "1", str(FIRST + 10), "2", "2:1"]
        assert daemon.run("id", "-u", Tty=True, User="2").stdout == b"2\r\n"
        made = daemon.create("true")  # root is in a group that is not mapped
        answer = daemon.request("POST", f"/containers/{made}/start")
        assert "cannot set groups to unmapped user in user namespace" in answer.message


def test_ids_that_are_there_twice(world: World, host: users.UserMachine, ranges: Callable[[str], None]) -> None:
    ranges(f"{users.NAME}:{FIRST}:100\n{users.UID}:{FIRST + 99}:100\n")
    daemon = Daemon(world.directory(), host, [OPTION])
    daemon.start(wait=False)
    assert daemon.process.wait(60) == 1
    daemon.process = None
    assert f'subuid ranges of user "{users.NAME}" overlap' in daemon.log


@pytest.mark.parametrize("value", [f"{users.UID}", f"{users.NAME}:{users.UID}", f"{users.UID}:{users.NAME}"])
def test_a_user_by_number(world: World, host: users.UserMachine, value: str) -> None:
    daemon = Daemon(world.directory(), host, [f"--userns-remap={value}"])
    with running(daemon):
        daemon.import_busybox()
        assert str(FIRST) in daemon.shell("cat /proc/self/uid_map")


def test_the_default_user_is_made(world: World, tmp_path: Path) -> None:
    """On a machine whose /etc can be written to and is thrown away."""
    machine = world.machine()
    for name in ("upper", "work"):
        (tmp_path / name).mkdir()
    options = f"lowerdir=/etc,upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    subprocess.run(machine.command(["mount", "-t", "overlay", "overlay", "-o", options, "/etc"]), check=True)
    try:
        daemon = world.daemon(["--userns-remap=default"], machine)
        with running(daemon):
            daemon.import_busybox()
            said = daemon.shell("cat /proc/self/uid_map").split()
        (line,) = [each for each in lines(machine, "/etc/subuid") if each.startswith("dockremap:")]
        assert [f"dockremap:{said[1]}:{said[2]}", said[2]] == [line, "65536"]
        assert any(each.startswith("dockremap:") for each in lines(machine, "/etc/passwd"))
        with running(daemon):
            assert lines(machine, "/etc/subuid").count(line) == 1
    finally:
        subprocess.run(machine.command(["umount", "--lazy", "/etc"]), check=True)


def lines(machine: Namespaces, path: str) -> list[str]:
    """The lines of a file of the machine."""
    return subprocess.run(machine.command(["cat", path]), check=True, capture_output=True, text=True).stdout.split()


def test_a_daemon_in_a_user_namespace_refuses(world: World) -> None:
    if not users.available():
        pytest.skip("needs newuidmap: apt-get install uidmap")
    daemon = users.UserDaemon(world.directory(), world.user_machine(), [OPTION])
    daemon.start(wait=False)
    assert daemon.process.wait(60) == 1
    daemon.process = None
    assert "is in a user namespace itself" in daemon.log
