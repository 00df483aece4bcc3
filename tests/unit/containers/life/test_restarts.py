"""Restarting by policy: a try is for one end, and whatever goes wrong with it, the container is left in a state."""

import threading
import time

import pytest

from engine.daemon.containers import states
from engine.daemon.containers.life import restarts
from engine.daemon.containers.verbs import create, kill, start
from engine.errors import Conflict, SystemFailure
from tests.unit.containers.fakes import make_engine

SECONDS = 30


@pytest.fixture
def engine(tmp_path):
    return make_engine(tmp_path)


@pytest.fixture
def container(engine):
    """One that waits for its next run."""
    policy = {"Name": "always", "MaximumRetryCount": 0}
    made, _ = create.create(engine, "one", {"Image": "busybox", "HostConfig": {"RestartPolicy": policy}}, None)
    with made.changed:
        states.move(made, "running")
        made.exits += 1
        made.state.exit_code = made.last_exit = 3
        made.state.restart_count = 4
        states.move(made, "restarting")
    return made


def until(reached):
    end = time.monotonic() + SECONDS
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.005)


def runs(engine, container, *, by_hand):
    with container.changed:
        states.move(container, "running")


def test_it_runs_when_its_time_has_come(engine, container, monkeypatch):
    monkeypatch.setattr(start, "launch", runs)
    container.delay = 0.05
    restarts.schedule(engine, container)
    assert container.retry is not None
    until(lambda: container.snapshot().status == "running")


def test_a_try_for_another_end_does_nothing(engine, container, monkeypatch):
    monkeypatch.setattr(start, "launch", runs)
    restarts.again(engine, container, container.exits - 1)
    assert container.snapshot().status == "restarting"


@pytest.mark.parametrize("error", [SystemFailure("no room"), RuntimeError("a mistake of ours")])
def test_a_try_that_fails_is_the_last(engine, container, monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(start, "launch", fail)
    restarts.again(engine, container, container.exits)
    state = container.snapshot()
    assert (state.status, state.exit_code, state.error) == ("exited", 3, str(error))


def test_a_signal_ends_the_waiting_and_the_try_comes_too_late(engine, container, monkeypatch):
    monkeypatch.setattr(start, "launch", runs)
    tried, gate, over = [], threading.Event(), threading.Event()
    monkeypatch.setattr(restarts, "later", lambda *_: tried.append(1))
    engine.schedule.at(0, gate.wait, SECONDS)  # the schedule's thread is busy with it while the try falls due
    container.delay = 0
    restarts.schedule(engine, container)
    before = container.exits
    kill.kill(engine, container, 15)
    assert (container.snapshot().status, container.retry) == ("exited", None)
    restarts.again(engine, container, before)
    engine.schedule.at(0, over.set)
    gate.set()
    assert over.wait(SECONDS) and not tried
    assert container.snapshot().status == "exited"
    with pytest.raises(Conflict, match="is not running"):
        kill.kill(engine, container, 15)


def test_a_signal_that_comes_while_it_is_started_waits_for_the_start(engine, container, monkeypatch):
    begun, go_on = threading.Event(), threading.Event()

    def slowly(engine, container, *, by_hand):
        begun.set()
        assert go_on.wait(SECONDS)
        runs(engine, container, by_hand=by_hand)

    sent = []
    monkeypatch.setattr(start, "launch", slowly)
    monkeypatch.setattr(kill.signalling, "send_signal", lambda *signal: sent.append(signal[2]))
    first = threading.Thread(target=restarts.again, args=(engine, container, container.exits))
    first.start()
    assert begun.wait(SECONDS)
    second = threading.Thread(target=kill.kill, args=(engine, container, 15))
    second.start()
    assert not sent and second.is_alive()
    go_on.set()
    for thread in (first, second):
        thread.join(SECONDS)
    assert sent == [15] and container.held


@pytest.mark.parametrize(
    ("status", "by_hand", "policy", "wanted"),
    [
        ("restarting", False, "always", True),
        ("exited", True, "always", True),
        ("exited", True, "unless-stopped", False),
        ("exited", False, "unless-stopped", True),
        ("exited", False, "no", False),
        ("created", False, "always", False),
        ("dead", False, "always", False),
    ],
)
def test_what_a_daemon_starts_at_its_start(engine, container, status, by_hand, policy, wanted):
    container.state.status, container.state.stopped_by_hand = status, by_hand
    container.host_config = {**container.host_config, "RestartPolicy": {"Name": policy, "MaximumRetryCount": 0}}
    assert restarts.wanted_at_start(container) is wanted
    if wanted:
        state = container.state
        assert (state.status, state.restart_count, state.stopped_by_hand) == ("restarting", 0, False)
    else:
        assert container.state.status == status


def test_one_that_cannot_be_started_does_not_keep_the_others_waiting(engine, container, monkeypatch):
    other, _ = create.create(engine, "two", {"Image": "busybox"}, None)
    started = []

    def again(engine, each, exits):
        started.append(each)
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(restarts, "again", again)
    restarts.resume(engine, [container, other])
    assert started == [container, other]
