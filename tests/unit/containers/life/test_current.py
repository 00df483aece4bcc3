"""A request waits for an end that a monitor has told, and for nothing else: not for what has no monitor."""

import threading
import time

import pytest

from engine.daemon.containers import states
from engine.daemon.containers.life import current
from engine.daemon.containers.roster import Roster
from engine.daemon.runtime.monitors import Monitors
from engine.errors import NotFound
from engine.wire.channel import Channel
from engine.wire.schema import Detached, Exited
from tests.harness.listening import until
from tests.harness.parts import container
from tests.unit.containers.fakes import make_engine

SECONDS = 20


class Told:
    """An engine with one container that runs, and the test's end of the link to its monitor."""

    def __init__(self, root, monkeypatch):
        monkeypatch.setattr(current, "_SECONDS", SECONDS)
        self.engine = make_engine(root)
        self.engine.monitors = Monitors(None, self._end, lambda _: None)
        self.gate, self.failing = threading.Event(), False
        self.one = container()
        self.one.state.status = "running"
        self.engine.containers = Roster([self.one])
        self.link, self.monitor = Channel.pair()
        self.engine.monitors._have(self.one.id, self.link)

    def _end(self, name, exited):
        """What a watching thread does, as `end.record`, once the test allows it."""
        assert self.gate.wait(3 * SECONDS)
        if self.failing:
            raise OSError("no room")
        with self.one.changed:
            self.one.state.exit_code = exited.exit_code
            self.one.exits += 1
            states.move(self.one, "exited")

    def watch(self):
        self.engine.monitors.keep(self.one.id)
        threading.Thread(target=self.engine.monitors.watch, daemon=True).start()

    def asking(self, ask):
        """A thread that asks, and what it is shown then."""
        shown = []
        thread = threading.Thread(target=lambda: (ask(), shown.append(self.one.snapshot().status)), daemon=True)
        thread.start()
        return thread, shown


@pytest.fixture
def at(tmp_path, monkeypatch):
    made = Told(tmp_path, monkeypatch)
    yield made
    made.gate.set()
    made.monitor.close()


def took(ask):
    begun = time.monotonic()
    ask()
    return time.monotonic() - begun


@pytest.mark.parametrize("which", ["one", "all"])
@pytest.mark.parametrize("before", [(), (Detached(),)], ids=["alone", "after another word"])
@pytest.mark.parametrize("taken", [False, True], ids=["unread", "taken"])
def test_an_end_that_was_told_is_waited_for(at, which, before, taken):
    for message in (*before, Exited(3, 10)):
        at.monitor.send(message)
    if taken:
        at.watch()
        until(lambda: at.engine.monitors._ending)
    else:
        at.engine.monitors.keep(at.one.id)
    find = (lambda: current.find(at.engine, "one")) if which == "one" else (lambda: current.bring_all(at.engine))
    thread, shown = at.asking(find)
    time.sleep(0.05)
    assert shown == []
    at.gate.set()
    if not taken:
        threading.Thread(target=at.engine.monitors.watch, daemon=True).start()
    thread.join(SECONDS / 2)
    assert shown == ["exited"]


@pytest.mark.parametrize("kept", [False, True])
def test_what_runs_is_not_waited_for(at, kept):
    if kept:
        at.watch()
    at.monitor.send(Detached())
    assert took(lambda: current.find(at.engine, "one")) < SECONDS / 2
    assert took(lambda: current.bring_all(at.engine)) < SECONDS / 2
    assert at.one.snapshot().status == "running"


def test_what_waits_for_its_next_run_is_not_waited_for(at):
    """It counts as running, and has no monitor: its next run may never end."""
    at.engine.monitors.drop(at.one.id)
    at.one.state.status = "restarting"
    assert took(lambda: current.find(at.engine, "one")) < SECONDS / 2


def test_what_has_a_silent_monitor_is_not_waited_for(at):
    """Of an earlier daemon: it has not answered, so there is no link."""
    at.engine.monitors.drop(at.one.id)
    assert took(lambda: current.find(at.engine, "one")) < SECONDS / 2


def test_an_end_that_could_not_be_recorded_is_not_waited_for_again(at, caplog):
    at.failing = True
    at.gate.set()
    at.watch()
    at.monitor.send(Exited(3, 10))
    until(lambda: "was not recorded" in caplog.text and not at.engine.monitors.ends(at.one.id))
    assert took(lambda: current.find(at.engine, "one")) < SECONDS / 2


def test_an_end_that_takes_too_long_holds_up_no_request(at, monkeypatch):
    monkeypatch.setattr(current, "_SECONDS", 0.1)
    at.watch()
    at.monitor.send(Exited(3, 10))
    assert current.find(at.engine, "one").snapshot().status == "running"
    current.bring_all(at.engine)


def test_what_is_not_there_is_not_found(at):
    with pytest.raises(NotFound):
        current.find(at.engine, "two")
