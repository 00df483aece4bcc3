"""Fixtures of the image store's tests."""

import pytest

from tests.unit.images import fakeregistry, made


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
def told(store):
    """Every event of the store as (action, name or bytes), as it is told."""
    events = []
    store._publish = lambda kind, action, actor, attributes: events.append((action, [*attributes.values()][-1]))
    return events
