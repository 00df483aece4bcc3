"""Copies of images for a container: made by one thread, for whoever asks, and gone with a container that is gone."""

import os
import threading

import pytest

from engine.daemon.containers import paths
from engine.daemon.containers.security import copied, specify
from engine.daemon.containers.verbs import create, remove
from engine.errors import NotFound
from tests.unit.containers.fakes import make_engine

SECONDS = 30


@pytest.fixture
def engine(tmp_path):
    made = make_engine(tmp_path)
    made.storage = "copy"
    made.images.release = lambda _used_by: None
    return made


@pytest.fixture
def container(engine):
    return create.create(engine, "one", {"Image": "busybox"}, None)[0]


class Copying:
    """`make_root`, which goes on until it is let."""

    def __init__(self, monkeypatch):
        self.begun, self.gate, self.count = threading.Event(), threading.Event(), 0
        monkeypatch.setattr(specify, "make_root", self)

    def __call__(self, _engine, _container, where):
        self.count += 1
        self.begun.set()
        assert self.gate.wait(SECONDS)
        os.makedirs(where.upper)


def begin(engine, container):
    """A thread that prepares, and what it raised."""
    failures = []

    def work():
        try:
            copied.prepare(engine, container)
        except NotFound as error:
            failures.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread, failures


def test_the_lock_is_free_while_it_is_copied_and_it_is_copied_once(engine, container, monkeypatch):
    copying = Copying(monkeypatch)
    threads = [begin(engine, container)[0] for _ in range(2)]
    assert copying.begun.wait(SECONDS)
    assert container.operation.acquire(timeout=SECONDS)
    container.operation.release()
    copying.gate.set()
    for thread in threads:
        thread.join(SECONDS)
    assert copying.count == 1 and not container.preparing


def test_what_was_copied_for_a_container_that_is_no_more_goes(engine, container, monkeypatch):
    copying = Copying(monkeypatch)
    thread, failures = begin(engine, container)
    assert copying.begun.wait(SECONDS)
    remove.remove(engine, container, force=False, volumes=False)
    copying.gate.set()
    thread.join(SECONDS)
    assert [type(each) for each in failures] == [NotFound]
    where = paths.of(engine.settings.data_root, engine.settings.exec_root, container.id)
    assert not os.path.exists(where.home)


def test_the_removal_of_the_container_may_be_at_the_same_tree(engine, container, monkeypatch):
    """What it takes away first is not there for this one, which goes on with the rest."""
    real, tries = copied.remove_path, []

    def beside(path):
        tries.append(path)
        if len(tries) == 1:
            raise FileNotFoundError(path)
        real(path)

    monkeypatch.setattr(copied, "remove_path", beside)
    # The other one has not come to it yet.
    monkeypatch.setattr(remove, "_give_back", lambda *_: None)
    copying = Copying(monkeypatch)
    thread, _ = begin(engine, container)
    assert copying.begun.wait(SECONDS)
    remove.remove(engine, container, force=False, volumes=False)
    copying.gate.set()
    thread.join(SECONDS)
    where = paths.of(engine.settings.data_root, engine.settings.exec_root, container.id)
    assert len(tries) == 2 and not os.path.exists(where.home)


def test_where_there_are_overlays_nothing_is_copied(engine, container, monkeypatch):
    copying = Copying(monkeypatch)
    engine.storage = "overlayfs"
    copied.prepare(engine, container)
    assert copying.count == 0
