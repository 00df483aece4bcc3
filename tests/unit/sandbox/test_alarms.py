"""Out-of-memory alarms: version 2 against a tree of plain files, version 1 against the kernel."""

import secrets
import subprocess
import sys
import threading

import pytest

from engine.sandbox.alarms import Alarms
from engine.sandbox.cgroups import detection
from engine.sandbox.spec import Limits

SECONDS = 30.0


def count(directory, kills):
    """What the kernel does to memory.events, in place as it does it."""
    with open(directory / "memory.events", "r+") as file:
        file.write(f"low 0\nhigh 0\nmax 7\noom {kills}\noom_kill {kills}\n")
        file.truncate()


@pytest.fixture
def unified(tmp_path):
    """Make a cgroup of version 2 out of files."""

    def make(name):
        directory = tmp_path / name
        directory.mkdir()
        (directory / "memory.events").write_text("")
        count(directory, 0)
        return directory

    return make


def test_a_kill_rings_for_its_own_cgroup(unified):
    """And only once for each time that the kernel has killed."""
    alarms, one, other = Alarms(), unified("one"), unified("other")
    for directory in (one, other):
        alarms.arm(directory.name, (str(directory),))
    count(other, 1)
    assert alarms.wait(SECONDS) == ["other"]
    count(one, 1)
    assert alarms.wait(SECONDS) == ["one"]
    count(one, 3)
    assert alarms.wait(SECONDS) == ["one"]
    assert alarms.wait(0.05) == []


def test_what_is_counted_beside_kills_does_not_ring(unified):
    """memory.events changes too when a limit is only touched."""
    alarms, one = Alarms(), unified("one")
    alarms.arm("one", (str(one),))
    count(one, 0)
    assert alarms.wait(0.2) == []


def test_kills_before_the_arming_do_not_ring(unified):
    """They belong to whoever watched before."""
    alarms, one = Alarms(), unified("one")
    count(one, 2)
    alarms.arm("one", (str(one),))
    count(one, 2)
    assert alarms.wait(0.2) == []
    count(one, 3)
    assert alarms.wait(SECONDS) == ["one"]


def test_a_disarmed_alarm_is_silent_and_another_can_have_its_name(unified, tmp_path):
    """A container that is started again has a new cgroup at the same place."""
    alarms, one = Alarms(), unified("one")
    alarms.arm("one", (str(one),))
    alarms.disarm("one")
    alarms.disarm("one")
    count(one, 1)
    assert alarms.wait(0.1) == []
    alarms.arm("one", (str(one),))
    alarms.arm("one", (str(one),))
    count(one, 2)
    assert alarms.wait(SECONDS) == ["one"]


def test_a_removed_cgroup_is_no_alarm(unified):
    """Its file goes, and the others' alarms stay."""
    alarms, one, other = Alarms(), unified("one"), unified("other")
    for directory in (one, other):
        alarms.arm(directory.name, (str(directory),))
    (one / "memory.events").unlink()
    assert alarms.wait(0.2) == []
    alarms.disarm("one")
    count(other, 1)
    assert alarms.wait(SECONDS) == ["other"]


def test_without_a_memory_controller_there_is_no_alarm(tmp_path):
    """Which is said, not passed over."""
    with pytest.raises(FileNotFoundError):
        Alarms().arm("x", (str(tmp_path),))


@pytest.mark.root
def test_version_1_rings_when_the_kernel_kills():
    """A real cgroup with a real limit, and a child that asks for more than it may have."""
    real = detection.detect()
    if real.version != "1" or "memory" not in real.controllers:
        pytest.skip("needs cgroup version 1 with its memory controller")
    parent, alarms = f"/engine-test-{secrets.token_hex(4)}", Alarms()
    real.create("greedy", Limits(memory=8 << 20, memory_swap=8 << 20), parent)
    try:
        alarms.arm("greedy", real.directories("greedy", parent))
        assert alarms.wait(0.05) == []
        greedy = threading.Thread(target=_run_greedy, args=(real.entries("greedy", parent),))
        greedy.start()
        assert alarms.wait(20.0) == ["greedy"]
        greedy.join(20)
        assert real.oom_killed("greedy", parent)
        alarms.disarm("greedy")
    finally:
        real.remove("greedy", parent)
        real.leave(parent)


def _run_greedy(entries):
    """A process that enters the cgroup and fills memory until it is killed."""
    script = "import sys\nfor path in sys.argv[1:]: open(path, 'w').write('0')\nx = bytearray(64 << 20)\n"
    subprocess.run([sys.executable, "-S", "-c", script, *entries], timeout=20)
