"""Pausing: what a client is told when the container ends meanwhile."""

import pytest

from engine.daemon.containers.verbs import pause
from engine.errors import Conflict, SystemFailure
from engine.sandbox.cgroups.hierarchy import Gone
from tests.harness.parts import Parts, container


class Cgroups:
    """Cgroups that nobody can freeze."""

    def __init__(self, failure: SystemFailure) -> None:
        self._failure = failure

    def freeze(self, *of: str) -> None:
        raise self._failure


@pytest.mark.parametrize(
    ("failure", "kind", "words"),
    [
        (Gone("cgroup engine-1.scope: no such file or directory"), Conflict, "is not running"),
        (SystemFailure("cgroup engine-1.scope: unable to freeze"), SystemFailure, "cannot pause container"),
    ],
)
def test_a_container_whose_cgroup_is_gone_does_not_run(failure: SystemFailure, kind: type, words: str) -> None:
    one = container()
    one.state.status = "running"
    with pytest.raises(kind, match=words):
        pause.pause(Parts(cgroups=Cgroups(failure)), one)
    assert one.state.status == "running"
