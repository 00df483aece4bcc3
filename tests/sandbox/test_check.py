"""`engine check` on real hosts: this one, and namespaces in which something is missing; it changes none of them."""

import contextlib
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from engine.check import main
from tests.harness.fixtures import World
from tests.harness.namespaces import Namespaces

PROJECT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.root


def check(machine: Namespaces, *words: str, prefix: Sequence[str] = ()) -> tuple[int, dict[str, dict]]:
    """Run it in these namespaces: its exit status, and the rows by their names."""
    command = [*prefix, sys.executable, "-m", "engine", "check", "--json", "--config-file", "/dev/null", *words]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    found = subprocess.run(machine.command(command), env=environment, capture_output=True, text=True, timeout=600)
    assert not found.stderr, found.stderr
    told = json.loads(found.stdout)
    assert told["ready"] is (found.returncode == 0)
    return found.returncode, {each["name"]: each for each in told["checks"]}


@contextlib.contextmanager
def tmpfs(machine: Namespaces, options: str, *places: str) -> Iterator[None]:
    """Mount a tmpfs with these options in each of the places there."""
    for place in places:
        subprocess.run(machine.command(["mount", "-t", "tmpfs", "-o", options, "none", place]), check=True)
    yield
    for place in places:
        subprocess.run(machine.command(["umount", place]), check=True)


def cgroups() -> set[str]:
    """All directories of cgroups, three levels deep."""
    return {str(path) for depth in ("*", "*/*", "*/*/*") for path in Path("/sys/fs/cgroup").glob(depth)}


def test_a_host_that_runs_the_tests_is_ready_and_stays_as_it_is(world: World, tmp_path: Path) -> None:
    machine = world.machine()
    before = machine.links(), machine.mounts()
    status, rows = check(machine, "--data-root", str(tmp_path / "data"), "--exec-root", str(tmp_path / "exec"))
    assert status == 0, [row for row in rows.values() if row["state"] != "ok"]
    assert not [row for row in rows.values() if row["state"] == "unknown"]
    assert (machine.links(), machine.mounts()) == before
    assert list(tmp_path.iterdir()) == []
    assert not [path for path in cgroups() if "engine-check" in path]


def test_without_cgroups_it_says_what_follows(world: World) -> None:
    machine = world.machine()
    subprocess.run(machine.command(["umount", "-R", "/sys/fs/cgroup"]), check=True)
    status, rows = check(machine)
    assert (status, rows["cgroups"]["state"]) == (1, "missing")
    assert rows["cgroups"]["mend"] == "mount -t cgroup2 none /sys/fs/cgroup"
    assert {rows[name]["state"] for name in ("memory limit", "freezer", "guard of devices")} == {"missing"}


def test_directories_that_cannot_be_written_are_named(world: World, tmp_path: Path) -> None:
    machine = world.machine()
    places = ("--data-root", f"{tmp_path}/d", "--exec-root", f"{tmp_path}/e", "--host", f"unix://{tmp_path}/s")
    with tmpfs(machine, "ro", str(tmp_path)):
        status, rows = check(machine, *places)
    assert status == 1
    for name in ("data root", "exec root", "socket's directory"):
        assert (rows[name]["state"], "Read-only file system" in rows[name]["found"]) == ("missing", True), rows[name]
    assert rows["overlay"]["state"] == "missing"


def test_a_tmpfs_is_told_to_be_lost_and_a_full_one_is_not_enough(world: World, tmp_path: Path) -> None:
    machine = world.machine()
    with tmpfs(machine, "size=4m", str(tmp_path)):
        status, rows = check(machine, "--data-root", f"{tmp_path}/data")
    assert status == 1 and "nothing there outlives a reboot" in rows["data root"]["found"]


def test_without_rights_to_mount_or_to_make_links_it_says_so(world: World) -> None:
    bounds = "--bounding-set=-sys_admin,-net_admin"
    status, rows = check(world.machine(), prefix=("setpriv", bounds, "--inh-caps=-all"))
    assert status == 1
    assert "CAP_SYS_ADMIN" in rows["root"]["found"]
    assert {rows[name]["state"] for name in ("namespaces", "overlay", "bridge and veth", "nf_tables")} == {"missing"}


def test_another_user_than_root_gets_rows_too(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.touch()
    b"x".decode("utf-8-sig")  # loaded now: that user may not read this Python's modules where they belong to root
    child = os.fork()
    if child == 0:
        try:
            sys.stdout = open(out, "w", buffering=1)  # noqa: SIM115  (this process ends with it)
            os.setresuid(65534, 65534, 65534)
            os._exit(main.main(["--json", "--config-file", "/dev/null"]))
        except BaseException:
            traceback.print_exc(file=sys.stdout)
        finally:
            os._exit(99)
    _, ended = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(ended) == 1, out.read_text()
    rows = {each["name"]: each for each in json.loads(out.read_text())["checks"]}
    assert rows["root"]["state"] == "missing" and "user 65534" in rows["root"]["found"]
