"""A daemon of a user's own: started by a user who may do nothing else on the host, with the user's default paths."""

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness import rootfs, users
from tests.harness.fixtures import World, running
from tests.harness.listening import until
from tests.harness.pace import patient
from tests.harness.registry import Registry
from tests.harness.users import SUBORDINATE, UID, UserDaemon, UserMachine

pytestmark = [
    pytest.mark.skipif(rootfs.program() is None, reason="needs busybox: apt-get install busybox-static"),
    pytest.mark.skipif(not users.available(), reason="needs newuidmap: apt-get install uidmap"),
]
BRIDGED = {"NetworkMode": "bridge"}


@pytest.fixture(scope="module")
def machine(world: World) -> UserMachine:
    """A machine on which there is a user."""
    return world.user_machine()


@pytest.fixture(scope="module")
def mine(world: World, machine: UserMachine) -> Iterator[UserDaemon]:
    """The user's daemon, with busybox."""
    with running(world.user_daemon(machine)) as daemon:
        daemon.import_busybox()
        yield daemon


@pytest.fixture
def alone(world: World) -> Iterator[UserDaemon]:
    """A daemon of a user on a machine of its own, for a test that kills it; with busybox."""
    with running(world.user_daemon(world.user_machine())) as daemon:
        daemon.import_busybox()
        yield daemon


def listener(daemon: UserDaemon, container: str, port: int) -> int:
    """The host's port at which a container's port is published."""
    found = daemon.inspect(container)["NetworkSettings"]["Ports"][f"{port}/tcp"]
    return int(found[0]["HostPort"])


def said(daemon: UserDaemon, port: int, seconds: float = 20.0) -> bytes:
    """What the first answer at a port of the machine is; the server behind it may still be starting."""
    end = time.monotonic() + seconds
    while True:
        with daemon.namespaces.connect(port) as connection:
            connection.settimeout(5)
            try:
                answer = connection.recv(100)
            except ConnectionResetError:
                answer = b""
        if answer or time.monotonic() > end:
            return answer
        time.sleep(0.05)


def serving(daemon: UserDaemon) -> str:
    """A container that says hello at a published port; its id."""
    container = daemon.create(
        *("sh", "-c", "while :; do echo hello | nc -l -p 80; done"),
        ExposedPorts={"80/tcp": {}},
        HostConfig={**BRIDGED, "PortBindings": {"80/tcp": [{"HostIp": "127.0.0.1", "HostPort": ""}]}},
    )
    daemon.begin(container)
    return container


def test_the_daemon_has_no_right_on_the_host(mine: UserDaemon) -> None:
    lines = Path(f"/proc/{mine.pid}/status").read_text().splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    assert {int(each) for each in status["Uid"].split()} == {UID}
    assert mine.socket.stat().st_uid == UID
    for kind in ("user", "mnt", "net"):
        assert os.readlink(f"/proc/{mine.pid}/ns/{kind}") != os.readlink(f"/proc/{mine.namespaces.pid}/ns/{kind}")


def test_info_says_that_the_daemon_is_a_users(mine: UserDaemon) -> None:
    info = mine.request("GET", "/info").json()
    assert "name=rootless" in info["SecurityOptions"]
    assert "name=seccomp,profile=builtin" in info["SecurityOptions"]
    assert info["DockerRootDir"] == str(mine.data_root)
    assert info["Driver"] == "overlayfs"
    assert not [text for text in info["Warnings"] if "user id" in text]


def test_a_pull_from_a_registry_of_the_host_and_the_life_of_a_container(world: World, mine: UserDaemon) -> None:
    if not Registry.available():
        pytest.skip("needs docker-registry: apt-get install docker-registry")
    name = "127.0.0.1:5000/mine"
    with Registry(world.directory(), mine.namespaces):
        assert mine.request("POST", f"/images/busybox/tag?repo={name}").status == 201
        pushed = mine.request("POST", f"/images/{name}/push?tag=latest", headers={"X-Registry-Auth": "e30="})
        assert pushed.status == 200 and "error" not in pushed.lines[-1], pushed
        assert mine.request("DELETE", f"/images/{name}").status == 200
        pulled = mine.request("POST", f"/images/create?fromImage={name}&tag=latest")
        assert pulled.status == 200 and "error" not in pulled.lines[-1], pulled
    output = mine.run("sh", "-c", "id -u; echo oops >&2; exit 3", Image=name)
    assert output == (3, b"0\n", b"oops\n")
    assert mine.request("DELETE", f"/images/{name}").status == 200


