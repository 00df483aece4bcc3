"""CDI devices: what a file on the host describes is in the container that asks for it, and in no other."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.daemon import Daemon
from tests.harness.fixtures import running

pytestmark = pytest.mark.usefixtures("busybox")

KIND = "vendor.test/class"
ZERO = {"path": "/dev/injected", "hostPath": "/dev/zero"}
GUARDED = {"path": "/dev/guarded", "hostPath": "/dev/kmsg", "permissions": "w"}
FULL = {"path": "/dev/filled", "type": "c", "major": 1, "minor": 7, "fileMode": 0o640, "gid": 77}


@pytest.fixture(scope="module")
def specs(world) -> Path:
    """A directory with one file."""
    place = world.directory()
    (place / "shared").write_text("of the host")
    mount = {"hostPath": str(place / "shared"), "containerPath": "/opt/shared", "options": ["ro", "bind"]}
    document = {
        "cdiVersion": "0.6.0",
        "kind": KIND,
        "containerEdits": {"env": ["COMMON=yes", "PATH=/bin:/odd"]},
        "devices": [
            {"name": "zero", "containerEdits": {"deviceNodes": [ZERO], "env": ["OWN=zero"]}},
            {"name": "full", "containerEdits": {"deviceNodes": [FULL], "mounts": [mount], "additionalGids": [77]}},
            {"name": "guarded", "containerEdits": {"deviceNodes": [GUARDED]}},
            {"name": "hooked", "containerEdits": {"hooks": [{"hookName": "poststart", "path": "/bin/true"}]}},
        ],
    }
    (place / "vendor.json").write_text(json.dumps(document))
    return place


@pytest.fixture(scope="module")
def equipped(world, specs: Path) -> Iterator[Daemon]:
    """A daemon that reads that directory."""
    with running(world.daemon(["--cdi-spec-dir", str(specs)])) as daemon:
        daemon.import_busybox()
        yield daemon


def asking(*names: str, **more: object) -> dict:
    """The HostConfig of a container that asks for these devices."""
    requests = [{"Driver": "cdi", "DeviceIDs": [f"{KIND}={name}" for name in names]}]
    return {"NetworkMode": "none", "DeviceRequests": requests, **more}


def test_a_device_is_there_with_the_access_that_the_file_gives(equipped: Daemon) -> None:
    host = asking("zero")
    read = "dd if=/dev/injected bs=4 count=1 2>/dev/null | od -An -tx1; echo $COMMON $OWN $PATH"
    assert equipped.shell(read, HostConfig=host).split() == ["00"] * 4 + ["yes", "zero", "/bin:/odd"]
    script = ": >> /dev/guarded && head -c1 /dev/guarded"  # opened to write, and nothing is written
    read = equipped.run("sh", "-c", script, HostConfig=asking("guarded"))
    assert read.status != 0 and b"head: /dev/guarded: Operation not permitted" in read.stderr, read
    assert equipped.run("test", "-e", "/dev/injected").status == 1


def test_several_devices_bring_nodes_mounts_and_groups_together(equipped: Daemon) -> None:
    script = "stat -c '%a %g %t %T' /dev/filled; cat /opt/shared; echo; id -G; ls /dev/injected"
    lines = equipped.shell(script, HostConfig=asking("zero", "full"), User="7").splitlines()
    assert lines[:2] == ["640 77 1 7", "of the host"]
    assert "77" in lines[2].split() and lines[3] == "/dev/injected"
    refused = equipped.run("sh", "-c", "echo x > /opt/shared", HostConfig=asking("full"))
    assert b"Read-only file system" in refused.stderr


def test_info_lists_what_there_is(equipped: Daemon, specs: Path) -> None:
    info = equipped.request("GET", "/info").json()
    assert info["CDISpecDirs"] == [str(specs)]
    names = [f"{KIND}={name}" for name in ("full", "guarded", "hooked", "zero")]
    assert sorted(each["ID"] for each in info["DiscoveredDevices"]) == names
    assert {each["Source"] for each in info["DiscoveredDevices"]} == {"cdi"}
    assert "DiscoveredDevices" not in equipped.request("GET", "/v1.49/info", checked=False).json()


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (asking("none"), f"CDI device injection failed: unresolvable CDI devices {KIND}=none"),
        (asking("hooked"), "the device has hooks (poststart), which only another --runtime runs"),
        ({"DeviceRequests": [{"Driver": "cdi", "Count": 1}]}, "unexpected count in CDI device request"),
        ({"DeviceRequests": [{"Driver": "cdi", "Options": {"a": "b"}}]}, "unexpected options in CDI device request"),
    ],
)
def test_what_cannot_be_brought_is_refused_at_the_start(equipped: Daemon, request_: dict, text: str) -> None:
    one = equipped.create("true", HostConfig=request_)
    answer = equipped.request("POST", f"/containers/{one}/start")
    assert answer.status in (400, 500) and text in answer.json()["message"]
    equipped.remove(one)
