"""The endpoints of a container's life: what is told of a failure."""

from types import SimpleNamespace

import pytest

from engine.daemon.api.handlers.containers import life
from engine.daemon.containers.verbs import restart as restarting
from engine.daemon.runtime.handshake import SilentMonitor, StartFailure
from engine.errors import Conflict, EngineError, SystemFailure
from engine.wire.schema import Failed


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (StartFailure(Failed("join", 0, "it has ended", 128)), SystemFailure),
        (SilentMonitor(linked=True), SystemFailure),
        (Conflict("it is paused"), Conflict),
    ],
)
def test_a_restart_that_fails_says_why(
    monkeypatch: pytest.MonkeyPatch, failure: EngineError, kind: type[EngineError]
) -> None:
    def fails(*_: object) -> None:
        raise failure

    monkeypatch.setattr(restarting, "restart", fails)
    engine = SimpleNamespace(containers=SimpleNamespace(find=lambda _: None))
    query = SimpleNamespace(number=lambda _: None, text=lambda _: "")
    with pytest.raises(kind) as told:
        life.restart(engine, SimpleNamespace(query=query, parameters={"id": "one"}))
    assert str(told.value) == f"Cannot restart container one: {failure}"
