"""A spawner that has died is followed by one of the same version, and by no other."""

import subprocess
import sys

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

    def make(first: str, next_one: str) -> Spawner:
        def execute(command, **options):
            fresh = [sys.executable, "-c", FRESH, module.origin.root(), command[4], next_one]
            made.append(popen(fresh, **options))
            return made[-1]

        monkeypatch.setattr(subprocess, "Popen", execute)
        ours, theirs = Channel.pair()
        with theirs:
            if first:
                theirs.send(Spawns(first))
        made.append(ours)
        return Spawner(ours, "auto", "/nowhere")

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
