"""Networks of a data root of the test's own, on a host that reaches nothing."""

from collections.abc import Callable

import pytest

from engine.daemon.network import surroundings
from engine.daemon.network.networks import Networks
from tests.unit.network import made


@pytest.fixture
def around(monkeypatch) -> Callable[[surroundings.Surroundings], None]:
    """What the host reaches: nothing, until the test says something else."""

    def say(found: surroundings.Surroundings) -> None:
        monkeypatch.setattr(surroundings, "look", lambda own: found)

    say(surroundings.Surroundings())
    return say


@pytest.fixture
def opened(tmp_path, around) -> Callable[..., Networks]:
    """Open the networks of one data root, as each start of a daemon does: `opened(ipv6=True)`."""
    return lambda events=None, **changed: made.opened(f"{tmp_path}/db", events, **changed)


@pytest.fixture
def networks(opened) -> Networks:
    """The networks of an empty data root."""
    return opened()
