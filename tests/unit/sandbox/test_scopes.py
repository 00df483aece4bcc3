"""Scopes of systemd's, against a tree of plain files and a systemd that makes directories in it."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from engine.errors import Invalid, SystemFailure
from engine.kernel import bpf, userns
from engine.sandbox import device_program
from engine.sandbox.cgroups import detection, properties, scopes, slices
from engine.sandbox.cgroups.hierarchy import Cgroups
from engine.sandbox.cgroups.killings import Killings
from engine.sandbox.cgroups.properties import UNLIMITED, Property
from engine.sandbox.device_rules import DEFAULT
from engine.sandbox.spec import Limits

UNIT = "engine-x.scope"
NOTHING = Limits()
RMDIR = os.rmdir
FILES = ("cgroup.procs", "memory.max", "memory.swap.max", "memory.low", "cpu.weight", "cpu.max", "cpuset.cpus")
FILES += ("cpuset.mems", "pids.max", "memory.events", "io.max", "io.weight", "cgroup.freeze", "cgroup.events")
KILL = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=engine-x.scope,mems_allowed=0,"
    "oom_memcg=/system.slice/engine-x.scope,task_memcg={},task={},pid=331,uid=0"
)


class Manager:
    """A systemd: it makes a directory with files for each scope, and removes it when it is told to end it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.units: dict[str, dict[str, object]] = {}
        self.ended: list[str] = []
        self.refuse = ""
        self.base = ""

    def __call__(self) -> "Manager":
        """It is always there."""
        return self

    def control_group(self) -> str:
        """Where its slices are."""
        return self.base or "/"

    def start(self, unit: str, properties: Sequence[Property], there: Callable[[], bool]) -> None:
        """Make the scope around its process."""
        assert not there()
        if self.refuse:
            raise SystemFailure(self.refuse)
        given = {name: value for name, _, value in properties}
        self.units[unit] = given
        cgroup = self.root / f"{self.base}{slices.path(given['Slice'])}".lstrip("/") / unit
        cgroup.mkdir(parents=True)
        for name in FILES:
            (cgroup / name).touch()
        (cgroup / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in given["PIDs"]))

    def wait(self, unit: str, there: Callable[[], bool]) -> None:
        """It has been made at once."""
        if not there():
            raise SystemFailure(f"{unit} has no such process")

    def change(self, unit: str, properties: Sequence[Property]) -> None:
        """Note the properties."""
        if self.refuse:
            raise SystemFailure(self.refuse)
        self.units[unit] |= {name: value for name, _, value in properties}

    def end(self, unit: str) -> None:
        """Remove its cgroup."""
        self.ended.append(unit)
        for directory in self.root.glob(f"**/{unit}"):
            for name in FILES:
                (directory / name).unlink()
            RMDIR(directory)


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Manager:
    (tmp_path / "root").mkdir()
    (tmp_path / "root/cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    (tmp_path / "booted").mkdir()
    monkeypatch.setattr(scopes, "_EMPTIED", 0.02)
    monkeypatch.setattr(bpf, "attach_device_program", lambda directory, program: None)
    monkeypatch.setattr(scopes, "Killings", lambda: Killings(str(tmp_path / "log")))
    return Manager(tmp_path / "root")


def found(manager: Manager, driver: str = "") -> Cgroups:
    """The cgroups of a host that this systemd runs."""
    root = manager.root
    return detection.detect(str(root), driver=driver, units=manager, booted=str(root.parent / "booted"))


def make(cgroups: Cgroups, limits: Limits = NOTHING, parent: str = "system.slice", pid: int = 4321) -> None:
    """Make the scope of the container x."""
    cgroups.begin("x", limits, parent, pid)
    cgroups.create("x", limits, parent, pid=pid)


def test_systemd_is_the_driver_where_it_runs_the_host(manager: Manager) -> None:
    assert found(manager).driver == "systemd"
    assert found(manager, "cgroupfs").driver == "cgroupfs"
    root = str(manager.root)
    assert detection.detect(root, units=manager, booted="/nonexistent").driver == "cgroupfs"
    assert detection.detect(root).driver == "cgroupfs"
    with pytest.raises(SystemFailure, match="the cgroup driver systemd needs a host that runs systemd"):
        detection.detect(root, driver="systemd", units=manager, booted="/nonexistent")


def test_a_scope_is_made_around_init_with_its_limits(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    programs: dict[str, bytes] = {}
    monkeypatch.setattr(bpf, "attach_device_program", programs.__setitem__)
    cgroups = found(manager)
    make(cgroups, Limits(memory=64 << 20, pids=7))
    given = manager.units[UNIT]
    assert given | {"PIDs": [4321], "Slice": "system.slice", "MemoryMax": 64 << 20, "TasksMax": 7} == given
    assert given | {"Delegate": True, "DefaultDependencies": False, "CollectMode": "inactive-or-failed"} == given
    directory = manager.root / "system.slice" / UNIT
    assert (directory / "memory.max").read_text() == str(64 << 20)
    assert programs == {str(directory): device_program.assemble(DEFAULT)}
    assert cgroups.path_text("x", "system.slice") == "/system.slice/engine-x.scope"
    assert cgroups.entries("x", "system.slice") == (f"{directory}/cgroup.procs",)


def test_only_a_slice_begins_with_a_process(manager: Manager) -> None:
    cgroups = found(manager)
    assert cgroups.begins_with_process("a-b.slice") and not cgroups.begins_with_process("/engine")
    assert not detection.detect(str(manager.root)).begins_with_process("a.slice")


def test_a_refusal_of_systemds_leaves_nothing(manager: Manager) -> None:
    cgroups = found(manager)
    manager.refuse = "it is out of range"
    with pytest.raises(SystemFailure, match="it is out of range"):
        make(cgroups)
    manager.refuse = ""
    cgroups.begin("x", Limits(), "system.slice", 4321)
    with pytest.raises(SystemFailure, match="no such process"):
        cgroups.create("x", Limits(), "system.slice", pid=99)
    assert manager.ended == [UNIT] and not (manager.root / "system.slice" / UNIT).exists()


def test_an_update_is_systemds_and_the_kernels(manager: Manager) -> None:
    cgroups = found(manager)
    before, after = Limits(memory=64 << 20, pids=7), Limits(memory=32 << 20, memory_swap=-1)
    make(cgroups, before)
    cgroups.update("x", after, "system.slice", before)
    given, directory = manager.units[UNIT], manager.root / "system.slice" / UNIT
    assert (given["MemoryMax"], given["MemorySwapMax"], given["TasksMax"]) == (32 << 20, UNLIMITED, UNLIMITED)
    assert [(directory / name).read_text() for name in ("memory.max", "memory.swap.max", "pids.max")] == [
        str(32 << 20),
        "max",
        "max",
    ]


def test_an_update_that_the_kernel_refuses_is_taken_back_with_systemd_too(manager: Manager) -> None:
    cgroups = found(manager)
    before = Limits(memory=64 << 20)
    make(cgroups, before)
    (manager.root / "system.slice" / UNIT / "pids.max").unlink()
    with pytest.raises(SystemFailure, match=r"pids\.max"):
        cgroups.update("x", Limits(memory=32 << 20, pids=5), "system.slice", before)
    assert manager.units[UNIT]["MemoryMax"] == 64 << 20
    manager.refuse = "no"
    with pytest.raises(SystemFailure, match="no"):
        cgroups.update("x", Limits(memory=1 << 20), "system.slice", before)


def test_systemd_removes_the_cgroup_of_an_empty_scope(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not removed from under systemd, and systemd is told only when it does not do it."""
    cgroups = found(manager)
    cgroups.remove("x", "system.slice")
    assert manager.ended == []
    make(cgroups)
    directory = manager.root / "system.slice" / UNIT
    (directory / "cgroup.procs").write_text("")
    monkeypatch.setattr(
        os, "rmdir", lambda path: pytest.fail(f"{path} is systemd's") if os.path.exists(path) else RMDIR(path)
    )
    cgroups.remove("x", "system.slice")
    assert manager.ended == [UNIT] and not directory.exists()


def test_with_either_driver_each_container_is_where_its_parent_says(manager: Manager) -> None:
    for driver in ("systemd", "cgroupfs"):
        cgroups = found(manager, driver)
        assert cgroups.path_text("x", "/engine") == "/engine/x"
        assert cgroups.path_text("x", "a.slice") == "/a.slice/engine-x.scope"
        make(cgroups, parent="a.slice")
        cgroups.update("x", Limits(memory=1 << 20), "a.slice")
        assert manager.units[UNIT]["MemoryMax"] == 1 << 20
        manager.end(UNIT)


def told(path: Path, *lines: str, priority: int = 3) -> None:
    """The kernel's log: a file in the place of the device, of which a read gives all that is there."""
    path.write_text("".join(f"{priority},{number},1,-;{line}\n" for number, line in enumerate(lines)))


@pytest.mark.parametrize(
    ("line", "priority", "killed"),
    [
        (KILL.format("/system.slice/engine-x.scope", "tail"), 6, True),
        (KILL.format("/system.slice/engine-x.scope/a/b", "tail"), 6, True),
        (KILL.format("/system.slice/engine-x.scope2", "tail"), 6, False),
        (KILL.format("/other", "tail"), 6, False),
        (KILL.format("/other", "task_memcg=/sys"), 6, False),
        (KILL.format("/system.slice/engine-x.scope", "tail"), 14, False),
        ("x oom-kill:constraint=X,task_memcg=/system.slice/engine-x.scope,task=", 6, False),
    ],
)
def test_of_a_cgroup_that_is_gone_the_kernels_log_tells(
    manager: Manager, tmp_path: Path, line: str, priority: int, killed: bool
) -> None:
    told(tmp_path / "log", line, priority=priority)
    cgroups = found(manager)
    assert cgroups.oom_killed("x", "system.slice") is killed
    assert not cgroups.oom_killed("x", "system.slice"), "it is told once"


def test_a_cgroup_that_is_there_tells_by_itself(manager: Manager, tmp_path: Path) -> None:
    cgroups = found(manager)
    make(cgroups)
    told(tmp_path / "log", KILL.format("/system.slice/engine-x.scope", "tail"))
    assert not cgroups.oom_killed("x", "system.slice")
    (manager.root / "system.slice" / UNIT / "memory.events").write_text("oom 1\noom_kill 1\n")
    assert cgroups.oom_killed("x", "system.slice")


def test_the_kill_of_an_earlier_run_does_not_count(manager: Manager, tmp_path: Path) -> None:
    log = tmp_path / "log"
    told(log, KILL.format("/system.slice/engine-x.scope", "tail"))
    killings = Killings(str(log))
    killings.forget("/system.slice/engine-x.scope")
    assert not killings.told("/system.slice/engine-x.scope")
    with open(log, "a") as file:
        file.write("6,9,1,-;" + KILL.format("/system.slice/engine-x.scope", "tail"))
    assert killings.told("/system.slice/engine-x.scope")


def test_without_the_kernels_log_nothing_is_known(tmp_path: Path) -> None:
    assert not Killings(str(tmp_path / "none")).told("/x")


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("-.slice", ""),
        ("system.slice", "/system.slice"),
        ("a-b-c.slice", "/a.slice/a-b.slice/a-b-c.slice"),
        ("memory-io.slice", "/_memory.slice/memory-io.slice"),
        ("_a.slice", "/__a.slice"),
    ],
)
def test_a_dash_in_a_slice_is_a_slice_within_a_slice(name: str, path: str) -> None:
    assert slices.is_slice(name) and slices.path(name) == path


@pytest.mark.parametrize("name", ["", ".slice", "/a.slice", "a--b.slice", "-a.slice", "a", "a.slice\n", "a@b.slice"])
def test_other_texts_are_no_slices(name: str) -> None:
    assert not slices.is_slice(name)


@pytest.mark.parametrize(
    ("limits", "bfq", "wanted"),
    [
        (Limits(), False, {}),
        (
            Limits(memory=64, memory_swap=96, memory_reservation=32),
            False,
            {"MemoryMax": 64, "MemorySwapMax": 32, "MemoryLow": 32},
        ),
        (
            Limits(memory=64, memory_swap=-1, pids=-1),
            False,
            {"MemoryMax": 64, "MemorySwapMax": UNLIMITED, "TasksMax": UNLIMITED},
        ),
        (Limits(cpu_shares=1024), False, {"CPUWeight": 39}),
        (Limits(nano_cpus=1_500_000_000), False, {"CPUQuotaPerSecUSec": 1_500_000, "CPUQuotaPeriodUSec": 100_000}),
        (Limits(nano_cpus=123_400_000), False, {"CPUQuotaPerSecUSec": 130_000, "CPUQuotaPeriodUSec": 100_000}),
        (
            Limits(cpu_quota=1000, cpu_period=50_000),
            False,
            {"CPUQuotaPerSecUSec": 20_000, "CPUQuotaPeriodUSec": 50_000},
        ),
        (Limits(cpu_period=50_000), False, {"CPUQuotaPerSecUSec": UNLIMITED, "CPUQuotaPeriodUSec": 50_000}),
        (Limits(cpuset_cpus="0-2,8", cpuset_mems="0"), False, {"AllowedCPUs": b"\7\1", "AllowedMemoryNodes": b"\1"}),
        (Limits(blkio_weight=10), False, {"IOWeight": 1}),
        (Limits(blkio_weight=1000), False, {"IOWeight": 10000}),
        (Limits(blkio_weight=50), True, {"IOWeight": 50}),
        (Limits(blkio_weight=1000), True, {"IOWeight": 10000}),
        (Limits(blkio_weight=300), True, {"IOWeight": 2300}),
        (Limits(blkio_read_bps=(("8:0", 5),)), False, {}),
    ],
)
def test_limits_are_properties(limits: Limits, bfq: bool, wanted: dict[str, object]) -> None:
    assert {name: value for name, _, value in properties.of_limits(limits, bfq=bfq)} == wanted


@pytest.mark.parametrize("text", ["", "a", "3-1", "-1", "0,", "9999", "1-2-3"])
def test_what_is_no_set_of_processors_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="no set of numbers"):
        properties.bits(text)