def test_root_of_a_container_is_the_user_and_others_are_subordinate(mine: UserDaemon) -> None:
    script = "touch /seen/root; touch /seen/other && chown 1000:1000 /seen/other; id -u"
    shared = mine.home / "shared"
    shared.mkdir()
    os.chown(shared, UID, UID)
    assert mine.shell(script, HostConfig={**BRIDGED, "Binds": [f"{shared}:/seen"]}) == "0"
    assert (shared / "root").stat().st_uid == UID
    assert (shared / "other").stat().st_uid == SUBORDINATE[0] + 999
    assert mine.shell("id -u", User="1000") == "1000"


def test_what_the_user_may_not_read_no_container_reads(mine: UserDaemon) -> None:
    secret = mine.root / "secret"
    secret.write_text("of root")
    secret.chmod(0o600)
    output = mine.run("cat", "/secret", HostConfig={"NetworkMode": "none", "Binds": [f"{secret}:/secret"]})
    assert output.status == 1 and b"Permission denied" in output.stderr
    privileged = {"NetworkMode": "none", "Privileged": True, "Binds": [f"{secret}:/secret"]}
    assert b"Permission denied" in mine.run("cat", "/secret", HostConfig=privileged).stderr


def test_a_privileged_container_has_no_device_of_the_host(mine: UserDaemon) -> None:
    usual = {"full", "null", "random", "tty", "urandom", "zero"}
    script = "find /dev -type c -o -type b | sed s,/dev/,,"
    found = set(mine.shell(script, HostConfig={"NetworkMode": "none", "Privileged": True}).split())
    assert {name for name in found if "/" not in name} == usual
    output = mine.run("mknod", "/disk", "b", "8", "0", HostConfig={"NetworkMode": "none", "Privileged": True})
    assert output.status == 1 and b"Operation not permitted" in output.stderr


def test_containers_reach_each_other_by_name(mine: UserDaemon) -> None:
    assert mine.request("POST", "/networks/create", {"Name": "rootless-net"}).status == 201
    try:
        there = mine.create("sleep", "60", name="rootless-there", HostConfig={"NetworkMode": "rootless-net"})
        mine.begin(there)
        mine.shell("ping -c 1 rootless-there >/dev/null", HostConfig={"NetworkMode": "rootless-net"})
        mine.remove(there)
    finally:
        assert mine.request("DELETE", "/networks/rootless-net").status == 204


def test_deleted_files_stay_deleted_through_commit_and_build(mine: UserDaemon) -> None:
    first = mine.create("sh", "-c", "mkdir /d && touch /d/old /gone")
    mine.begin(first)
    assert mine.wait(first) == 0
    assert mine.request("POST", f"/commit?container={first}&repo=rootless-a").status == 201
    second = mine.create("sh", "-c", "rm -r /d /gone && mkdir /d && touch /d/new", Image="rootless-a")
    mine.begin(second)
    assert mine.wait(second) == 0
    assert mine.request("POST", f"/commit?container={second}&repo=rootless-b").status == 201
    assert mine.shell("ls /d; ls / | grep gone || true", Image="rootless-b") == "new"
    changes = {each["Path"]: each["Kind"] for each in mine.request("GET", f"/containers/{second}/changes").json()}
    assert changes["/d/old"] == 2 and changes["/d/new"] == 1 and changes["/gone"] == 2
    saved = mine.request("GET", "/images/rootless-b/get", checked=False).body
    for name in ("rootless-b", "rootless-a"):
        for container in (second, first):
            mine.remove(container)
        assert mine.request("DELETE", f"/images/{name}").status == 200
    loaded = mine.request("POST", "/images/load", saved, {"Content-Type": "application/x-tar"})
    assert loaded.status == 200, loaded
    assert mine.shell("ls /d; ls / | grep gone || true", Image="rootless-b") == "new"
    assert mine.request("DELETE", "/images/rootless-b").status == 200


def test_a_container_has_the_hosts_message_queues_if_they_are_mounted(mine: UserDaemon) -> None:
    hosts = os.readlink(f"/proc/{mine.pid}/ns/ipc")
    assert mine.shell("readlink /proc/self/ns/ipc", HostConfig={"NetworkMode": "none", "IpcMode": "host"}) == hosts


def test_a_limit_is_a_warning(mine: UserDaemon) -> None:
    answer = mine.request(
        "POST", "/containers/create", {"Image": "busybox", "HostConfig": {"Memory": 1 << 26, "NetworkMode": "none"}}
    )
    assert answer.status == 201
    assert any("memory limit" in text for text in answer.json()["Warnings"])
    mine.remove(answer.json()["Id"])


