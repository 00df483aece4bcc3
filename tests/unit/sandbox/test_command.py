"""Looking for a command in a root that changes while it is looked at."""

import os
from pathlib import Path

import pytest

from engine.sandbox import command


@pytest.mark.timeout(10)
def test_nobody_waits_for_a_fifo_that_was_a_script_a_moment_ago(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "script")
    root = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    try:
        assert command._interpreter("/script", root) == ""
    finally:
        os.close(root)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("plain", '"plain"'),
        ('["a"]', r'"[\"a\"]"'),
        ("back\\slash", r'"back\\slash"'),
        ("two\nlines\tand\x1b", r'"two\nlines\tand\x1b"'),
        ("grün", '"grün"'),
    ],
)
def test_a_command_that_is_not_there_is_told_as_go_quotes_it(tmp_path: Path, name: str, shown: str) -> None:
    """A JSON list where a word was meant is seen for what it is, and no terminal is written to."""
    root = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    try:
        with pytest.raises(command.Refusal, match="executable file not found") as refused:
            command.find(name, "/bin", root)
    finally:
        os.close(root)
    assert str(refused.value) == f"exec: {shown}: executable file not found in $PATH"
