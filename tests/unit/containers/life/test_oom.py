"""Who hears of containers that run out of memory, on a version 2 tree of plain files."""

import time

import pytest

from engine.daemon.containers import saving
from engine.daemon.containers.life.oom import OomWatch
from engine.daemon.containers.record import State
from engine.daemon.runtime.events import Events
from tests.harness import parts

SECONDS = 30


class Cgroup:
    """One cgroup of files, and as much of an engine's cgroups as is asked for."""

    def __init__(self, directory):
        self.file = directory / "memory.events"
        self.kills = 0
        self.kill(0)

    def kill(self, kills):
        """What the kernel writes when it has killed so often."""
        self.kills = kills
        with open(self.file, "a+") as file:
            file.truncate(0)
            file.write(f"oom_kill {kills}\n")

    def directories(self, _id, _parent):
        """Where it is."""
        return (str(self.file.parent),)

    def oom_killed(self, _id, _parent):
        """Whether anything was killed."""
        return self.kills > 0


@pytest.fixture
def engine(tmp_path, monkeypatch):
    """An engine with one cgroup, and nothing to keep states in."""
    monkeypatch.setattr(saving, "save", lambda _engine, _container: True)
    return parts.Parts(events=Events(), cgroups=Cgroup(tmp_path), oom=OomWatch())


@pytest.fixture
def container():
    """One that runs with a limit."""
    return parts.container(host_config={"Memory": 8 << 20}, state=State(status="running"))


def told(engine):
    """The actions of all events."""
    return [event.action for event in parts.told(engine.events)]


def until_told(engine, count):
    """Wait for the thread that listens."""
    end = time.monotonic() + SECONDS
    while len(told(engine)) < count:
        assert time.monotonic() < end
        time.sleep(0.005)
    return told(engine)


def test_it_is_told_when_it_happens_and_only_then(engine, container):
    """With the state changed, and nothing more to tell at the end."""
    engine.oom.watch(engine, container)
    assert told(engine) == []
    engine.cgroups.kill(1)
    assert until_told(engine, 1) == ["oom"]
    assert container.state.oom_killed
    with container.changed:
        engine.oom.settle(engine, container, killed=True)
    assert told(engine) == ["oom"]


def test_each_time_is_told(engine, container):
    """A container can go on without what was killed in it."""
    engine.oom.watch(engine, container)
    for count in (1, 2, 3):
        engine.cgroups.kill(count)
        until_told(engine, count)
    assert told(engine) == ["oom"] * 3


def test_what_comes_with_the_end_is_told_by_the_end(engine, container):
    """The end was heard of before the alarm: it is told once all the same, and before whatever the end tells."""
    engine.oom.watch(engine, container)
    with container.changed:
        engine.cgroups.kill(1)
        engine.oom.settle(engine, container, killed=True)
        container.state.status = "exited"
    time.sleep(0.1)
    assert told(engine) == ["oom"] and container.state.oom_killed


def test_after_the_end_nothing_is_told(engine, container):
    """The cgroup goes, and whatever its files say then is no news."""
    engine.oom.watch(engine, container)
    with container.changed:
        engine.oom.settle(engine, container, killed=False)
    engine.cgroups.kill(1)
    engine.cgroups.file.unlink()
    time.sleep(0.1)
    assert told(engine) == [] and not container.state.oom_killed


def test_a_new_daemon_tells_what_the_last_one_could_not(engine, container):
    """And not what it had told."""
    engine.cgroups.kill(1)
    engine.oom.adopt(engine, container)
    assert told(engine) == ["oom"]
    engine.oom.adopt(engine, container)
    assert told(engine) == ["oom"]
    engine.cgroups.kill(2)
    assert until_told(engine, 2) == ["oom", "oom"]


def test_without_a_limit_nobody_watches(engine, container):
    """A daemon that finds such a container has nothing to do."""
    container.host_config["Memory"] = 0
    engine.oom.adopt(engine, container)
    assert not engine.oom._worker._there


def test_what_cannot_be_watched_is_logged(engine, container, caplog):
    """A start does not fail for it."""
    engine.cgroups.file.unlink()
    engine.oom.watch(engine, container)
    assert "reported only at its end" in caplog.text
    with container.changed:
        engine.oom.settle(engine, container, killed=True)
    assert told(engine) == ["oom"]