def test_a_published_port_answers_on_the_host(mine: UserDaemon) -> None:
    container = serving(mine)
    try:
        assert said(mine, listener(mine, container, 80)) == b"hello\n"
    finally:
        mine.remove(container)


def test_containers_outlive_a_killed_daemon_in_the_same_namespaces(alone: UserDaemon) -> None:
    container = serving(alone)
    port = listener(alone, container, 80)
    assert said(alone, port) == b"hello\n"
    before = {kind: os.readlink(f"/proc/{alone.pid}/ns/{kind}") for kind in ("user", "mnt", "net")}
    alone.kill9()
    assert said(alone, port) == b"hello\n"
    alone.start()
    assert {kind: os.readlink(f"/proc/{alone.pid}/ns/{kind}") for kind in before} == before
    assert alone.inspect(container)["State"]["Running"]
    assert said(alone, port) == b"hello\n"
    started = alone.request("POST", f"/containers/{container}/exec", {"Cmd": ["true"]}).json()["Id"]
    assert alone.request("POST", f"/exec/{started}/start", {"Detach": True}).status == 200
    alone.request("POST", f"/containers/{container}/stop?t=0")
    assert not alone.inspect(container)["State"]["Running"]


def test_a_daemon_that_finds_nothing_of_an_earlier_one_begins_anew(alone: UserDaemon) -> None:
    container = alone.create("echo", "once")
    alone.begin(container)
    alone.wait(container)
    alone.restart()
    alone.begin(container)
    alone.wait(container)
    assert alone.logs(container).count(b"once") == 2


def test_a_killed_spawner_is_replaced_where_the_containers_are(alone: UserDaemon) -> None:
    children = Path(f"/proc/{alone.pid}/task/{alone.pid}/children").read_text().split()
    for child in map(int, children):
        if Path(f"/proc/{child}/cmdline").read_text().startswith("engine spawner"):
            os.kill(child, signal.SIGKILL)
    container = serving(alone)
    assert said(alone, listener(alone, container, 80)) == b"hello\n"
    alone.remove(container)


def test_without_subordinate_ids_one_is_mapped_and_info_says_so(world: World) -> None:
    with running(world.user_daemon(world.user_machine(subordinate=False))) as daemon:
        assert "only one user id is mapped" in daemon.log and "/etc/subuid has no ids" in daemon.log
        warnings = daemon.request("GET", "/info").json()["Warnings"]
        assert any("Only one user id is mapped" in text for text in warnings)
        daemon.import_image(_with_owners(), "owned:latest", rootfs.CHANGES)
        assert daemon.shell("stat -c '%u %g %a' /theirs; id -u", Image="owned") == "0 0 755\n0"
        container = daemon.create("true", Image="owned")
        daemon.begin(container)
        daemon.wait(container)
        exported = daemon.request("GET", f"/containers/{container}/export", checked=False).body
        daemon.remove(container)
        with tarfile.open(fileobj=io.BytesIO(exported)) as tar:
            found = tar.getmember("theirs")
        assert (found.uid, found.gid, found.mode & 0o7777) == (1000, 1001, 0o4755)
        assert not any("engine" in name for name in found.pax_headers)
        refused = daemon.create("id", User="1000", Image="owned")
        answer = daemon.request("POST", f"/containers/{refused}/start")
        assert answer.status == 500 and "to unmapped user" in answer.json()["message"], answer
        daemon.remove(refused)


FAILING = "#!/bin/sh\necho 'not today' >&2\nexit 1\n"


@pytest.fixture
def with_other(world: World, machine: UserMachine) -> Callable[..., UserDaemon]:
    """A function that makes a daemon which finds another program in the place of this one, or none."""

    def make(name: str, text: str = "") -> UserDaemon:
        daemon = world.user_daemon(machine)
        daemon.have()
        assert daemon.only is not None
        place = daemon.only / name
        place.unlink()
        if text:
            place.write_text(text)
            place.chmod(0o755)
        return daemon

    return make


@pytest.mark.parametrize(
    ("text", "why"),
    [("", "newuidmap is not installed (Debian's package is called uidmap)"), (FAILING, "not today")],
    ids=["missing", "failing"],
)
def test_without_the_program_that_maps_ids_one_is_mapped(
    with_other: Callable[..., UserDaemon], text: str, why: str
) -> None:
    with running(with_other("newuidmap", text)) as daemon:
        assert f"only one user id is mapped for containers: {why}" in daemon.log
        daemon.import_busybox()
        assert daemon.shell("id -u; wc -l </proc/self/uid_map; wc -l </proc/self/gid_map") == "0\n1\n1"


