"""What a daemon that falls asleep leaves to the next one: whole, of this boot, or nothing."""

import json
from pathlib import Path

import pytest

from engine.daemon import slumber
from engine.daemon.containers.record import State
from engine.daemon.runtime.events import KEPT, Event


class Running:
    """What of a container is saved."""

    def __init__(self, name: str, held: bool = False, delay: float = 0.0, status: str = "running") -> None:
        self.id = name
        self.held = held
        self.delay = delay
        self._status = status

    def snapshot(self) -> State:
        return State(self._status)


def events(count: int, label: str = "v") -> list[Event]:
    return [Event("container", "start", "c" * 64, {"name": "n", "l": label}, 1_000 + each) for each in range(count)]


def test_what_is_left_is_found(tmp_path: Path) -> None:
    told = events(3)
    containers = [Running("a", held=True), Running("b", delay=0.4), Running("c", held=True, status="exited")]
    slumber.save(str(tmp_path), told, containers)
    found = slumber.find(str(tmp_path))
    assert found is not None
    assert list(found.events) == told
    assert found.held == {"a"}
    assert found.delays == {"b": 0.4}
    assert (tmp_path / "asleep").stat().st_mode & 0o777 == 0o600
    slumber.forget(str(tmp_path))
    slumber.forget(str(tmp_path))
    assert slumber.find(str(tmp_path)) is None
    assert not list(tmp_path.iterdir())


def test_a_long_past_is_cut_at_its_beginning(tmp_path: Path) -> None:
    """Labels may be long, and an exec root is memory."""
    slumber.save(str(tmp_path), events(KEPT, "x" * 100_000), [])
    found = slumber.find(str(tmp_path))
    assert found is not None
    assert (tmp_path / "asleep").stat().st_size < 2_000_000
    assert 5 < len(found.events) < 15
    assert found.events[-1].time_ns == 1_000 + KEPT - 1


def test_another_boot_is_no_sleep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slumber.save(str(tmp_path), events(1), [])
    (tmp_path / "boot").write_text("another\n")
    monkeypatch.setattr(slumber, "_BOOT", str(tmp_path / "boot"))
    assert slumber.find(str(tmp_path)) is None


def said(**changed: object) -> dict:
    with open(slumber._BOOT) as file:
        return {"boot": file.read().strip(), "events": [], "held": [], "delays": {}} | changed


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"[" * 100_000,
        b" " * (slumber._LARGEST + 1),
        json.dumps(said(events={})).encode(),
        json.dumps(said(events=[["container", "start", "a", {}]])).encode(),
        json.dumps(said(events=[["container", "start", "a", {}, "1"]])).encode(),
        json.dumps(said(events=[["container", "start", "a", {"a": 1}, 1]])).encode(),
        json.dumps(said(events=[["container", 1, "a", {}, 1]])).encode(),
        json.dumps(said(held="a")).encode(),
        json.dumps(said(delays=[])).encode(),
    ],
)
def test_other_bytes_are_nothing(tmp_path: Path, text: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """A warning says why."""
    (tmp_path / "asleep").write_bytes(text)
    assert slumber.find(str(tmp_path)) is None
    assert "cannot be used" in caplog.text


def test_words_for_other_containers_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "asleep").write_text(json.dumps(said(held=["a", 1, None], delays={"a": 1.5, "b": "x"})))
    found = slumber.find(str(tmp_path))
    assert found is not None
    assert found.held == {"a"} and found.delays == {"a": 1.5}
