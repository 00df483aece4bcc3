"""Tests of `engine.kernel.sealing`, each in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.kernel import sealing

PROJECT = Path(__file__).resolve().parents[3]
SCRIPT = """
import os, sys
first = "FIRST" not in os.environ
if first:
    os.environ["FIRST"] = repr(sys.path)
    from engine.kernel import sealing
    sealing.seal()
    sys.exit("it was not started anew")
sealed = sys.path[0]
from engine.kernel import sealing
sealing.seal()
rest = [each for each in sys.path if each not in eval(os.environ["FIRST"])]
print([each for each in sys.path if each not in rest] == eval(os.environ["FIRST"]))
print(rest, sys.flags.no_site, "site" in sys.modules, os.environ.get("PYTHONPATH"), *sys.argv[1:])
print(bool(os.statvfs("/proc/self/exe").f_flag & os.ST_RDONLY), [each for each in os.environ if "BEFORE" in each])
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A program that seals itself, and says what it finds after that."""
    (tmp_path / "script.py").write_text(SCRIPT)
    return tmp_path / "script.py"


def said(*words: str, **environment: str) -> list[str]:
    """The lines that a program prints, with these variables and none of Python's own."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [sys.executable, *words], env=plain | environment, capture_output=True, text=True, cwd=PROJECT, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.root
def test_the_new_start_finds_the_same_modules_without_the_hosts_own(script: Path, tmp_path: Path) -> None:
    """In the same order; and what it starts in turn gets the variables that it was started with."""
    places = f"{tmp_path / 'a'}:{PROJECT}"
    same, about, sealed = said(str(script), "one", "two", PYTHONPATH=places)
    assert (same, about, sealed) == ("True", f"[] 1 False {places} one two", "True []")


@pytest.mark.root
def test_a_safe_path_and_no_variable_stay_so(script: Path) -> None:
    """As a unit of systemd may start it: nothing is taken from where the program is."""
    words = ("-P", "-c", f"import sys; sys.path.append({str(PROJECT)!r})\n{SCRIPT}")
    same, about, _ = said(*words)
    assert (same, about.split()[-3:]) == ("True", ["1", "False", "None"])


@pytest.mark.root
def test_python_that_ignores_its_variables_keeps_its_options(script: Path) -> None:
    """Isolated, it would not look at the list of places."""
    code = f"import sys; sys.path.insert(0, {str(PROJECT)!r})\n{SCRIPT}"
    _, about, sealed = said("-I", "-c", code)
    assert (about.split()[-3:], sealed) == (["0", "True", "None"], "True []")


@pytest.mark.parametrize("before", ["", "/there"])
def test_who_has_taken_pythonpath_away_meanwhile_is_no_obstacle(monkeypatch: pytest.MonkeyPatch, before: str) -> None:
    """Such as a wrapper between the two starts."""
    monkeypatch.setenv(sealing._PATH_BEFORE, before)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    sealing._restore()
    assert os.environ.get("PYTHONPATH", "") == before and sealing._PATH_BEFORE not in os.environ
    monkeypatch.delenv("PYTHONPATH", raising=False)
