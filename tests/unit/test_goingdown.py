"""Whether the host goes down, asked of a made-up systemd."""

from pathlib import Path

import pytest

from engine.daemon import goingdown
from engine.daemon.runtime.units import Units
from tests.unit.runtime.systemd import Systemd


@pytest.mark.parametrize(("state", "down"), [("running", False), ("degraded", False), ("stopping", True)])
def test_systemd_knows(tmp_path: Path, state: str, down: bool) -> None:
    manager = Systemd(tmp_path / "private", state=state)
    try:
        units = Units(str(manager.path), str(tmp_path / "bus"), 30)
        assert goingdown.goes_down(units, str(tmp_path)) is down
        assert manager.calls == ["Get"]
    finally:
        manager.close()


def test_a_host_without_systemd_is_not_asked(tmp_path: Path) -> None:
    assert not goingdown.goes_down(
        Units(str(tmp_path / "none"), str(tmp_path / "bus"), 30), str(tmp_path / "no-systemd")
    )


def test_a_systemd_that_does_not_answer_leaves_the_containers_running(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    units = Units(str(tmp_path / "none"), str(tmp_path / "bus"), 0.1)
    assert not goingdown.goes_down(units, str(tmp_path))
    assert "the containers run on" in caplog.text
