"""A spawner that has died is followed by one of the same version, and by no other."""

import os
import subprocess
import sys
import threading

import pytest

from engine.daemon.runtime import spawner as module
from engine.daemon.runtime.spawner import Spawner
from engine.errors import Unavailable
from engine.wire.channel import Channel
from engine.wire.schema import BeResolver, Spawns

# What is executed in the place of a spawner: it says its version, and what it is asked for goes nowhere.
FRESH = """
import sys
sys.path[:0] = sys.argv[1:2]
from engine.wire.channel import Channel
from engine.wire.schema import Spawns
link = Channel.adopt(int(sys.argv[2]))
if sys.argv[3]:
    link.send(Spawns(sys.argv[3]))
    link.receive()
"""


@pytest.fixture
def dying(monkeypatch):
    """A function that makes a spawner whose first process has died, and what follows it is of this version."""
    made = []
    popen = subprocess.Popen

    def make(first: str, next_one: str, pid: int = 0) -> Spawner:
        def execute(command, **options):
            fresh = [sys.executable, "-c", FRESH, module.origin.root(), command[-3], next_one]
            made.append(popen(fresh, **options))
            return made[-1]

        monkeypatch.setattr(subprocess, "Popen", execute)
        ours, theirs = Channel.pair()
        with theirs:
            if first:
                theirs.send(Spawns(first))
        made.append(ours)
        return Spawner(ours, pid, "auto", "/nowhere")

    make.popen = popen
    yield make
    for each in made:
        if isinstance(each, Channel):
            each.close()
        else:
            assert each.wait(20) == 0, "it does not end with its link"


def ask(spawner: Spawner) -> None:
    spawner.send(BeResolver("/nowhere"), [], ordinary=False)


@pytest.mark.parametrize("first", ["1", ""])
def test_the_next_spawner_is_of_the_same_version(dying, first):
    """Or of any, where the first had no time to say its own."""
    spawner = dying(first, "1")
    ask(spawner)
    spawner._channel.close()


@pytest.mark.parametrize(
    ("fresh", "text"), [("2", "of another version than this daemon"), ("", "did not report its version")]
)
def test_a_spawner_of_another_version_is_asked_nothing(dying, fresh, text):
    spawner = dying("1", fresh)
    for _ in range(2):
        with pytest.raises(Unavailable, match=text):
            ask(spawner)


def ended(*words: str) -> subprocess.Popen[bytes]:
    """A child of this process that has ended, and whose status nobody has taken."""
    child = subprocess.Popen(words)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    return child


def test_a_restart_takes_the_status_of_no_other_child(dying):
    """Each of two failures, which ended before the spawner and after it, is told to its owner."""
    failing = [ended("sh", "-c", "exit 3")]
    first = os.posix_spawnp("true", ["true"], {})
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
    failing.append(ended("sh", "-c", "kill -9 $$"))
    spawner = dying("1", "1", first)
    ask(spawner)
    spawner._channel.close()
    assert [each.wait() for each in failing] == [3, -9]
    with pytest.raises(ChildProcessError):
        os.waitpid(first, os.WNOHANG)


def test_children_that_fail_beside_dying_spawners(dying):
    """While spawners are followed by others, no child that fails is taken for one that did not."""
    popen, statuses = dying.popen, list[int]()
    over = threading.Event()

    def fail() -> None:
        while not over.is_set():
            statuses.append(popen(["sh", "-c", "exit 7"]).wait())

    threads = [threading.Thread(target=fail) for _ in range(2)]
    for each in threads:
        each.start()
    try:
        for _ in range(5):
            spawner = dying("1", "1")
            ask(spawner)
            spawner._channel.close()
    finally:
        over.set()
        for each in threads:
            each.join()
    assert statuses
    assert set(statuses) == {7}
