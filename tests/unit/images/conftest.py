"""Fixtures of the image store's tests."""

import pytest

from engine.daemon.images.registry.transport import Transport
from tests.unit.images import fakeregistry, made
from tests.unit.tar.ways import way  # noqa: F401


@pytest.fixture
def store(tmp_path):
    """An image store in a directory of its own."""
    return made.store(tmp_path / "root") if (tmp_path / "root").mkdir() is None else None


@pytest.fixture
def registry():
    """A registry in a thread."""
    with fakeregistry.serving() as running:
        yield running


@pytest.fixture
def sockets(monkeypatch):
    """The client's ends of all connections that are made to registries, each with all the time of the world."""
    made = []
    connect = Transport._connect

    def watched(transport, *where):
        connection = connect(transport, *where)
        connection.sock.settimeout(60)
        made.append(connection.sock)
        return connection

    monkeypatch.setattr(Transport, "_connect", watched)
    return made


@pytest.fixture
def told(store):
    """Every event of the store as (action, name or bytes), as it is told."""
    events = []
    store._publish = lambda kind, action, actor, attributes: events.append((action, [*attributes.values()][-1]))
    return events
