"""An engine that is started in a directory of somebody else's executes nothing that lies there, whatever it starts.

The one file, the Debian package and an installed wheel are tried where they are made: `test_bundle`, `test_debian`,
`test_install`.
"""

import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.harness import traps
from tests.harness.daemon import PROJECT
from tests.harness.fixtures import World

_START = "from engine.__main__ import main\nsys.exit(main())\n"
_NO_SLEEPER = "from engine.listen import main as listening\nlistening._program = lambda: None\n"


def program(place: Path, python: str, before: str = "") -> Path:
    """A program `engine` as pip writes it. before: lines of Python that come first"""
    script = place / "engine"
    script.write_text(f"#!{python}\nimport sys\n{before}{_START}")
    script.chmod(0o755)
    return script


@pytest.mark.parametrize("more", ["", _NO_SLEEPER], ids=["sleeper", "no sleeper"])
def test_a_clone_is_not_sprung(world: World, tmp_path: Path, more: str) -> None:
    clone = program(tmp_path, sys.executable, f"sys.path.insert(0, {str(PROJECT)!r})\n{more}")
    assert traps.sprung(world, [str(clone)], every_verb=not more) == set()


def test_a_virtual_environment_is_not_sprung(world: World, tmp_path: Path) -> None:
    venv.create(tmp_path, symlinks=True)
    (packages,) = tmp_path.glob("lib/python*/site-packages")
    (packages / "engine.pth").write_text(f"{PROJECT}\n")
    assert traps.sprung(world, [str(program(tmp_path / "bin", str(tmp_path / "bin/python")))]) == set()


def test_the_command_of_the_papers_works_in_a_clone_and_the_traps_are_some(world: World) -> None:
    """`python3 -m engine` is what the user types, and there Python itself takes the directory where the user stands."""
    done = subprocess.run([sys.executable, "-m", "engine", "--version"], cwd=PROJECT, capture_output=True, text=True)
    assert done.stdout.startswith("engine "), done
    assert "engine" in traps.sprung_by_typing(world.directory())
