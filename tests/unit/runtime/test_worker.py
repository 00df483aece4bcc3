"""Lazily started threads: every one of the daemon's comes later where the host gave none at first."""

import importlib.util
import os
import queue
import socket
import threading
import time
from dataclasses import dataclass

import pytest

from engine.daemon.containers.life.oom import OomWatch
from engine.daemon.containers.stats import watching
from engine.daemon.runtime import worker
from engine.daemon.runtime.background import Turn, later
from engine.daemon.runtime.monitors import Monitors
from engine.daemon.runtime.schedule import Schedule
from engine.daemon.runtime.worker import Worker
from tests.harness.parts import Parts, container
from tests.harness.ready import ready
from tests.unit.runtime.refusing import without_threads

SECONDS = 30


@dataclass
class Cgroups:
    """Every container has one cgroup, and that is this directory."""

    directory: str

    def directories(self, container_id, parent):
        return (self.directory,)


def _oom(done, tmp_path):
    """An alarm of a cgroup of version 2, which is a file here."""
    watch = OomWatch()
    file = tmp_path / "memory.events"
    file.write_text("oom_kill 0\n")
    watch._tell = lambda *_: done.put("done")
    watch.watch(Parts(cgroups=Cgroups(str(tmp_path))), container())
    file.write_text("oom_kill 1\n")


def _stats(done, _tmp_path, monkeypatch):
    monkeypatch.setattr(watching._Sampler, "_sample", lambda _: done.put("done"))
    near, far = socket.socketpair()
    with near, far, watching.Watcher(container(), near.fileno(), chunked=False) as watcher:
        watching._Sampler().add(Parts(), watcher)


# What starts a thread of its own when it is first asked for, by name.
LAZY = {
    "schedule": lambda done, *_: Schedule().at(0, done.put, "done"),
    "background": lambda done, *_: later(done.put, "done"),
    "turn": lambda done, *_: Turn("turn").add(done.put, "done"),
    "oom": lambda done, tmp_path, _: _oom(done, tmp_path),
    "stats": _stats,
}


@pytest.mark.parametrize("name", LAZY)
def test_what_was_asked_for_while_there_was_no_thread_is_done_once_there_is_one(name, tmp_path, monkeypatch):
    """Nothing of it is asked for again: the thread that watches the links sees to it."""
    done = queue.SimpleQueue()
    with without_threads(monkeypatch) as asked:
        LAZY[name](done, tmp_path, monkeypatch)
        assert asked and done.empty()
    watching = Monitors(None, None)
    threading.Thread(target=watching.watch, daemon=True).start()
    assert done.get(timeout=SECONDS) == "done"


@pytest.fixture
def own():
    """The module once more, for one test alone: threads of other tests that watch see to what is owed too."""
    found = importlib.util.find_spec(worker.__name__)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    yield module
    os.close(module.bell())


def test_what_is_owed_is_begun_in_its_order_and_only_once(own, monkeypatch):
    done = queue.SimpleQueue()
    with without_threads(monkeypatch):
        assert not own.begin("a", lambda: done.put("a"))
        assert not own.begin("b", lambda: done.put("b"))
        assert ready(own.bell())
        own.settle()
        assert own.due() == own.RETRY_SECONDS
    own.settle()
    assert sorted(done.get(timeout=SECONDS) for _ in range(2)) == ["a", "b"]
    own.settle()
    assert own.due() is None and done.empty()
    assert not ready(own.bell())


def test_a_worker_that_has_left_comes_again():
    came = queue.SimpleQueue()
    one = Worker("one", lambda: (one.leave(), came.put(threading.current_thread())))
    threads = []
    for _ in range(2):
        one.wake()
        threads.append(came.get(timeout=SECONDS))
    assert threads[0] is not threads[1]


def test_a_worker_that_fails_comes_again():
    came = queue.SimpleQueue()

    def work():
        came.put("came")
        raise ValueError("a mistake of ours")

    one = Worker("one", work)
    one.wake()
    assert came.get(timeout=SECONDS) == "came"
    latest = time.monotonic() + SECONDS
    while came.empty() and time.monotonic() < latest:
        one.wake()
    assert came.get(timeout=SECONDS) == "came"


def test_a_worker_that_is_there_is_not_made_twice():
    gate, came = threading.Event(), queue.SimpleQueue()
    one = Worker("one", lambda: (came.put("came"), gate.wait(SECONDS), one.leave()))
    for _ in range(3):
        one.wake()
    assert came.get(timeout=SECONDS) == "came"
    gate.set()
    assert came.empty()
