"""CDI devices of builds (`RUN --device`, `--allow device`) with the real buildx."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.building import Building, building, told
from tests.clients.conftest import Client
from tests.harness.fixtures import running

KIND = "vendor.test/class"
EDITS = {"env": ["COMMON=of-the-file"]}
ZERO = {"deviceNodes": [{"path": "/dev/injected", "hostPath": "/dev/zero"}]}
GRANTED = {"org.mobyproject.buildkit.device.autoallow": "true"}


@pytest.fixture
def equipped(world, docker: Client, tmp_path: Path) -> Iterator[Building]:
    """buildx with a daemon that has two devices, one of which the administrator gives to each build."""
    devices = [{"name": "zero", "containerEdits": ZERO}, {"name": "free", "annotations": GRANTED}]
    document = {"cdiVersion": "0.6.0", "kind": KIND, "containerEdits": EDITS, "devices": devices}
    specs = world.directory()
    (specs / "vendor.json").write_text(json.dumps(document))
    with running(world.daemon(["--cdi-spec-dir", str(specs), "--builder-entitlement", "device"])) as daemon:
        daemon.import_busybox()
        yield building(daemon, tmp_path)


def test_a_device_is_there_for_the_command_that_asks_and_was_granted(equipped: Building) -> None:
    equipped.write(
        f"RUN --device={KIND}=zero head -c2 /dev/injected | od -An -tx1; echo $COMMON", "RUN ls /dev/injected || true"
    )
    refused = told(equipped("build", "."), 1)
    assert f"failed to solve: device {KIND}=zero is requested by the build but not allowed" in refused
    output = told(equipped("build", "--allow", f"device={KIND}=zero", "."))
    assert " 00 00\n" in output and "of-the-file" in output
    assert "ls: /dev/injected: No such file or directory" in output
    refused = told(equipped("build", "."), 1)
    assert f"device {KIND}=zero is requested by the build but not allowed" in refused, "the cache has the step now"
    told(equipped("build", "--no-cache", "--allow", "device", "."))


def test_names_in_the_place_of_others_and_devices_that_need_not_be_there(equipped: Building) -> None:
    equipped.write(
        "RUN --device=mine test -c /dev/injected",
        f"RUN --device={KIND}=free echo $COMMON",
        "RUN --device=absent ls /dev",
    )
    assert "of-the-file" in told(equipped("build", "--allow", f"device={KIND}=zero,alias=mine", "."))
    equipped.write("RUN --device=absent,required true")
    assert 'required device "absent" is not registered' in told(equipped("build", "."), 1)


def test_the_builder_shows_its_devices(equipped: Building) -> None:
    shown = equipped("buildx", "inspect").stdout
    assert f"{KIND}=zero" in shown and f"{KIND}=free" in shown, shown
