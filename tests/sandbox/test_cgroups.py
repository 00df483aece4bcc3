"""Cgroups for real, on whatever hierarchy this host has, below a parent of the test's own."""

import os
import secrets
from collections.abc import Generator
from pathlib import Path

import pytest

from engine.errors import SystemFailure
from engine.sandbox.cgroups import detection, hierarchy
from engine.sandbox.mounts import default_mounts
from engine.sandbox.spec import Limits
from tests.sandbox.harness import Bench

pytestmark = pytest.mark.root


ROOTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")  # a hybrid host has version 2 in the second place


@pytest.fixture
def parent() -> Generator[str]:
    """The name of a cgroup for this test alone, removed with all that is in it."""
    name = f"/engine-test-{secrets.token_hex(4)}"
    yield name
    for root in [root for root in ROOTS if os.path.isdir(root)]:
        found = detection.detect(root)
        for directory in found.directories("", name):
            for child in Path(directory).glob("*/"):
                found.remove(child.name, name)
            if os.path.isdir(directory):
                os.rmdir(directory)


def test_a_container_enters_by_itself_and_sees_only_its_own(bench: Bench, parent: str) -> None:
    found = detection.detect()
    found.create("one", Limits(memory=32 << 20, pids=20), parent)
    script = "cat /proc/self/cgroup; ls /sys/fs/cgroup/; grep cgroup /proc/mounts; touch /sys/fs/cgroup/x"
    result = bench.shell(script, cgroups=found.entries("one", parent), mounts=default_mounts())
    assert parent not in result.out
    mounted = [line.split() for line in result.out.splitlines() if " /sys/fs/cgroup" in line]
    assert mounted and all("ro" in row[3].split(",") for row in mounted)
    assert "Read-only file system" in result.err
    if found.version == "1":
        assert found.controllers <= set(result.out.split())
    found.remove("one", parent)
    assert not any(os.path.exists(directory) for directory in found.directories("one", parent))


def test_version_2_beside_version_1_is_entered_in_the_same_way(bench: Bench, parent: str) -> None:
    root = next(root for root in reversed(ROOTS) if os.path.isdir(root))
    found = detection.detect(root)
    found.create("two", Limits(), parent)
    result = bench.shell("grep ^0:: /proc/self/cgroup || true; echo in", cgroups=found.entries("two", parent))
    assert parent not in result.out and result.out.endswith("in\n")
    if found.version == "2":
        assert result.out == "0::/\nin\n"


def test_without_entries_the_view_is_of_where_the_process_is(bench: Bench) -> None:
    result = bench.shell("ls /sys/fs/cgroup", mounts=default_mounts())
    assert result.status == 0 and result.out


def test_the_memory_limit_kills_and_is_told(bench: Bench, parent: str) -> None:
    found = detection.detect()
    if "memory" not in found.features:
        pytest.skip("this host has no memory controller")
    limits, _ = found.fitting(Limits(memory=16 << 20, memory_swap=16 << 20))
    found.create("eater", limits, parent)
    assert not found.oom_killed("eater", parent)
    result = bench.shell("exec dd if=/dev/zero of=/dev/null bs=64M count=1", cgroups=found.entries("eater", parent))
    assert result.status == -9 and found.oom_killed("eater", parent)


def test_the_pids_limit_holds(bench: Bench, parent: str) -> None:
    found = detection.detect()
    if "pids" not in found.features:
        pytest.skip("this host has no pids controller")
    found.create("forks", Limits(pids=3), parent)
    script = "sleep 9 & sleep 9 & sleep 9 & sleep 9 & true"
    assert "can't fork" in bench.shell(script, cgroups=found.entries("forks", parent)).err


def test_devices_that_were_not_granted_cannot_be_used(bench: Bench, parent: str) -> None:
    found = detection.detect()
    if "devices" not in found.controllers:
        pytest.skip("this host has no devices controller")
    found.create("devices", Limits(), parent)
    script = "mknod /d b 254 0 && head -c1 /d; head -c1 /dev/zero | wc -c; mknod /z c 1 5; head -c1 /z | wc -c"
    result = bench.shell(script, cgroups=found.entries("devices", parent))
    assert "Operation not permitted" in result.err and result.out.split() == ["1", "1"]


