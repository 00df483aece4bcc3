"""Whether a process that is to be a user's daemon has systemd take it, against a systemd that is none."""

from pathlib import Path

import pytest

from engine.errors import SystemFailure
from engine.rootless import delegated

BASE = "/user.slice/user-1000.slice/user@1000.service"


class Manager:
    """A user's systemd: it moves the process by writing what the process reads."""

    def __init__(self, own: Path) -> None:
        self.own = own
        self.units: dict[str, dict[str, object]] = {}

    def control_group(self) -> str:
        """Where its slices are."""
        return BASE

    def start(self, unit, properties, there) -> None:
        """Take the process."""
        assert not there()
        self.units[unit] = {name: value for name, _, value in properties}
        self.own.write_text(f"0::{BASE}/app.slice/{unit}\n")

    def wait(self, unit, there) -> None:
        """It was taken at once."""
        assert there()


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Manager:
    made = Manager(tmp_path / "cgroup")
    monkeypatch.setattr(delegated, "_OWN", str(made.own))
    monkeypatch.setattr(delegated, "BOOTED", str(tmp_path))
    monkeypatch.setattr(delegated.units, "ours", lambda: made)
    monkeypatch.setattr(delegated.os, "getpid", lambda: 7)
    return made


def test_one_of_a_login_is_taken(manager: Manager) -> None:
    manager.own.write_text("0::/user.slice/user-1000.slice/session-3.scope\n")
    assert delegated.come() == ""
    assert manager.units["engine-daemon-7.scope"]["PIDs"] == [7]
    assert delegated.come() == "" and len(manager.units) == 1


@pytest.mark.parametrize(
    "own", [f"0::{BASE}/app.slice/engine.service\n", "1:pids:/x\n0::/user.slice\n"], ids=["its own", "version 1"]
)
def test_another_is_not(manager: Manager, own: str) -> None:
    manager.own.write_text(own)
    assert delegated.come() == "" and manager.units == {}


def test_a_name_that_begins_alike_is_another_cgroup(manager: Manager) -> None:
    manager.own.write_text(f"0::{BASE}-of-others/x\n")
    assert delegated.come() == "" and manager.units


def test_a_refusal_is_told(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise SystemFailure("systemd could not start it: no")

    manager.own.write_text("0::/user.slice/user-1000.slice/session-3.scope\n")
    monkeypatch.setattr(manager, "start", refuse)
    assert delegated.come() == "systemd could not start it: no"


def test_a_host_without_systemd_is_not_asked(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegated, "BOOTED", "/nonexistent")
    assert delegated.come() == ""
