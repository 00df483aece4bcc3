"""What a start that has failed leaves behind."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.daemon.containers.life import start


@pytest.fixture
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A run's directory with a file in it; its cgroups are another test's."""
    monkeypatch.setattr(start, "clear_cgroups", lambda *_: None)
    run = tmp_path / "run"
    run.mkdir()
    (run / "monitor.sock").touch()
    return SimpleNamespace(exec_dir=str(run))


def test_last_words_that_come_while_a_run_is_cleared_away_go_too(
    where: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove = os.rmdir

    def late(path: str) -> None:
        monkeypatch.setattr(os, "rmdir", remove)
        Path(path, "exit").touch()
        remove(path)

    monkeypatch.setattr(os, "rmdir", late)
    start.clear_run(None, None, where)
    assert not os.path.exists(where.exec_dir)


def test_one_who_never_stops_speaking_is_told_of(where: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: listed(path)[:-1])
    with pytest.raises(OSError, match="not empty"):
        start.clear_run(None, None, where)