def move(found: hierarchy.Cgroups, id: str, pid: int, parent: str) -> None:
    """Put a process of the test's into the cgroup."""
    for directory in found.directories(id, parent):
        Path(directory, "cgroup.procs").write_text(str(pid))


@pytest.mark.parametrize("root", [root for root in ROOTS if os.path.exists(f"{root}/cgroup.procs") or root == ROOTS[0]])
def test_a_process_is_moved_and_the_cgroup_goes_with_it(root: str, parent: str) -> None:
    found = detection.detect(root)
    found.create("moved", Limits(), parent)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    move(found, "moved", pid, parent)
    assert Path(found.directories("moved", parent)[0], "cgroup.procs").read_text() == f"{pid}\n"
    found.remove("moved", parent)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -9
    found.remove("moved", parent)
    os.close(reader)
    os.close(writer)


def test_a_limit_that_the_kernel_refuses_leaves_nothing_behind(parent: str) -> None:
    found = detection.detect()
    with pytest.raises(SystemFailure, match=r"cpuset\.cpus"):
        found.create("wrong", Limits(cpuset_cpus="4095"), parent)
    assert not any(os.path.exists(directory) for directory in found.directories("wrong", parent))


def test_the_parent_goes_when_nobody_is_in_it_and_comes_again(parent: str) -> None:
    found = detection.detect()
    for _ in range(2):
        found.create("one", Limits(), parent)
        found.leave(parent)
        assert all(os.path.isdir(directory) for directory in found.directories("one", parent))
        found.remove("one", parent)
        found.leave(parent)
        assert not any(os.path.exists(directory) for directory in found.directories("", parent))
    found.leave(parent)


def opened(found: hierarchy.Cgroups, id: str, parent: str, paths: tuple[str, ...]) -> list[bool]:
    """Which of these devices a process of the cgroup can open."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        for entry in found.entries(id, parent):
            Path(entry).write_text("0")
        for path in paths:
            try:
                os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
                os.write(writer, b"1")
            except PermissionError:
                os.write(writer, b"0")
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        data = file.read()
    os.waitpid(pid, 0)
    return [mark == ord("1") for mark in data]


@pytest.mark.parametrize("root", [root for root in ROOTS if os.path.exists(f"{root}/cgroup.procs") or root == ROOTS[0]])
def test_the_kernel_keeps_the_devices_of_the_rules_and_no_others(root: str, parent: str) -> None:
    """Version 1 by its files, version 2 by the program: the same answers."""
    found = detection.detect(root)
    if found.version == "1" and "devices" not in found.controllers:
        pytest.skip("this host has no devices controller")
    devices = ("/dev/null", "/dev/urandom", "/dev/kmsg", "/dev/fuse")
    found.create("usual", Limits(), parent)
    found.create("more", Limits(), parent, devices=("c 1:11 r",))
    found.create("most", Limits(), parent, devices=("a *:* rwm",))
    found.create("all", Limits(), parent, all_devices=True)
    assert opened(found, "usual", parent, devices) == [True, True, False, False]
    assert opened(found, "more", parent, devices) == [True, True, True, False]
    assert opened(found, "most", parent, devices) == [True] * 4
    assert opened(found, "all", parent, devices) == [True] * 4


@pytest.mark.parametrize("root", [root for root in ROOTS if os.path.exists(f"{root}/cgroup.procs") or root == ROOTS[0]])
def test_frozen_processes_stand_still_and_go_on(root: str, parent: str) -> None:
    """And a frozen cgroup can be removed: its processes die."""
    found = detection.detect(root)
    if found.version == "1" and "freezer" not in found.controllers:
        pytest.skip("this host has no freezer controller")
    found.create("frozen", Limits(), parent)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        while True:
            os.write(writer, b"x")
    os.close(writer)
    move(found, "frozen", pid, parent)
    assert os.read(reader, 1) == b"x"
    found.freeze("frozen", parent)
    os.set_blocking(reader, False)
    while _read(reader):
        pass
    assert _read(reader) is None, "nothing more comes"
    found.thaw("frozen", parent)
    os.set_blocking(reader, True)
    assert os.read(reader, 1) == b"x"
    found.freeze("frozen", parent)
    found.remove("frozen", parent)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -9
    os.close(reader)


def _read(reader: int) -> bytes | None:
    try:
        return os.read(reader, 1 << 16)
    except BlockingIOError:
        return None
