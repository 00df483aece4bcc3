"""Cgroups that lack something, or all: limits are discarded with docker's warnings, and no start fails."""

import errno
import os
from pathlib import Path

import pytest

from engine.errors import SystemFailure
from engine.kernel import bpf
from engine.sandbox.cgroups import detection
from engine.sandbox.cgroups import v2 as version_2
from engine.sandbox.spec import Limits
from tests.unit.sandbox.conftest import ALL


@pytest.mark.parametrize("where", ["", "nowhere"])
def test_without_cgroups_each_limit_is_discarded_and_nothing_fails(tmp_path: Path, where: str) -> None:
    found = detection.detect(str(tmp_path / where))
    assert (found.version, found.features, found.holds_processes, found.guards_devices) == ("", set(), False, False)
    fitting, warnings = found.fitting(ALL)
    assert fitting == Limits() and len(warnings) >= 6
    assert warnings[0].startswith("Your kernel does not support memory limit capabilities or the cgroup is not mounted")
    found.create("x", fitting)
    found.update("x", fitting)
    assert (found.directories("x"), found.entries("x"), found.oom_killed("x")) == ((), (), False)
    with pytest.raises(SystemFailure, match="only a cgroup can stop processes, and none is mounted"):
        found.freeze("x")
    found.thaw("x")
    found.wake("x")
    found.remove("x")
    found.leave()
    assert not list(tmp_path.iterdir())


SLICE_FILES = {
    "memory": ("memory.max", "memory.low", "memory.swap.max"),
    "cpu": ("cpu.weight", "cpu.max"),
    "pids": ("pids.max",),
    "cpuset": ("cpuset.cpus",),
    "io": ("io.max", "io.weight"),
}


def with_slice(root: Path, controllers: str, *missing: str) -> None:
    """Make a cgroup of another program that has these controllers; missing: files that this kernel does not have."""
    os.mkdir(root / "system.slice")
    for file in (root / "system.slice").iterdir():
        file.unlink()
    (root / "system.slice/cgroup.controllers").write_text(f"{controllers}\n")
    for controller in controllers.split():
        for name in SLICE_FILES[controller]:
            if name not in missing:
                (root / "system.slice" / name).touch()


@pytest.mark.parametrize(
    ("missing", "asked", "left", "words"),
    [
        (("memory.swap.max",), Limits(memory=5, memory_swap=9), Limits(memory=5), "Memory limited without swap."),
        (("memory.swap.max",), Limits(memory=5, memory_swap=-1), Limits(memory=5), ""),
        (("io.weight",), Limits(blkio_weight=300, pids=1), Limits(pids=1), "Weight discarded."),
        (("cpu.max",), Limits(cpu_quota=5000, cpu_shares=7), Limits(cpu_shares=7), "CPU period/quota discarded."),
    ],
)
def test_what_a_kernel_of_version_2_lacks_is_seen_in_a_cgroup_that_is_there(
    v2: Path, missing: tuple[str, ...], asked: Limits, left: Limits, words: str
) -> None:
    with_slice(v2, "memory cpu pids io", *missing)
    fitting, warnings = detection.detect(str(v2)).fitting(asked)
    assert fitting == left
    assert [warning.endswith(words) for warning in warnings] == ([True] if words else [])


def test_what_a_kernel_of_version_2_lacks_is_seen_as_soon_as_a_cgroup_has_the_controller(v2: Path) -> None:
    found = detection.detect(str(v2))
    assert {"swap", "blkio_weight"} <= found.features, "nothing is known yet"
    with_slice(v2, "memory", "memory.swap.max")
    assert "swap" not in found.features and {"memory", "blkio_weight"} <= found.features


def test_a_kernel_that_weighs_no_device_by_its_cost_has_no_weight_of_a_device(
    v2: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(version_2, "_BFQ", "/nowhere")
    (v2 / "io.cost.qos").write_text("254:0 enable=0 ctrl=auto\n")
    fitting, warnings = detection.detect(str(v2)).fitting(Limits(blkio_weight=300, blkio_weight_device=(("254:0", 9),)))
    assert fitting == Limits(blkio_weight=300) and warnings[0].endswith("Weight-device discarded.")
    (v2 / "io.cost.qos").write_text("254:0 enable=1 ctrl=auto\n")
    assert "blkio_weight_device" in detection.detect(str(v2)).features


def test_a_device_that_the_kernel_does_not_weigh_fails_no_start(
    v2: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (v2 / "io.weight").touch()
    found = detection.detect(str(v2))

    def picky(path: str, value: str) -> None:
        if value.startswith("8:0 "):
            raise OSError(errno.EOPNOTSUPP, "Operation not supported", path)

    monkeypatch.setattr(version_2, "write", picky)
    found.create("x", Limits(blkio_weight=300, blkio_weight_device=(("8:0", 300),)))
    assert "cannot be kept" in caplog.messages[0]


def test_a_limit_for_which_a_new_cgroup_has_no_file_fails_no_start(v2: Path, caplog: pytest.LogCaptureFixture) -> None:
    (v2 / "memory.swap.max").unlink()
    found = detection.detect(str(v2))
    assert found.fitting(ALL) == (ALL, []), "no cgroup is there that shows what the kernel lacks"
    found.create("x", ALL)
    assert (v2 / "engine/x/memory.max").read_text() == str(ALL.memory)
    assert caplog.messages[0].startswith("container x: Your kernel does not support swap limit capabilities")


@pytest.mark.parametrize(("number", "guards"), [(0, True), (errno.EINVAL, False), (errno.EPERM, False)])
def test_whether_version_2_guards_devices_is_what_the_kernel_says(
    v2: Path, monkeypatch: pytest.MonkeyPatch, programs: dict[str, bytes], number: int, guards: bool
) -> None:
    def load(program: bytes) -> int:
        if number:
            raise OSError(number, os.strerror(number))
        return os.open("/dev/null", os.O_RDONLY)

    monkeypatch.setattr(bpf, "load_device_program", load)
    found = detection.detect(str(v2))
    found.create("x", Limits())
    assert (found.guards_devices, bool(programs)) == (guards, guards)


def test_version_1_guards_devices_with_its_controller_alone(v1: Path) -> None:
    assert detection.detect(str(v1)).guards_devices
    for file in (v1 / "devices").iterdir():
        file.unlink()
    (v1 / "devices").rmdir()
    assert not detection.detect(str(v1)).guards_devices
