"""The endpoints of a container's life: what is told of a failure."""

import pytest

from engine.daemon.api.handlers.containers import life
from engine.daemon.api.request import Request
from engine.daemon.containers.roster import Roster
from engine.daemon.containers.verbs import restart as restarting
from engine.daemon.runtime.handshake import SilentMonitor, StartFailure
from engine.errors import Conflict, EngineError, NotBuilt, SystemFailure
from engine.protocols.http import Head
from engine.wire.schema import Failed
from tests.harness.parts import Parts, container


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (StartFailure(Failed("join", 0, "it has ended", 128)), SystemFailure),
        (SilentMonitor(linked=True), SystemFailure),
        (Conflict("it is paused"), Conflict),
        (NotBuilt("it is not built"), NotBuilt),
    ],
)
def test_a_restart_that_fails_says_why(
    monkeypatch: pytest.MonkeyPatch, failure: EngineError, kind: type[EngineError]
) -> None:
    def fails(*_: object) -> None:
        raise failure

    monkeypatch.setattr(restarting, "restart", fails)
    request = Request(Head("POST", "/containers/one/restart", "", 1, {}), None)  # its connection is asked for nothing
    request.parameters = {"id": "one"}
    with pytest.raises(kind) as told:
        life.restart(Parts(containers=Roster([container(name="one")])), request)
    assert str(told.value) == f"Cannot restart container one: {failure}"
