"""Other users of the host reach nothing below the data root, and containers miss nothing by that (CVE-2021-41091)."""

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import execs, rootfs
from tests.harness.daemon import Daemon
from tests.harness.fixtures import World, running

pytestmark = pytest.mark.root

NOBODY = {"user": 65534, "group": 65534, "extra_groups": []}
TOOL = "cp /bin/busybox /v/id && chmod 4755 /v/id"


def mounted(*volumes: str, **more: object) -> dict:
    """A HostConfig with named volumes, the first at /v, the second at /w."""
    binds = [f"{volume}:/{place}" for volume, place in zip(volumes, "vw", strict=False)]
    return {"NetworkMode": "none", "Binds": binds, **more}


@pytest.fixture(scope="module", params=["overlayfs", "copy"])
def filled(world: World, request: pytest.FixtureRequest) -> Iterator[Daemon]:
    """A daemon that has something of each kind below its roots: volumes, containers, one that runs, a build's cache."""
    if rootfs.program() is None:
        pytest.skip("needs busybox: apt-get install busybox-static")
    daemon = world.daemon(machine=world.machine())  # its bridge is not to be in the way of the other tests'
    if request.param == "copy":
        daemon.copies_layers()
    for above in (daemon.root, daemon.root.parent):
        above.chmod(0o755)  # the tests' own directories would hide what the daemon leaves open
    with running(daemon):
        daemon.import_busybox()
        daemon.shell(TOOL, HostConfig=mounted("tools"))
        daemon.begin(daemon.create("sleep", "1000", HostConfig=mounted("tools", NetworkMode="bridge")))
        # A removed volume has been there too.
        assert daemon.request("POST", "/volumes/create", {"Name": "gone"}).status == 201
        assert daemon.request("DELETE", "/volumes/gone").status == 204
        yield daemon


def entered(root: Path) -> list[str]:
    """The directories, from the root down, that an ordinary user of the host can enter or list."""
    found = "".join(f"{path}\n" for path, _, _ in os.walk(root))
    assert found.count("\n") > 3
    script = 'while read -r place; do { cd "$place" || ls "$place"; } > /dev/null 2>&1 && echo "$place"; done; true'
    tried = subprocess.run(["sh", "-c", script], input=found, capture_output=True, text=True, check=True, **NOBODY)
    return tried.stdout.splitlines()


def open_rooms(place: Path) -> list[str]:
    """The directories just below one that others could enter if they had come so far."""
    found = [entry for entry in place.iterdir() if entry.is_dir() and not entry.is_symlink()]
    assert found
    return [entry.name for entry in found if stat.S_IMODE(entry.stat().st_mode) & 0o077]


def test_a_setuid_program_in_a_volume_is_not_reached(filled: Daemon) -> None:
    """The host's users cannot run what a container has made setuid in a named volume."""
    tool = Path(filled.request("GET", "/volumes/tools").json()["Mountpoint"]) / "id"
    assert stat.S_IMODE(tool.stat().st_mode) == 0o4755
    with pytest.raises(PermissionError):
        subprocess.run([tool], capture_output=True, **NOBODY)


def test_no_directory_of_the_data_root_can_be_entered(filled: Daemon) -> None:
    """The whole tree, tried by a user; and each room, should the root itself ever have to be passed."""
    assert entered(filled.data_root) == []
    assert open_rooms(filled.data_root) == []


def test_a_new_volume_and_a_new_container_are_shut_too(filled: Daemon) -> None:
    """Each directory that the daemon makes for one of them."""
    for name in ("volumes", "containers"):
        assert open_rooms(filled.data_root / name) == []


def test_no_directory_of_the_exec_root_can_be_entered(filled: Daemon) -> None:
    """But for itself, in which the administrator may have put a socket."""
    assert entered(filled.exec_root) in ([], [str(filled.exec_root)])
    assert open_rooms(filled.exec_root) == []


def test_a_root_of_an_older_daemon_is_shut_at_the_start(filled: Daemon) -> None:
    """Whatever was open before, from the root down to the directory of a volume."""
    root = filled.data_root
    for place, mode in ((root, 0o711), (root / "volumes", 0o711), (root / "volumes" / "tools", 0o701)):
        place.chmod(mode)
    for name in ("blobs", "containers", "layers", "tmp"):
        (root / name).chmod(0o755)
    (filled.exec_root / "containers").chmod(0o755)
    tool = root / "volumes" / "tools" / "_data" / "id"
    assert subprocess.run([tool], capture_output=True, **NOBODY).stdout  # so it was reached
    filled.restart()
    with pytest.raises(PermissionError):
        subprocess.run([tool], capture_output=True, **NOBODY)
    test_no_directory_of_the_data_root_can_be_entered(filled)
    test_no_directory_of_the_exec_root_can_be_entered(filled)


def test_a_root_that_its_administrator_has_shut_stays_shut(world: World) -> None:
    """The exec root is never opened wider than it was."""
    daemon = world.daemon()
    daemon.exec_root.mkdir(mode=0o700)
    with running(daemon):
        assert stat.S_IMODE(daemon.exec_root.stat().st_mode) == 0o700


def test_containers_of_other_users_have_all_that_they_had(filled: Daemon) -> None:
    """Volumes, a subpath of one, the root, /etc/hosts: mounted by root, so that the directories above do not matter."""
    filled.shell("mkdir /v/sub && chown 1000:1000 /v /v/sub", HostConfig=mounted("theirs"))
    mounts = [
        {"Type": "volume", "Source": "theirs", "Target": "/v"},
        {"Type": "volume", "Source": "theirs", "Target": "/s", "VolumeOptions": {"Subpath": "sub"}},
    ]
    script = "echo in > /v/file; cat /v/file; echo below > /s/file; cat /v/sub/file; echo x > /tmp/file; cat /tmp/file"
    whole = f"{script}; cat /etc/hosts > /dev/null; ls /v /s /bin > /dev/null; id -u"
    host = {"NetworkMode": "none", "Mounts": mounts}
    assert filled.shell(whole, User="1000:1000", HostConfig=host).split() == ["in", "below", "x", "1000"]
    container = filled.create("sleep", "1000", User="1000:1000", HostConfig=host)
    filled.begin(container)
    assert execs.run(filled, container, "sh", "-c", "cat /v/file; id -u", User="1001").out.split() == ["in", "1001"]
    filled.remove(container)
