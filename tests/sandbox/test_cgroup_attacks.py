"""Attempts of a container with CAP_SYS_ADMIN, which can mount its own cgroups, to outlive what ends it.

It may make cgroups below its own as deep as it likes, move its processes there, and freeze itself: none of that may
keep a process or a cgroup of its alive, or hang a client.
"""

import glob
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.sandbox.cgroups import detection
from tests.harness.daemon import Daemon

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("busybox")]

ADMIN = {
    "NetworkMode": "none",
    "CapAdd": ["SYS_ADMIN"],
    "SecurityOpt": ["seccomp=unconfined", "apparmor=unconfined"],
}
FREEZER = "mkdir /cg; mount -t cgroup -o freezer x /cg || exit 9; cd /cg; "


@pytest.fixture
def admin(daemon: Daemon, container: Callable[..., str]) -> Callable[..., str]:
    """Run a script in a container that can mount its cgroups, until it has made /ready."""
    if detection.detect().version != "1":
        pytest.skip("a container mounts and freezes its own cgroups in version 1")

    def run(script: str, **host_config: object) -> str:
        one = container("sh", "-c", script, HostConfig={**ADMIN, **host_config})
        daemon.begin(one)
        return one

    return run


def left(container: str) -> list[str]:
    return glob.glob(f"/sys/fs/cgroup/**/{container}", recursive=True)


def frozen(container: str) -> bool:
    states = glob.glob(f"/sys/fs/cgroup/freezer/*/{container}/**/freezer.state", recursive=True)
    return any(Path(state).read_text().strip() == "FROZEN" for state in states)


def depth(place: str) -> int:
    """How many cgroups "deep" stand below each other in this one."""
    found = -1
    down = os.open(place, os.O_PATH)
    while down is not None:
        found += 1
        try:
            below = os.open("deep", os.O_PATH, dir_fd=down)
        except FileNotFoundError:
            below = None
        os.close(down)
        down = below
    return found


def wait_for(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.alone
@pytest.mark.parametrize(
    "script",
    [
        "echo FROZEN > freezer.state",
        # In a cgroup of its own making, which is not the one that a pause knows of.
        "mkdir -p a/b; echo 1 > a/b/cgroup.procs; echo FROZEN > a/freezer.state",
    ],
)
@pytest.mark.parametrize("way", ["kill", "stop?t=0", "remove"])
def test_who_freezes_itself_is_killed_all_the_same(
    daemon: Daemon, admin: Callable[..., str], script: str, way: str
) -> None:
    """Version 1 of the freezer keeps SIGKILL from whom it has frozen."""
    one = admin(f"{FREEZER}{script}; sleep 600")
    wait_for(lambda: frozen(one))
    before = time.monotonic()
    if way == "remove":
        answer = daemon.request("DELETE", f"/containers/{one}?force=1", timeout=30)
    else:
        answer = daemon.request("POST", f"/containers/{one}/{way}", timeout=30)
    assert answer.status == 204, answer
    assert time.monotonic() - before < 5
    wait_for(lambda: not left(one))


def test_cgroups_of_a_containers_own_go_with_it(daemon: Daemon, admin: Callable[..., str]) -> None:
    """However deep: the path of the deepest is longer than any call takes."""
    # In few, long strides: past the length of a path, the shell looks through every cgroup above it after each.
    down = "deep/" * 500
    deep = f"for stride in 1 2 3 4; do mkdir -p {down}; cd -P {down} || break; done"
    one = admin(f"{FREEZER}mkdir -p a/b c; {deep} 2>/dev/null; touch /ready; sleep 600")
    wait_for(lambda: daemon.request("HEAD", f"/containers/{one}/archive?path=/ready").status == 200)
    (place,) = [place for place in left(one) if Path(place, "a/b").is_dir()]
    assert depth(place) == 2000
    daemon.remove(one)
    wait_for(lambda: not left(one))


def test_a_process_in_a_cgroup_of_its_own_does_not_outlive_its_container(
    daemon: Daemon, admin: Callable[..., str]
) -> None:
    """Nor where no PID namespace ends with process 1."""
    inner = "mkdir -p a/b; sh -c 'echo $$ > a/b/cgroup.procs; exec sleep 4711' &"
    one = admin(f"{FREEZER}{inner} sleep 600", PidMode="host")
    wait_for(lambda: bool(_sleeper()))
    daemon.remove(one)
    wait_for(lambda: not _sleeper() and not left(one))


def _sleeper() -> list[str]:
    found = []
    for place in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            if Path(place).read_bytes() == b"sleep\x004711\x00":
                found.append(place)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found
