"""Attempts to get out of the containers of a user's daemon: root there, however privileged, is the user at the most."""

import io
import os
import re
import socket
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import rootfs, users
from tests.harness.fixtures import World, running
from tests.harness.namespaces import socket_of
from tests.harness.users import SUBORDINATE, UID, UserDaemon

pytestmark = [
    pytest.mark.skipif(rootfs.program() is None, reason="needs busybox: apt-get install busybox-static"),
    pytest.mark.skipif(not users.available(), reason="needs newuidmap: apt-get install uidmap"),
]
ALL_RIGHTS = {"NetworkMode": "host", "Privileged": True, "SecurityOpt": ["seccomp=unconfined"]}


@pytest.fixture(scope="module")
def mine(world: World) -> Iterator[UserDaemon]:
    """A user's daemon, with busybox."""
    with running(world.user_daemon(world.user_machine())) as daemon:
        daemon.import_busybox()
        yield daemon


def refused(daemon: UserDaemon, script: str, **host_config: object) -> bytes:
    """What a container with all rights says when this fails, as it must."""
    output = daemon.run("sh", "-c", script, HostConfig={**ALL_RIGHTS, **host_config})
    assert output.status != 0, output
    return output.stderr


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/proc/sysrq-trigger",
            "/proc/sys/kernel/core_pattern",
            "/proc/sys/kernel/modprobe",
            "/proc/sys/fs/protected_hardlinks",
        ),
        *("/sys/kernel/uevent_helper", "/sys/kernel/mm/transparent_hugepage/enabled", "/proc/sys/vm/drop_caches"),
    ],
)
def test_the_kernels_own_files_cannot_be_written(mine: UserDaemon, path: str) -> None:
    if os.path.exists(path):
        assert re.search(rb"Permission denied|Read-only|Operation not permitted", refused(mine, f"echo 1 > {path}"))


def test_cve_2022_0492_no_hierarchy_of_the_hosts_cgroups_can_be_mounted(mine: UserDaemon) -> None:
    for kind in ("-t cgroup -o memory none", "-t cgroup -o none,name=evil none"):
        output = mine.run("sh", "-c", f"mkdir /c; mount {kind} /c && ls /c/release_agent", HostConfig=ALL_RIGHTS)
        assert output.status != 0, output


def test_no_device_of_the_host_can_be_had(mine: UserDaemon) -> None:
    for name, kind, numbers in (
        ("disk", "b", "254 0"),
        ("mem", "c", "1 1"),
        ("kmsg", "c", "1 11"),
        ("fuse", "c", "10 229"),
    ):
        assert b"Operation not permitted" in refused(mine, f"mknod /{name} {kind} {numbers}")
    output = mine.run("sh", "-c", "mkdir /d; mount -t devtmpfs none /d && cat /d/kmsg", HostConfig=ALL_RIGHTS)
    assert output.status != 0, output


def test_a_set_user_id_program_of_a_container_gives_the_user_at_the_most(mine: UserDaemon) -> None:
    shared = mine.home / "shared"
    shared.mkdir()
    os.chown(shared, UID, UID)
    script = "cp /bin/busybox /s/a; cp /bin/busybox /s/b; chown 7:7 /s/b; chmod 6755 /s/a /s/b"
    mine.shell(script, HostConfig={**ALL_RIGHTS, "Binds": [f"{shared}:/s"]})
    assert (shared / "a").stat().st_uid == UID
    assert (shared / "b").stat().st_uid == SUBORDINATE[0] + 6
    assert b"Invalid argument" in refused(mine, "touch /s/c && chown 4000000000 /s/c", Binds=[f"{shared}:/s"])


def test_cve_2020_15257_no_abstract_socket_of_the_host_can_be_reached(mine: UserDaemon) -> None:
    with socket_of(mine.namespaces.pid, socket.AF_UNIX, socket.SOCK_STREAM) as held:
        held.bind("\0of-the-host")
        held.listen()
        assert "of-the-host" not in mine.shell("cat /proc/net/unix", HostConfig=ALL_RIGHTS)


def test_files_of_others_stay_shut_whatever_the_rights(mine: UserDaemon) -> None:
    secret = mine.root / "secret"
    secret.write_text("of root")
    secret.chmod(0o640)
    here = f"{mine.root}:/host"
    assert b"denied" in refused(mine, "cat /host/secret", Binds=[here])
    assert b"not permitted" in refused(mine, "chown 0 /host/secret", Binds=[here])
    assert b"not permitted" in refused(mine, "chmod 666 /host/secret", Binds=[here])


def test_a_runtime_directory_of_everybodys_is_refused(world: World) -> None:
    """Another user could have put a link there, which led the daemon into any directory of its own user's."""
    daemon = world.user_daemon(world.user_machine())
    precious, shared = daemon.home / "precious", daemon.root / "shared"
    for directory, mode in ((precious, 0o755), (shared, 0o1777)):
        directory.mkdir()
        directory.chmod(mode)
    os.chown(precious, UID, UID)
    os.chown(shared, UID, UID)
    (shared / "engine").symlink_to(precious)
    os.chown(shared / "engine", UID + 1, UID + 1, follow_symlinks=False)
    environment = daemon.environment | {"XDG_RUNTIME_DIR": str(shared)}
    command = daemon.namespaces.command(daemon.arguments())
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "to which others may write (mode 1777)" in done.stderr, done
    assert list(precious.iterdir()) == []


def test_a_container_learns_nothing_of_the_daemons_environment(mine: UserDaemon) -> None:
    found = mine.shell("tr '\\0' '\\n' < /proc/1/environ; env", HostConfig=ALL_RIGHTS)
    assert "ENGINE" not in found and "XDG" not in found and str(mine.root) not in found


def test_a_container_cannot_forge_the_owner_of_a_file(mine: UserDaemon) -> None:
    """Where many ids are mapped, a note of an owner is no note (`daemon/tar/noted.py`)."""
    container = mine.create("sleep", "60", HostConfig={"NetworkMode": "none"})
    mine.begin(container)
    mine.put_file(container, "forged")
    place = Path(f"/proc/{mine.inspect(container)['State']['Pid']}/root/forged")
    os.setxattr(place, "user.engine.owner", b"0:0:2541")
    os.chown(place, SUBORDINATE[0] + 999, SUBORDINATE[0] + 999)
    exported = mine.request("GET", f"/containers/{container}/archive?path=/forged")
    with tarfile.open(fileobj=io.BytesIO(exported.body)) as tar:
        assert tar.getmember("forged").uid == 1000
    mine.remove(container)