@pytest.fixture
def of_user(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> Manager:
    """The systemd of a user, to whom two controllers are delegated, as a daemon in a user namespace meets it."""
    manager.base = "/user.slice/user-1000.slice/user@1000.service"
    own = manager.root / manager.base.lstrip("/")
    own.mkdir(parents=True)
    (own / "cgroup.controllers").write_text("memory pids\n")
    (own / "cgroup.procs").touch()
    monkeypatch.setattr(userns, "is_hosts", lambda: False)
    monkeypatch.setattr(detection, "_writable", lambda root: False)
    return manager


def test_a_user_has_the_cgroups_of_the_users_own_systemd(of_user: Manager) -> None:
    cgroups = found(of_user)
    assert (cgroups.driver, cgroups.slice, cgroups.controllers) == ("systemd", "user.slice", {"memory", "pids"})
    make(cgroups, Limits(memory=64 << 20), cgroups.slice)
    directory = of_user.root / of_user.base.lstrip("/") / "user.slice" / UNIT
    assert (directory / "memory.max").read_text() == str(64 << 20)
    assert cgroups.path_text("x", "user.slice") == f"{of_user.base}/user.slice/{UNIT}"
    limits, warnings = cgroups.fitting(Limits(memory=64 << 20, cpu_shares=512))
    assert limits == Limits(memory=64 << 20) and len(warnings) == 1
    cgroups.leave()
    cgroups.remove("x", "user.slice")
    assert of_user.ended == [UNIT] and not directory.exists()


def test_a_user_without_a_systemd_that_answers_has_none(of_user: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent() -> str:
        raise SystemFailure("systemd does not answer")

    monkeypatch.setattr(of_user, "control_group", silent)
    assert found(of_user).version == "" and found(of_user, "cgroupfs").version == ""
    with pytest.raises(SystemFailure, match="the user's own systemd makes no cgroups: systemd does not answer"):
        found(of_user, "systemd")
