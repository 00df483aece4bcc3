"""What an inspect of an exec shows while other threads begin it and hear of its end."""

import threading

import pytest

from engine.daemon.containers.exec import verbs
from engine.daemon.containers.exec.known import Command, Exec, Execs
from engine.daemon.runtime.events import Events
from engine.wire.schema import Exited, Started
from tests.harness import parts
from tests.harness.parts import Parts

PATIENCE_S = 20


class Links:
    """The links to the monitors of execs: that of the one exec has told its end before it is watched."""

    def __init__(self) -> None:
        self.heard = None
        self.asked = threading.Event()

    def keep(self, exec_id, heard):
        """Watch the link, once another thread has had the time to look at the exec."""
        self.asked.wait(0.2)
        self.heard = heard

    def look(self, exec_id):
        """Hear what was told, if the link is watched."""
        self.asked.set()
        if self.heard is None:
            return True
        self.heard(None, Exited(7, 2, 1))
        return False


@pytest.fixture
def engine(monkeypatch):
    made = Parts(execs=Execs(), events=Events(), monitors=Links())
    monkeypatch.setattr(verbs, "_launch", lambda *_: Started(5, 6, 1))
    return made


def test_an_end_that_was_told_is_seen_by_whoever_sees_that_the_exec_runs(engine) -> None:
    one = Exec("1" * 64, parts.container(), Command(("true",)), status="starting")
    engine.execs.add(one)
    shown: list = []
    looking = threading.Thread(target=lambda: shown.append(verbs.inspect(engine, one)))
    looking.start()
    verbs._run(engine, one, None, [])
    looking.join(PATIENCE_S)
    assert [(each["Running"], each["ExitCode"]) for each in shown] == [(False, 7)]
