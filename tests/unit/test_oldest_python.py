"""A Python that is too old for the engine is told so, and which one it takes; nothing of it is a trace."""

import subprocess
import sys
from pathlib import Path

import pytest

from engine.bundle import materials, pyz

PROJECT = Path(__file__).resolve().parents[2]
_OLD = "import sys; sys.version_info = (3, 10, 13); import runpy; runpy."


def said(then: str) -> tuple[int, str, str]:
    """What this Python says where it believes that it is an older one: status, output and errors."""
    done = subprocess.run([sys.executable, "-c", _OLD + then], cwd=PROJECT, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("how", ["clone", "file"])
def test_an_older_python_is_told_which_one_is_needed(how: str, tmp_path: Path) -> None:
    (tmp_path / "engine.pyz").write_bytes(pyz.pack(small()).data if how == "file" else b"")
    then = "run_module('engine', run_name='__main__')" if how == "clone" else f"run_path('{tmp_path}/engine.pyz')"
    assert said(then) == (1, "", "engine: it needs Python 3.11 or later, and this is 3.10\n")


def small() -> dict[str, bytes]:
    """The file that starts the others, and one of these."""
    return {
        name: content
        for name, content in materials.gather().items()
        if name in ("engine/onefile.py", "engine/__init__.py")
    }
