"""Cgroups of both versions against trees of plain files."""

import errno
import os
from pathlib import Path

import pytest

from engine.dataclass import replace
from engine.errors import Invalid, SystemFailure
from engine.sandbox import device_program
from engine.sandbox.cgroups import detection, hierarchy
from engine.sandbox.cgroups import v1 as version_1
from engine.sandbox.cgroups import v2 as version_2
from engine.sandbox.device_rules import DEFAULT
from engine.sandbox.spec import Limits
from tests.unit.sandbox.conftest import ALL, V2_FILES


def test_version_2_writes_each_limit_in_its_own_words(v2: Path) -> None:
    found = detection.detect(str(v2))
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
    detection.detect(str(v2)).create("x", Limits(), "/a/b")
    assert all((v2 / where / "cgroup.subtree_control").read_text() for where in (".", "a", "a/b"))
    assert not (v2 / "a/b/x/cgroup.subtree_control").read_text()


def test_a_parent_of_version_2_that_existed_before_gets_its_controllers_too(v2: Path) -> None:
    """One that somebody else has made, or a daemon that was killed as it made it."""
    for directory in ("a", "a/b"):
        (v2 / directory).mkdir()
    detection.detect(str(v2)).create("x", Limits(), "/a/b")
    assert all((v2 / where / "cgroup.subtree_control").read_text() for where in (".", "a", "a/b"))


