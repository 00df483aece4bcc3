"""Removal: what a start, an end of its own and a full disk do to it."""

import contextlib
import os
import threading
import time

import pytest

from engine.daemon.containers import files, paths, states
from engine.daemon.containers.contents import sizes
from engine.daemon.containers.life import end
from engine.daemon.containers.verbs import create, kill, remove, start
from engine.daemon.runtime import signalling
from engine.daemon.tar.trees import remove_path
from engine.errors import Conflict, NotFound, SystemFailure
from engine.wire.schema import Exited, Started
from tests.unit.containers.fakes import make_engine

SECONDS = 30


class FullDatabase:
    """A database whose first `failures` transactions find no room."""

    def __init__(self, database, failures):
        self.database = database
        self.failures = failures

    @contextlib.contextmanager
    def transaction(self, durable=False, frees=False):
        if self.failures:
            self.failures -= 1
            raise SystemFailure("the database cannot be written: database or disk is full")
        with self.database.transaction(durable, frees) as connection:
            yield connection


@pytest.fixture
def engine(tmp_path):
    made = make_engine(tmp_path)
    made.images.release = lambda using: None
    return made


@pytest.fixture
def container(engine):
    made, _ = create.create(engine, "one", {"Image": "busybox"}, None)
    os.makedirs(where(engine, made).exec_dir)
    os.makedirs(where(engine, made).upper)
    return made


def where(engine, container):
    return paths.of(engine.settings.data_root, engine.settings.exec_root, container.id)


def run(container):
    with container.changed:
        container.state.pid, container.state.pid_start = os.getpid(), 1
        states.move(container, "running")


def finish(container):
    with container.changed:
        container.exits += 1
        states.move(container, "exited")


def test_what_a_start_made_run_meanwhile_is_killed_too(engine, container, monkeypatch):
    monkeypatch.setattr(signalling, "send_signal", lambda *_: finish(container))
    looked = threading.Event()
    snapshot = type(container).snapshot

    def watched(subject):
        try:
            return snapshot(subject)
        finally:
            looked.set()

    monkeypatch.setattr(type(container), "snapshot", watched)
    with container.operation:
        removal = threading.Thread(target=remove.remove, args=(engine, container, True, False))
        removal.start()
        assert looked.wait(SECONDS)
        run(container)
    removal.join(SECONDS)
    assert container.removed


def test_a_killed_container_that_removes_itself_is_no_conflict(engine, container, monkeypatch):
    def remove_itself():
        with contextlib.suppress(NotFound):  # the other one was faster
            remove.remove(engine, container, False, False)

    removal = threading.Thread(target=remove_itself)

    def send(*_):
        finish(container)
        removal.start()

    run(container)
    monkeypatch.setattr(signalling, "send_signal", send)
    remove.remove(engine, container, True, False)
    removal.join(SECONDS)
    assert container.removed


def test_what_does_not_die_is_not_removed(engine, container, monkeypatch):
    run(container)
    monkeypatch.setattr(kill, "KILLED_SECONDS", 0.01)
    monkeypatch.setattr(signalling, "send_signal", lambda *_: True)
    with pytest.raises(Conflict, match="could not kill container"):
        remove.remove(engine, container, True, False)


def test_on_a_full_disk_what_was_written_goes_first(engine, container):
    engine.database = FullDatabase(engine.database, 1)
    remove.remove(engine, container, False, False)
    assert container.removed


def test_a_removal_that_failed_can_be_tried_again(engine, container):
    engine.database = FullDatabase(engine.database, 2)
    with pytest.raises(SystemFailure):
        remove.remove(engine, container, False, False)
    assert container.snapshot().status == "dead"
    remove.remove(engine, container, False, False)
    assert container.removed


def test_an_end_on_a_full_disk_is_known_and_stays_told_by_the_exec_directory(engine, container):
    run(container)
    real, engine.database = engine.database, FullDatabase(engine.database, 1)
    end.ended(engine, container, Exited(3, 2, 1))
    assert (container.settled().status, container.settled().exit_code) == ("exited", 3)
    assert os.path.isdir(where(engine, container).exec_dir)
    engine.database = real
    remove.remove(engine, container, False, False)
    assert container.removed


def test_a_start_on_a_full_disk_runs(engine, container):
    engine.database = FullDatabase(engine.database, 1)
    start.record_start(engine, container, Started(pid=7, pid_start=8, started_ns=9))
    assert container.snapshot().running


@pytest.fixture
def home(engine, container):
    """The container's home, removed by a way that works before pytest tries its own."""
    home = where(engine, container).home
    yield home
    if os.path.exists(home):
        remove_path(home)


def dig(path, depth=3000):
    """Directories inside one another: deeper than recursion goes, and than a path may be long."""
    here = os.open(path, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)


def gone(path):
    end = time.monotonic() + SECONDS
    while os.path.exists(path) and time.monotonic() < end:
        time.sleep(0.01)  # the sweeper's thread tells nobody
    return not os.path.exists(path)


def test_a_container_that_dug_deep_is_removed(engine, container, home):
    dig(where(engine, container).upper)
    remove.remove(engine, container, force=False, volumes=False)
    assert gone(home)


def test_what_a_container_dug_deep_does_not_keep_the_next_daemon_from_starting(engine, container, home):
    dig(where(engine, container).upper)
    files.sweep(engine.settings.data_root, lambda name: False)
    assert not os.path.exists(home)


def test_a_home_that_cannot_be_removed_does_not_keep_the_next_daemon_from_starting(engine, container, caplog):
    stray = os.path.join(engine.settings.data_root, "containers", "a-file")
    with open(stray, "w"):
        files.sweep(engine.settings.data_root, lambda name: name == container.id)
    assert "the next start tries again" in caplog.text


def test_sizes_are_told_of_a_container_that_dug_deep(engine, container, home):
    upper = where(engine, container).upper
    before, _ = sizes.measure(container, "/nowhere", upper, "overlayfs")
    dig(upper)
    after, _ = sizes.measure(container, "/nowhere", upper, "overlayfs")
    assert after > before


def test_sizes_do_not_count_what_a_link_leads_to(engine, container, tmp_path):
    (tmp_path / "host").mkdir()
    (tmp_path / "host/large").write_bytes(bytes(1 << 20))
    upper = where(engine, container).upper
    os.symlink(tmp_path / "host", f"{upper}/link")
    own, _ = sizes.measure(container, "/nowhere", upper, "overlayfs")
    assert own < 1 << 20
