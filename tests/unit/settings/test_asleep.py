"""After how long a daemon ends by itself, by command line, file and environment."""

import json
from pathlib import Path

import pytest

from engine.errors import Invalid
from engine.settings import asleep, every


def seconds(tmp_path: Path, *words: str, file: object = None, variable: str = "") -> int:
    """The seconds that a daemon is told by its command line, its file and its environment."""
    path = tmp_path / "daemon.json"
    path.write_text(json.dumps({} if file is None else {"idle-exit": file}))
    settings = every.from_arguments(["--config-file", str(path), *words], {asleep.VARIABLE: variable}, 0)
    return settings.idle_exit


def test_a_daemon_stays_where_nobody_says_otherwise(tmp_path: Path) -> None:
    assert seconds(tmp_path) == 0


def test_the_environment_is_the_last_to_be_asked(tmp_path: Path) -> None:
    """It is the unit's: an operator's file or command line says otherwise without a conflict."""
    assert seconds(tmp_path, variable="60") == 60
    assert seconds(tmp_path, variable="60", file=5) == 5
    assert seconds(tmp_path, variable="60", file=0) == 0
    assert seconds(tmp_path, "--idle-exit", "7", variable="60") == 7
    with pytest.raises(Invalid, match="both as a flag and in the configuration file"):
        seconds(tmp_path, "--idle-exit", "7", file=7)


@pytest.mark.parametrize("text", ["-1", "1.5", "5s", "\u0665", "1e3", "9" * 5000, " 5", "0x5"])
def test_only_whole_seconds_are_taken(tmp_path: Path, text: str) -> None:
    with pytest.raises(Invalid, match="idle-exit"):
        seconds(tmp_path, "--idle-exit", text)
    with pytest.raises(Invalid, match="ENGINE_IDLE_EXIT: give whole seconds"):
        seconds(tmp_path, variable=text)


@pytest.mark.parametrize("value", [True, 1.5, -1, "5", [5], {"seconds": 5}])
def test_other_values_in_the_file_are_refused(tmp_path: Path, value: object) -> None:
    with pytest.raises(Invalid, match="idle-exit"):
        seconds(tmp_path, file=value)
