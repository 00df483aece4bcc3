"""Requests to systemd, over its own socket and over a bus, while it is well, away, slow, or of another mind."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.daemon.runtime import units
from engine.daemon.runtime.units import Units
from engine.errors import SystemFailure
from tests.unit.runtime.systemd import Systemd

UNIT = "engine-1.scope"
PROPERTIES = [("PIDs", "au", [7]), ("Delegate", "b", True), ("Slice", "s", "a.slice"), ("AllowedCPUs", "ay", b"\3")]
SHOWN = {"PIDs": ("au", [7]), "Delegate": ("b", True), "Slice": ("s", "a.slice"), "AllowedCPUs": ("ay", b"\3")}


def never() -> bool:
    """The unit is not there."""
    return False


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Systemd]]:
    made: list[Systemd] = []

    def systemd(name: str = "private", **how: object) -> Systemd:
        made.append(Systemd(tmp_path / name, **how))
        return made[-1]

    yield systemd
    for each in made:
        each.close()


def asked(path: Path, seconds: float = 20.0) -> Units:
    """Units of the systemd with this directory."""
    return Units(str(path / "private"), str(path / "bus"), seconds)


def test_a_unit_is_started_changed_and_ended(make: Callable[..., Systemd], tmp_path: Path) -> None:
    systemd, manager = make(), asked(tmp_path)
    manager.start(UNIT, PROPERTIES, never)
    assert systemd.units == {UNIT: SHOWN}
    manager.change(UNIT, [("TasksMax", "t", 2**64 - 1)])
    assert systemd.units[UNIT]["TasksMax"] == ("t", 2**64 - 1)
    manager.end(UNIT)
    manager.end(UNIT)
    assert systemd.units == {}


def test_without_systemds_own_socket_the_bus_is_asked(make: Callable[..., Systemd], tmp_path: Path) -> None:
    systemd = make("bus", bus=True)
    asked(tmp_path).start(UNIT, PROPERTIES, never)
    assert systemd.calls == ["Hello", "StartTransientUnit"]


@pytest.mark.parametrize("cut", [1, 3])
def test_a_systemd_that_executes_itself_anew_is_asked_again(
    make: Callable[..., Systemd], tmp_path: Path, cut: int
) -> None:
    systemd = make(cut=cut)
    asked(tmp_path).start(UNIT, PROPERTIES, never)
    assert systemd.calls == ["StartTransientUnit"] * (cut + 1)


def test_a_systemd_that_is_away_is_waited_for(make: Callable[..., Systemd], tmp_path: Path) -> None:
    first = Systemd(tmp_path / "private")
    first.close()
    manager = asked(tmp_path)
    thread = threading.Thread(target=manager.start, args=(UNIT, PROPERTIES, never))
    thread.start()
    (tmp_path / "private").unlink()
    systemd = make()
    thread.join()
    assert UNIT in systemd.units


def test_a_bus_without_a_manager_is_asked_again(make: Callable[..., Systemd], tmp_path: Path) -> None:
    systemd = make("bus", bus=True)
    systemd.refusals["StartTransientUnit"] = "org.freedesktop.DBus.Error.NameHasNoOwner", "away"
    with pytest.raises(SystemFailure, match=r"could not start engine-1\.scope: away"):
        asked(tmp_path, 0.2).start(UNIT, PROPERTIES, never)
    assert systemd.calls.count("StartTransientUnit") > 1


def test_a_unit_whose_start_was_answered_to_nobody_is_taken(make: Callable[..., Systemd], tmp_path: Path) -> None:
    systemd = make()
    systemd.units[UNIT] = {}
    asked(tmp_path).start(UNIT, PROPERTIES, lambda: True)
    assert systemd.calls == ["StartTransientUnit"]


def test_a_leftover_of_the_name_is_ended_first(make: Callable[..., Systemd], tmp_path: Path) -> None:
    systemd = make()
    systemd.units[UNIT] = {}
    asked(tmp_path).start(UNIT, PROPERTIES, never)
    assert systemd.calls == ["StartTransientUnit", "StopUnit", "ResetFailedUnit", "StartTransientUnit"]
    assert systemd.units == {UNIT: SHOWN}


def test_a_slow_start_is_waited_for(
    make: Callable[..., Systemd], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "_ASK_SECONDS", 0.01)
    systemd = make()
    asked(tmp_path).start(UNIT, PROPERTIES, never)
    asked(tmp_path).wait(UNIT, lambda: systemd.calls.count("GetUnit") == 3)


def test_a_start_that_never_ends_is_given_up(
    make: Callable[..., Systemd], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "_ASK_SECONDS", 0.01)
    make()
    with pytest.raises(SystemFailure, match=r"could not start engine-1\.scope in 0 seconds"):
        asked(tmp_path, 0.1).wait(UNIT, never)


def test_a_start_that_fails_later_is_a_failure(
    make: Callable[..., Systemd], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "_ASK_SECONDS", 0.01)
    systemd = make()
    systemd.refusals["GetUnit"] = "org.freedesktop.systemd1.NoSuchUnit", "Unit engine-1.scope not loaded."
    with pytest.raises(SystemFailure, match=r"Unit engine-1\.scope not loaded"):
        asked(tmp_path).wait(UNIT, never)


def test_a_refusal_is_told_in_systemds_words(make: Callable[..., Systemd], tmp_path: Path) -> None:
    systemd = make()
    for member in ("StartTransientUnit", "SetUnitProperties"):
        systemd.refusals[member] = "org.freedesktop.DBus.Error.InvalidArgs", "MemoryMax= is out of range"
    with pytest.raises(SystemFailure, match=r"could not start engine-1\.scope: MemoryMax= is out of range"):
        asked(tmp_path).start(UNIT, PROPERTIES, never)
    with pytest.raises(SystemFailure, match=r"could not change engine-1\.scope: MemoryMax= is out of range"):
        asked(tmp_path).change(UNIT, PROPERTIES)


def test_a_systemd_that_does_not_answer_is_given_up(make: Callable[..., Systemd], tmp_path: Path) -> None:
    make(silent=True)
    with pytest.raises(SystemFailure, match="does not answer"):
        asked(tmp_path, 0.2).start(UNIT, PROPERTIES, never)


def test_a_busy_systemd_overlooks_no_call(make: Callable[..., Systemd], tmp_path: Path) -> None:
    systemd = make(busy=0.05)
    asked(tmp_path, 1.0).start(UNIT, PROPERTIES, never)
    assert systemd.calls == ["StartTransientUnit"]


def test_no_systemd_at_all_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(SystemFailure, match="cannot be reached: No such file"):
        asked(tmp_path, 0.1).start(UNIT, PROPERTIES, never)


@pytest.mark.parametrize(
    ("said", "refusal"),
    [
        (b"REJECTED EXTERNAL\r\n", "refuses this process: REJECTED EXTERNAL"),
        (b"x" * 5000, "greeting has no end"),
        (b"OK 0\r\n", "sent what is no message"),
    ],
)
def test_a_peer_that_is_no_systemd_is_refused(said: bytes, refusal: str, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "private"))
        listener.listen()

        def answer() -> None:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(ConnectionError):
                connection.recv(100)
                connection.sendall(said)
                if said == b"OK 0\r\n":
                    while b"StartTransientUnit" not in connection.recv(1000):
                        pass
                    connection.sendall(b"\0" * 100)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(SystemFailure, match=refusal):
            asked(tmp_path, 5).start(UNIT, PROPERTIES, never)
        thread.join()


@pytest.mark.parametrize(("told", "cgroup"), [("", "/"), ("/", "/"), ("/user.slice/a", "/user.slice/a")])
def test_the_manager_says_where_its_slices_are(
    make: Callable[..., Systemd], tmp_path: Path, told: str, cgroup: str
) -> None:
    make(cgroup=told)
    assert asked(tmp_path).control_group() == cgroup


def test_a_users_daemon_asks_the_users_own_manager(
    make: Callable[..., Systemd], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the daemon is root, in its user namespace."""
    (tmp_path / "systemd").mkdir()
    make("systemd/private", cgroup="/users")
    monkeypatch.setattr(units.os, "geteuid", lambda: 0)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("ENGINE_OWNER", "1000")
    assert units.ours().control_group() == "/users"


def test_a_user_without_a_manager_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a host that systemd runs: it starts one at a login, and not for a `su`."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("ENGINE_OWNER", "1000")
    with pytest.raises(SystemFailure, match="no systemd of this user's own runs"):
        units.ours()
    (tmp_path / "bus").touch()
    units.ours()