def test_a_program_that_fails_after_the_other_has_mapped_its_ids_is_told(
    with_other: Callable[..., UserDaemon],
) -> None:
    daemon = with_other("newgidmap", FAILING)
    daemon.start(wait=False)
    assert daemon.process is not None and daemon.process.wait(patient(60)) == 1
    *before, last = daemon.log.splitlines()
    assert last == "engine daemon: the user's ids cannot be mapped: not today; see: engine check"
    # Where systemd runs, but none of the user's, this line comes first.
    assert all(line.startswith("engine daemon: limits of containers are not kept: ") for line in before)
    assert len(before) <= 1
    daemon.process = None


def _with_owners() -> bytes:
    """A root filesystem of busybox with a set-user-ID program of another user's."""
    buffer = io.BytesIO(rootfs.busybox())
    with tarfile.open(fileobj=buffer, mode="a") as tar:
        entry = tarfile.TarInfo("theirs")
        entry.uid, entry.gid, entry.mode = 1000, 1001, 0o4755
        tar.addfile(entry)
    return buffer.getvalue()


def test_without_a_runtime_directory_the_daemon_says_what_to_set(world: World, machine: UserMachine) -> None:
    daemon = world.user_daemon(machine)
    environment = {name: value for name, value in daemon.environment.items() if name != "XDG_RUNTIME_DIR"}
    done = subprocess.run(machine.command(daemon.arguments()), env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("engine daemon: XDG_RUNTIME_DIR is not set") and "Traceback" not in done.stderr


def test_check_looks_where_the_users_daemon_would_be(mine: UserDaemon) -> None:
    command = mine.as_user(sys.executable, "-m", "engine", "check", "--json")
    done = subprocess.run(mine.namespaces.command(command), env=mine.environment, capture_output=True, text=True)
    rows = {row["name"]: row for row in json.loads(done.stdout)["checks"]}
    assert f"user {UID}" in rows["root"]["found"]
    for name in ("root", "namespaces of a user", "subordinate ids", "overlay", "bridge and veth", "nf_tables"):
        assert rows[name]["state"] == "ok", rows[name]
    assert rows["cgroups"]["state"] == "missing" and "this user's" in rows["cgroups"]["found"]
    without = {name: value for name, value in mine.environment.items() if name != "XDG_RUNTIME_DIR"}
    done = subprocess.run(mine.namespaces.command(command), env=without, capture_output=True, text=True)
    rows = {row["name"]: row for row in json.loads(done.stdout)["checks"]}
    assert done.returncode == 1 and rows["namespaces of a user"]["found"].startswith("XDG_RUNTIME_DIR is not set")


def test_the_users_client_finds_the_users_daemon(mine: UserDaemon) -> None:
    named = ("ENGINE_HOST", "DOCKER_HOST")
    environment = {name: value for name, value in mine.environment.items() if name not in named}
    command = mine.as_user(sys.executable, "-m", "engine", "version")
    done = subprocess.run(mine.namespaces.command(command), env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and "ApiVersion" in done.stdout, done


def test_the_network_host_is_that_of_the_users_daemon(mine: UserDaemon) -> None:
    """Containers of it see each other's sockets, and not those of the machine."""
    reach = "nc -w 1 127.0.0.1 {} </dev/null >/dev/null 2>&1 && echo reached || echo apart"
    on_host = {"NetworkMode": "host"}
    server = mine.create("nc", "-ll", "-p", "8123", "-e", "true", HostConfig=on_host)
    mine.begin(server)
    until(lambda: mine.shell(reach.format(8123), HostConfig=on_host) == "reached")
    with mine.namespaces.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        assert mine.shell(reach.format(held.getsockname()[1]), HostConfig=on_host) == "apart"
    mine.remove(server)


def test_a_bind_of_what_the_user_cannot_see_is_refused_as_by_docker(world: World, mine: UserDaemon) -> None:
    shut = world.directory()
    shut.chmod(0o700)
    (shut / "inner").mkdir()
    mounts = [{"Type": "bind", "Source": f"{shut}/inner", "Target": "/x"}]
    answer = mine.request("POST", "/containers/create", {"Image": "busybox", "HostConfig": {"Mounts": mounts}})
    assert (answer.status, answer.message) == (
        400,
        f'invalid mount config for type "bind": stat {shut}/inner: permission denied',
    )