def test_a_parent_of_version_2_that_passes_all_on_is_left_alone(v2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = detection.detect(str(v2))
    found.create("x", Limits(), "/a/b")
    rows = written(monkeypatch, version_2)
    found.create("y", Limits(), "/a/b")
    assert not rows


def test_version_2_unlimited_is_max(v2: Path) -> None:
    detection.detect(str(v2)).create("x", Limits(memory=1 << 30, memory_swap=-1, cpu_period=50_000, pids=-1))
    read = {name: (v2 / "engine/x" / name).read_text() for name in ("memory.swap.max", "cpu.max", "pids.max")}
    assert read == {"memory.swap.max": "max", "cpu.max": "max 50000", "pids.max": "max"}


def test_a_budget_of_real_time_goes_from_the_top_down(v1: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the daemon is told by --cpu-rt-period and --cpu-rt-runtime."""
    for name in ("cpu.rt_period_us", "cpu.rt_runtime_us"):
        (v1 / "cpu" / name).touch()
    found = detection.detect(str(v1))
    found.grant_real_time(1_000_000, 500_000)
    rows = written(monkeypatch, version_1)
    found.create("x", Limits(), "/a/b")
    budget = [("cpu.rt_period_us", "1000000"), ("cpu.rt_runtime_us", "500000")]
    assert [row for row in rows if "cpu.rt" in row[0]] == budget * 2
    for where in ("a", "a/b"):
        assert [(v1 / "cpu" / where / name).read_text() for name, _ in budget] == [value for _, value in budget]


def test_no_budget_of_real_time_with_version_2(v2: Path) -> None:
    found = detection.detect(str(v2))
    found.grant_real_time(0, 0)
    with pytest.raises(Invalid, match="not implemented for cgroup v2"):
        found.grant_real_time(0, 1)


def test_no_budget_of_real_time_on_a_kernel_that_shares_none_out(v1: Path) -> None:
    with pytest.raises(Invalid, match="RT_GROUP_SCHED"):
        detection.detect(str(v1)).grant_real_time(1, 0)


def test_an_oom_kill_is_read_from_the_counters(v1: Path) -> None:
    found = detection.detect(str(v1))
    found.create("x", Limits())
    assert not found.oom_killed("x") and not found.oom_killed("nothing")
    (v1 / "memory/engine/x/memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    assert found.oom_killed("x")


def test_version_2_counts_oom_kills_too(v2: Path) -> None:
    found = detection.detect(str(v2))
    found.create("x", Limits())
    (v2 / "engine/x/memory.events").write_text("low 0\noom 1\noom_kill 1\noom_group_kill 0\n")
    assert found.oom_killed("x")


def test_version_1_writes_each_limit_where_its_controller_is(v1: Path) -> None:
    found = detection.detect(str(v1))
    assert found.version == "1" and found.controllers == {"memory", "cpu", "cpuacct", "cpuset", "pids", "devices"}
    found.create("x", ALL)
    assert (v1 / "memory/engine/x/memory.memsw.limit_in_bytes").read_text() == str(96 << 20)
    assert (v1 / "cpu,cpuacct/engine/x/cpu.cfs_quota_us").read_text() == "150000"
    assert (v1 / "pids/engine/x/pids.max").read_text() == "100"
    assert (v1 / "devices/engine/x/devices.deny").read_text() == "a"
    assert len(found.entries("x")) == 5, "what is mounted together is entered once"


def test_version_1_cpusets_get_their_parents_cpus(v1: Path) -> None:
    detection.detect(str(v1)).create("x", Limits(), "/a/b")
    for where in ("a", "a/b"):
        files = [
            (v1 / "cpuset" / where / name).read_text()
            for name in ("cpuset.cpus", "cpuset.mems", "cgroup.clone_children")
        ]
        assert files == ["0-3", "0", "1"]


def test_a_privileged_containers_devices_are_not_restricted(v1: Path) -> None:
    detection.detect(str(v1)).create("x", Limits(), all_devices=True)
    assert (v1 / "devices/engine/x/devices.deny").read_text() == ""


def test_a_limit_without_its_controller_is_discarded_with_dockers_warning(v1: Path) -> None:
    (v1 / "memory/memory.memsw.limit_in_bytes").unlink()
    found = detection.detect(str(v1))
    fitting, warnings = found.fitting(ALL)
    assert fitting.memory == ALL.memory and fitting.memory_swap == 0
    begin = "Your kernel does not support swap limit capabilities or the cgroup is not mounted. "
    assert warnings == [begin + "Memory limited without swap."]
    assert found.fitting(Limits(memory=1)) == (Limits(memory=1), [])


def test_a_hybrid_host_is_version_1_and_says_so(v1: Path) -> None:
    (v1 / "unified").mkdir()
    (v1 / "unified/cgroup.controllers").touch()
    found = detection.detect(str(v1))
    assert (found.version, found.hybrid) == ("1", True) and len(found.entries("x")) == 5


def test_a_failed_create_names_the_file_and_leaves_nothing(v1: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = detection.detect(str(v1))
    (v1 / "pids/pids.max").unlink()
    with pytest.raises(SystemFailure, match=r"pids\.max"):
        found.create("x", Limits(pids=1))
    assert not list(v1.glob("*/engine/x"))


def written(monkeypatch: pytest.MonkeyPatch, module: object) -> list[tuple[str, str]]:
    """The writes into a cgroup's files from here on, in their order."""
    rows: list[tuple[str, str]] = []
    write = hierarchy.write

    def note(path: str, value: str) -> None:
        rows.append((Path(path).name, value))
        write(path, value)

    monkeypatch.setattr(module, "write", note)
    return rows


@pytest.mark.parametrize(
    ("now", "memory", "swap", "first"),
    [
        (64, 128, 256, "memory.memsw.limit_in_bytes"),  # grows: the limit on both must be out of the way
        (256, 64, 128, "memory.limit_in_bytes"),  # shrinks: memory alone first
        (64, 32, 48, "memory.limit_in_bytes"),
        (64, 128, -1, "memory.memsw.limit_in_bytes"),
    ],
)
def test_memory_and_swap_of_version_1_are_changed_in_the_order_that_the_kernel_takes(
    v1: Path, monkeypatch: pytest.MonkeyPatch, now: int, memory: int, swap: int, first: str
) -> None:
    found = detection.detect(str(v1))
    found.create("x", Limits())
    (v1 / "memory/engine/x/memory.limit_in_bytes").write_text(f"{now << 20}\n")
    rows = written(monkeypatch, version_1)
    found.update("x", Limits(memory=memory << 20, memory_swap=swap << 20 if swap > 0 else -1))
    assert next(name for name, _ in rows if name.startswith("memory")) == first
    assert len(rows) == 2


def test_an_update_takes_a_limit_on_processes_back(v1: Path, v2: Path) -> None:
    found = detection.detect(str(v1))
    found.create("x", Limits(pids=5))
    found.update("x", Limits(), before=Limits(pids=5))
    file = v1 / ("engine/x/pids.max" if found.version == "2" else "pids/engine/x/pids.max")
    assert file.read_text() == "max"


def test_an_update_that_is_refused_puts_the_old_limits_back(v1: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = detection.detect(str(v1))
    before, after = Limits(pids=5, cpu_shares=100), Limits(pids=9, cpu_shares=200)
    found.create("x", before)
    write = hierarchy.write

    def refuse(path: str, value: str) -> None:
        if value == "9":
            raise OSError(errno.EBUSY, "Device or resource busy", path)
        write(path, value)

    monkeypatch.setattr(version_1, "write", refuse)
    with pytest.raises(SystemFailure, match=r"pids\.max: device or resource busy"):
        found.update("x", after, before=before)
    assert (v1 / "cpu,cpuacct/engine/x/cpu.shares").read_text() == "100"


def test_a_period_that_waits_for_its_quota_is_written_after_it(v1: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = detection.detect(str(v1))
    found.create("x", Limits())
    rows = []

    def picky(path: str, value: str) -> None:
        rows.append(Path(path).name)
        if path.endswith("cfs_period_us") and "cpu.cfs_quota_us" not in rows:
            raise OSError(errno.EINVAL, "Invalid argument", path)

    monkeypatch.setattr(version_1, "write", picky)
    found.update("x", Limits(cpu_period=10_000, cpu_quota=5_000))
    assert rows == ["cpu.cfs_period_us", "cpu.cfs_quota_us", "cpu.cfs_period_us"]


def test_freezing_of_version_1_is_over_when_all_have_stopped(v1: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tasks", "cgroup.procs", "freezer.state"):
        (v1 / "freezer").mkdir(exist_ok=True)
        (v1 / "freezer" / name).touch()
    found = detection.detect(str(v1))
    found.create("x", Limits())
    answers = iter(["FREEZING\n", "FREEZING\n", "FROZEN\n"])
    rows = written(monkeypatch, version_1)
    monkeypatch.setattr(version_1, "read", lambda path: next(answers))
    found.freeze("x")
    assert rows == [("freezer.state", "FROZEN")] * 3
    found.thaw("x")
    assert rows[-1] == ("freezer.state", "THAWED")
    monkeypatch.setattr(version_1, "read", lambda path: "FREEZING\n")
    monkeypatch.setattr(version_1, "_LATEST_FROZEN", 0.01)
    with pytest.raises(SystemFailure, match="unable to freeze"):
        found.freeze("x")
    assert rows[-1] == ("freezer.state", "THAWED"), "nobody stays stopped when not all could be"


def test_without_a_freezer_it_is_said(v1: Path) -> None:
    found = detection.detect(str(v1))
    found.create("x", Limits())
    with pytest.raises(SystemFailure, match="no freezer controller"):
        found.freeze("x")


def test_a_cgroup_that_is_gone_cannot_be_frozen(v2: Path) -> None:
    """systemd removes a scope as soon as its last process has ended, before the daemon has heard of that."""
    (v2 / "cgroup.freeze").touch()
    with pytest.raises(hierarchy.Gone):
        detection.detect(str(v2)).freeze("x")


def test_freezing_of_version_2_waits_for_the_kernels_word(v2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cgroup.freeze", "cgroup.events"):
        (v2 / name).touch()
    found = detection.detect(str(v2))
    found.create("x", Limits())
    (v2 / "engine/x/cgroup.events").write_text("populated 1\nfrozen 1\n")
    found.freeze("x")
    assert (v2 / "engine/x/cgroup.freeze").read_text() == "1"
    found.thaw("x")
    assert (v2 / "engine/x/cgroup.freeze").read_text() == "0"
    (v2 / "engine/x/cgroup.events").write_text("populated 1\nfrozen 0\n")
    monkeypatch.setattr(version_2, "_LATEST_FROZEN", 0.01)
    with pytest.raises(SystemFailure, match="unable to freeze"):
        found.freeze("x")
    assert (v2 / "engine/x/cgroup.freeze").read_text() == "0"
    found.thaw("nothing")


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ENODEV])
def test_who_has_just_gone_need_not_be_thawed(v1: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    (v1 / "freezer").mkdir(exist_ok=True)
    (v1 / "freezer/tasks").touch()

    def write(path: str, value: str) -> None:
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(version_1, "write", write)
    detection.detect(str(v1)).thaw("x")


BLOCKS = Limits(
    blkio_weight=500,
    blkio_weight_device=(("8:0", 300),),
    blkio_read_bps=(("8:0", 1000),),
    blkio_write_bps=(("8:0", 2000),),
    blkio_read_iops=(("8:0", 30),),
    blkio_write_iops=(("8:0", 40),),
)


def test_block_devices_of_version_2_have_one_file_for_all_paces(v2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("io.max", "io.weight"):
        (v2 / name).touch()
    rows = written(monkeypatch, version_2)
    detection.detect(str(v2)).create("x", BLOCKS)
    rows = [row for row in rows if row[0].startswith("io.")]
    assert rows == [
        *(("io.max", f"8:0 {text}") for text in ("rbps=1000", "wbps=2000", "riops=30", "wiops=40")),
        ("io.weight", str(1 + 490 * 9999 // 990)),
        ("io.weight", f"8:0 {1 + 290 * 9999 // 990}"),
    ]


def test_the_weights_of_bfq_are_as_they_are_asked_for(v2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("io.max", "io.bfq.weight"):
        (v2 / name).touch()
    rows = written(monkeypatch, version_2)
    detection.detect(str(v2)).create("x", BLOCKS)
    assert [row for row in rows if "weight" in row[0]] == [("io.bfq.weight", "500"), ("io.bfq.weight", "8:0 300")]


def test_block_devices_of_version_1_have_a_file_each(v1: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (v1 / "blkio").mkdir()
    names = [f"throttle.{way}_{what}_device" for way in ("read", "write") for what in ("bps", "iops")]
    for name in ("tasks", "cgroup.procs", *(f"blkio.{each}" for each in (*names, "bfq.io_serviced"))):
        (v1 / "blkio" / name).touch()
    for name in ("weight", "weight_device"):
        (v1 / f"blkio/blkio.bfq.{name}").touch()
    rows = written(monkeypatch, version_1)
    found = detection.detect(str(v1))
    assert found.fitting(BLOCKS) == (BLOCKS, [])
    found.create("x", BLOCKS)
    assert [row for row in rows if row[0].startswith("blkio")] == [
        ("blkio.bfq.weight", "500"),
        ("blkio.bfq.weight_device", "8:0 300"),
        ("blkio.throttle.read_bps_device", "8:0 1000"),
        ("blkio.throttle.write_bps_device", "8:0 2000"),
        ("blkio.throttle.read_iops_device", "8:0 30"),
        ("blkio.throttle.write_iops_device", "8:0 40"),
    ]


def test_what_a_host_cannot_do_with_block_devices_and_memory_is_discarded_with_a_warning_each(v1: Path) -> None:
    asked = replace(BLOCKS, memory_swappiness=0, oom_kill_disable=True, memory_swap=-1, memory=1 << 30)
    (v1 / "memory/memory.oom_control").unlink()
    fitting, warnings = detection.detect(str(v1)).fitting(asked)
    assert fitting == Limits(memory=1 << 30, memory_swap=-1) and len(warnings) == 8


def test_devices_of_version_2_are_a_program_and_of_a_privileged_container_none(
    v2: Path, programs: dict[str, bytes]
) -> None:
    found = detection.detect(str(v2))
    found.create("x", Limits(), devices=("b 8:0 rwm",))
    found.create("y", Limits(), all_devices=True)
    assert programs == {f"{v2}/engine/x": device_program.assemble((*DEFAULT, "b 8:0 rwm"))}


def test_a_parent_that_a_killed_daemon_has_left_half_made_is_made_whole(v1: Path) -> None:
    (v1 / "cpuset/engine").mkdir()
    detection.detect(str(v1)).create("x", Limits())
    for where in ("engine", "engine/x"):
        assert (v1 / "cpuset" / where / "cpuset.mems").read_text() == "0"
    assert (v1 / "cpuset/engine/cgroup.clone_children").read_text() == "1"


def test_somebody_elses_parent_without_cpus_gets_them(v1: Path) -> None:
    """Made by hand, and not told to pass them on."""
    (v1 / "cpuset/theirs").mkdir()
    found = detection.detect(str(v1))
    found.create("x", Limits(), "/theirs")
    for where in ("theirs", "theirs/x"):
        assert (v1 / "cpuset" / where / "cpuset.cpus").read_text() == "0-3"


def test_hierarchies_without_a_controller_of_the_engines_are_entered_too(
    v1: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mount(name: str, file: str) -> None:
        (v1 / name).mkdir()
        (v1 / name / file).touch()

    mount("systemd", "tasks")
    mount("unified", "cgroup.procs")
    mount("left", "cgroup.procs")
    there = {f"{v1}/systemd", f"{v1}/unified", f"{v1}/later"}
    monkeypatch.setattr(os.path, "ismount", there.__contains__)
    found = detection.detect(str(v1))
    assert not found.grown and found.hasten is not None
    others = [f"{v1}/systemd/engine/x/tasks", f"{v1}/unified/engine/x/cgroup.procs"]
    assert list(found.entries("x")[-2:]) == others and not any("left" in entry for entry in found.entries("x"))
    found.create("x", Limits())
    assert all(os.path.exists(os.path.dirname(entry)) for entry in others) and not (v1 / "left/engine").exists()
    mount("later", "tasks")
    assert not any("later" in entry for entry in found.entries("x", running=True)) and found.grown
    assert f"{v1}/later/engine/y/tasks" in found.entries("y")
    found.remove("x")
    assert not any(os.path.exists(directory) for directory in found.directories("x"))
