"""Volumes whose options mount something: what is filled there, what stays, and the kernel's words where it refuses."""

import json
import os
import re
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.api.mounting import host, refused, volume
from tests.harness.daemon import Daemon

__all__ = ["volume"]


@pytest.fixture
def empty(world) -> Path:
    """An empty directory of the host."""
    return world.directory()


def bound(path: Path) -> dict[str, str]:
    """Options that mount a directory of the host."""
    return {"type": "none", "o": "bind", "device": str(path)}


@pytest.mark.usefixtures("busybox")
def test_an_empty_directory_that_a_volume_mounts_is_filled_from_the_image(daemon: Daemon, empty: Path, volume) -> None:
    name = volume(DriverOpts=bound(empty))
    assert "root:" in daemon.shell("cat /etc/passwd", HostConfig=host(Binds=[f"{name}:/etc"]))
    assert {"passwd", "group"} <= set(os.listdir(empty))
    (empty / "passwd").write_text("mine\n")
    assert daemon.shell("cat /etc/passwd", HostConfig=host(Binds=[f"{name}:/etc"])) == "mine"


@pytest.mark.usefixtures("busybox")
def test_a_link_to_the_directory_is_followed(daemon: Daemon, empty: Path, volume) -> None:
    (empty / "real").mkdir()
    (empty / "link").symlink_to("real")
    name = volume(DriverOpts=bound(empty / "link"))
    assert "root:" in daemon.shell("cat /etc/passwd", HostConfig=host(Binds=[f"{name}:/etc"]))
    assert "passwd" in os.listdir(empty / "real")


@pytest.mark.usefixtures("busybox")
@pytest.mark.parametrize("how", ["nocopy", "read-only", "in use"])
def test_a_directory_that_is_not_to_be_filled_stays_as_it_is(daemon: Daemon, empty: Path, volume, how: str) -> None:
    options = {**bound(empty), "o": "bind,ro"} if how == "read-only" else bound(empty)
    if how == "in use":
        (empty / "mine").touch()
    name = volume(DriverOpts=options)
    suffix = ":nocopy" if how == "nocopy" else ""
    identifier = daemon.create("true", HostConfig=host(Binds=[f"{name}:/etc{suffix}"]))
    assert os.listdir(empty) == (["mine"] if how == "in use" else [])
    daemon.remove(identifier)


@pytest.mark.usefixtures("busybox")
def test_a_file_system_is_mounted_to_be_filled_and_nowhere_else(daemon: Daemon, empty: Path, volume, world) -> None:
    parts = {part: empty / part for part in ("lowerdir", "upperdir", "workdir")}
    for path in parts.values():
        path.mkdir()
    data = ",".join(f"{part}={path}" for part, path in parts.items())
    name = volume(DriverOpts={"type": "overlay", "device": "overlay", "o": data})
    before = world.namespaces.mounts()
    identifier = daemon.create("cat", "/etc/passwd", HostConfig=host(Binds=[f"{name}:/etc"]))
    assert {"passwd", "group"} <= set(os.listdir(parts["upperdir"]))
    assert world.namespaces.mounts() == before and not os.listdir(daemon.data_root / f"volumes/{name}/_data")
    daemon.begin(identifier)
    assert daemon.wait(identifier) == 0 and b"root:" in daemon.logs(identifier)
    daemon.remove(identifier)


@pytest.mark.usefixtures("busybox")
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"type": "none", "o": "bind", "device": "/nope"}, "mount /nope:{}, flags: 0x1000: no such file or directory"),
        ({"type": "ext4", "device": "/dev/nope"}, "mount /dev/nope:{}: no such file or directory"),
        ({"type": "no-such-fs", "device": "x", "o": "ro,a=b"}, "mount x:{}, flags: 0x1, data: a=b: no such device"),
    ],
)
def test_what_cannot_be_mounted_is_told_in_the_kernels_words(daemon: Daemon, volume, options: dict, text: str) -> None:
    name = volume(DriverOpts=options)
    path = daemon.request("GET", f"/volumes/{name}").json()["Mountpoint"]
    wanted = f"error while mounting volume '{path}': failed to mount local volume: {text.format(path)}"
    assert refused(daemon, host(Binds=[f"{name}:/etc"])) == (500, f"failed to populate volume: {wanted}")
    # Without anything to copy nothing is mounted before the start.
    assert refused(daemon, host(Binds=[f"{name}:/etc:nocopy"])) == (500, wanted)


@pytest.mark.usefixtures("busybox")
def test_nfs_is_the_kernels_to_mount_or_to_refuse(daemon: Daemon, volume) -> None:
    """Nobody listens there, and this kernel may know nothing of NFS.

    A place that the image does not have is given nothing to copy, so there the server matters at the start alone.
    """
    options = "addr=localhost,nolock,soft,timeo=1,retrans=0,port=1,mountport=1,proto=tcp"
    wanted = (
        r"error while mounting volume '\S+/_data': failed to mount local volume: "
        r"mount :/x:\S+, data: addr=(127\.0\.0\.1|::1),nolock,\S+: [a-z ]+"
    )
    name = volume(DriverOpts=_nfs(options))
    for place, before in (("/etc", "failed to populate volume: "), ("/v", "")):
        status, text = refused(daemon, host(Binds=[f"{name}:{place}"]))
        assert status == 500 and re.fullmatch(before + wanted, text), text
    status, text = refused(daemon, host(Binds=[f"{volume(DriverOpts=_nfs('addr=nohost.invalid'))}:/v"]))
    assert status == 500 and text.startswith("error resolving passed in network volume address: lookup nohost.invalid")


def _nfs(options: str) -> dict[str, str]:
    return {"type": "nfs", "device": ":/x", "o": options}


def test_prune_leaves_what_options_mount(daemon: Daemon, volume) -> None:
    label = {"kept": "1"}
    mounted = volume(DriverOpts={"type": "tmpfs", "device": "tmpfs"}, Labels=label)
    plain = volume(Labels=label)
    filters = quote(json.dumps({"all": ["true"], "label": ["kept=1"]}))
    pruned = daemon.request("POST", f"/volumes/prune?filters={filters}").json()
    assert pruned == {"VolumesDeleted": [plain], "SpaceReclaimed": 0}
    assert daemon.request("GET", f"/volumes/{mounted}").status == 200


def test_a_name_with_a_slash_is_no_other_path(daemon: Daemon) -> None:
    for method in ("GET", "DELETE"):
        answer = daemon.request(method, "/volumes/a%2Fb")
        assert (answer.status, answer.message) == (404, "get a/b: no such volume")
