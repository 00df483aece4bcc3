"""`pip install .`: what a wheel of this tree holds, and that its commands run."""

import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
NOT_SOURCE = shutil.ignore_patterns(".git", "__pycache__", "build", "*.egg-info", "*.so", ".*_cache", ".benchmarks")
SETUPTOOLS = 77  # as pyproject.toml asks
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
pytestmark = pytest.mark.seldom


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel built offline from a copy of the tree."""
    needed = {name: find_spec(name) for name in ("pip", "setuptools", "wheel")}
    if not all(needed.values()) or int(version("setuptools").partition(".")[0]) < SETUPTOOLS:
        pytest.skip(f"needs pip, wheel and setuptools {SETUPTOOLS} or later")
    directory = tmp_path_factory.mktemp("wheel")
    source = directory / "source"
    shutil.copytree(PROJECT, source, ignore=NOT_SOURCE)
    built = subprocess.run(
        [*PIP, "wheel", "--no-build-isolation", "--no-deps", "--no-index", "-v", "-w", directory, source],
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stdout[-4000:] + built.stderr[-4000:]
    (found,) = directory.glob("*.whl")
    return found, built.stdout + built.stderr


def test_a_wheel_holds_the_engine_and_its_data_and_no_tests(wheel):
    names = zipfile.ZipFile(wheel[0]).namelist()
    for name in ("engine/__main__.py", "engine/daemon/main.py", "engine/sandbox/seccomp_default.json"):
        assert name in names
    assert not [name for name in names if name.startswith(("tests", "bench"))]


def test_the_muxer_is_built_for_all_pythons_or_its_absence_is_said_aloud(wheel):
    path, output = wheel
    native = [name for name in zipfile.ZipFile(path).namelist() if re.match(r"_muxer/_native\..*(so|pyd)$", name)]
    if find_spec("cffi") is None or shutil.which("cc") is None:
        assert not native
        assert "*** engine: installed as pure Python" in output
    else:
        assert native == ["_muxer/_native.abi3.so"]
        assert "-abi3-" in path.name
        assert "*** engine: the C muxer is built" in output


def test_the_commands_of_an_installed_wheel_run(wheel, tmp_path):
    install = [*PIP, "install", "--no-deps", "--no-index", "--prefix", tmp_path, wheel[0]]
    subprocess.run(install, check=True, capture_output=True)
    (packages,) = tmp_path.glob("lib*/python*/site-packages")
    for command, text in (("engine", "Usage: engine [OPTIONS] VERB"), ("engined", "Usage: engine daemon")):
        script = tmp_path / "bin" / command
        shown = subprocess.run([script, "--help"], env={"PYTHONPATH": packages}, capture_output=True, text=True)
        assert shown.stdout.startswith(text), shown


def test_docker_init_is_in_the_wheel_as_a_program(wheel):
    path, output = wheel
    found = [each for each in zipfile.ZipFile(path).infolist() if each.filename == "_muxer/docker-init"]
    if "*** engine: the C muxer is built" not in output:
        assert not found
    else:
        assert len(found) == 1 and found[0].external_attr >> 16 & 0o111
