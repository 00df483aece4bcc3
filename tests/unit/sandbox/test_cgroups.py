"""Cgroups of both versions against trees of plain files."""

import os
from pathlib import Path

import pytest

from engine.errors import SystemFailure
from engine.kernel import bpf
from engine.sandbox import cgroups
from engine.sandbox.spec import Limits

V2_FILES = (
    "cgroup.subtree_control",
    "cgroup.procs",
    "memory.max",
    "memory.swap.max",
    "memory.low",
    "cpu.weight",
    "cpu.max",
)
V2_FILES += ("cpuset.cpus", "cpuset.mems", "pids.max", "memory.events")
V1_FILES = {
    "memory": (
        "memory.limit_in_bytes",
        "memory.memsw.limit_in_bytes",
        "memory.soft_limit_in_bytes",
        "memory.oom_control",
    ),
    "cpu,cpuacct": ("cpu.shares", "cpu.cfs_period_us", "cpu.cfs_quota_us"),
    "cpuset": ("cpuset.cpus", "cpuset.mems", "cgroup.clone_children"),
    "pids": ("pids.max",),
    "devices": ("devices.allow", "devices.deny"),
}


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a kernel does and a plain file system does not: a new cgroup has its files, and takes them along."""
    mkdir, rmdir = os.mkdir, os.rmdir

    def filled(path: str, mode: int = 0o777, **more) -> None:
        mkdir(path, mode, **more)
        beside = Path(path).parent
        for file in [one for one in beside.iterdir() if one.is_file() and one.name != "cgroup.controllers"]:
            (Path(path) / file.name).touch()

    def emptied(path: str, **more) -> None:
        for file in Path(path).iterdir() if Path(path).is_dir() else ():
            file.unlink()
        rmdir(path, **more)

    monkeypatch.setattr(os, "mkdir", filled)
    monkeypatch.setattr(os, "rmdir", emptied)


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The device programs that were attached, by directory; the kernel's part is in tests/sandbox."""
    attached: dict[str, bytes] = {}
    monkeypatch.setattr(bpf, "attach_device_program", attached.__setitem__)
    return attached


@pytest.fixture
def v2(tmp_path: Path, kernel: None, programs: dict[str, bytes]) -> Path:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    for name in V2_FILES:
        (tmp_path / name).touch()
    return tmp_path


@pytest.fixture
def v1(tmp_path: Path, kernel: None) -> Path:
    for directory, names in V1_FILES.items():
        Path(tmp_path / directory).mkdir()
        for name in (*names, "tasks", "cgroup.procs"):
            (tmp_path / directory / name).touch()
    (tmp_path / "cpuset/cpuset.cpus").write_text("0-3\n")
    (tmp_path / "cpuset/cpuset.mems").write_text("0\n")
    (tmp_path / "cpu").symlink_to("cpu,cpuacct")
    return tmp_path


ALL = Limits(
    memory=64 << 20,
    memory_swap=96 << 20,
    memory_reservation=32 << 20,
    cpu_shares=1024,
    nano_cpus=1_500_000_000,
    cpuset_cpus="0-1",
    cpuset_mems="0",
    pids=100,
)


def test_nothing_mounted_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(SystemFailure, match="no cgroups are mounted"):
        cgroups.detect(str(tmp_path))


def test_version_2_writes_each_limit_in_its_own_words(v2: Path) -> None:
    found = cgroups.detect(str(v2))
    assert (found.version, found.hybrid) == ("2", False) and "memory" in found.controllers
    found.create("x", ALL)
    values = {name: (v2 / "engine/x" / name).read_text() for name in V2_FILES}
    assert {name: value for name, value in values.items() if value} == {
        "memory.max": str(64 << 20),
        "memory.swap.max": str(32 << 20),
        "memory.low": str(32 << 20),
        "cpu.weight": "39",
        "cpu.max": "150000 100000",
        "cpuset.cpus": "0-1",
        "cpuset.mems": "0",
        "pids.max": "100",
    }
    assert found.entries("x") == (f"{v2}/engine/x/cgroup.procs",) and found.path_text("x") == "/engine/x"
    found.remove("x")
    found.remove("x")
    assert not (v2 / "engine/x").exists()


