"""Trees of plain files that stand for the cgroups of either version."""

import os
from pathlib import Path

import pytest

from engine.kernel import bpf
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
        if (beside / "cgroup.controllers").exists():  # version 2: what the cgroup above has switched on
            passed_on = (beside / "cgroup.subtree_control").read_text()
            every = (beside / "cgroup.controllers").read_text()
            (Path(path) / "cgroup.controllers").write_text(every if passed_on else "")

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
    monkeypatch.setattr(bpf, "load_device_program", lambda program: os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC))
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