def test_version_2_switches_controllers_on_above_and_in_the_parent(v2: Path) -> None:
    cgroups.detect(str(v2)).create("x", Limits(), "/a/b")
    assert all((v2 / where / "cgroup.subtree_control").read_text() for where in (".", "a", "a/b"))
    assert not (v2 / "a/b/x/cgroup.subtree_control").read_text()


def test_version_2_unlimited_is_max(v2: Path) -> None:
    cgroups.detect(str(v2)).create("x", Limits(memory=1 << 30, memory_swap=-1, cpu_period=50_000, pids=-1))
    read = {name: (v2 / "engine/x" / name).read_text() for name in ("memory.swap.max", "cpu.max", "pids.max")}
    assert read == {"memory.swap.max": "max", "cpu.max": "max 50000", "pids.max": "max"}


def test_an_oom_kill_is_read_from_the_counters(v1: Path) -> None:
    found = cgroups.detect(str(v1))
    found.create("x", Limits())
    assert not found.oom_killed("x") and not found.oom_killed("nothing")
    (v1 / "memory/engine/x/memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    assert found.oom_killed("x")


def test_version_2_counts_oom_kills_too(v2: Path) -> None:
    found = cgroups.detect(str(v2))
    found.create("x", Limits())
    (v2 / "engine/x/memory.events").write_text("low 0\noom 1\noom_kill 1\noom_group_kill 0\n")
    assert found.oom_killed("x")


def test_version_1_writes_each_limit_where_its_controller_is(v1: Path) -> None:
    found = cgroups.detect(str(v1))
    assert found.version == "1" and found.controllers == {"memory", "cpu", "cpuacct", "cpuset", "pids", "devices"}
    found.create("x", ALL)
    assert (v1 / "memory/engine/x/memory.memsw.limit_in_bytes").read_text() == str(96 << 20)
    assert (v1 / "cpu,cpuacct/engine/x/cpu.cfs_quota_us").read_text() == "150000"
    assert (v1 / "pids/engine/x/pids.max").read_text() == "100"
    assert (v1 / "devices/engine/x/devices.deny").read_text() == "a"
    assert len(found.entries("x")) == 5, "what is mounted together is entered once"


def test_version_1_cpusets_get_their_parents_cpus(v1: Path) -> None:
    cgroups.detect(str(v1)).create("x", Limits(), "/a/b")
    for where in ("a", "a/b"):
        files = [
            (v1 / "cpuset" / where / name).read_text()
            for name in ("cpuset.cpus", "cpuset.mems", "cgroup.clone_children")
        ]
        assert files == ["0-3", "0", "1"]


def test_a_privileged_containers_devices_are_not_restricted(v1: Path) -> None:
    cgroups.detect(str(v1)).create("x", Limits(), all_devices=True)
    assert (v1 / "devices/engine/x/devices.deny").read_text() == ""


def test_a_limit_without_its_controller_is_discarded_with_dockers_warning(v1: Path) -> None:
    (v1 / "memory/memory.memsw.limit_in_bytes").unlink()
    found = cgroups.detect(str(v1))
    fitting, warnings = found.fitting(ALL)
    assert fitting.memory == ALL.memory and fitting.memory_swap == 0
    begin = "Your kernel does not support swap limit capabilities or the cgroup is not mounted. "
    assert warnings == [begin + "Memory limited without swap."]
    assert found.fitting(Limits(memory=1)) == (Limits(memory=1), [])


def test_a_hybrid_host_is_version_1_and_says_so(v1: Path) -> None:
    (v1 / "unified").mkdir()
    (v1 / "unified/cgroup.controllers").touch()
    found = cgroups.detect(str(v1))
    assert (found.version, found.hybrid) == ("1", True) and len(found.entries("x")) == 5


def test_a_failed_create_names_the_file_and_leaves_nothing(v1: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = cgroups.detect(str(v1))
    (v1 / "pids/pids.max").unlink()
    with pytest.raises(SystemFailure, match=r"pids\.max"):
        found.create("x", Limits(pids=1))
    assert not list(v1.glob("*/engine/x"))
