"""Bytes of others, by a simple generator from a fixed seed, under ASan and UBSan; the long form is led by coverage."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.unit.muxer import fuzzing

COUNT = 300
SEED = 20261122


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The muxer's own files, compiled once."""
    if shutil.which("gcc") is None:
        pytest.skip("there is no gcc")
    found = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True).stdout
    if not os.path.isabs(found.strip()):
        pytest.skip("gcc has no libasan")
    return fuzzing.compiled("gcc", fuzzing.MEMORY, tmp_path_factory.mktemp("objects"))


def run(program: Path, directory: Path) -> None:
    """The program with all inputs; it leaves no file behind."""
    left = directory / "left"
    left.mkdir()
    command, variables = [program, str(COUNT), str(SEED)], {**os.environ, "TMPDIR": str(left)}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=500)
    assert (done.returncode, done.stdout) == (0, f"{COUNT} inputs\n"), done.stderr[-6000:]
    assert not list(left.iterdir())


@pytest.mark.seldom
@pytest.mark.timeout(600)
@pytest.mark.parametrize("target", fuzzing.TARGETS)
def test_the_muxer_does_the_same_with_another_c_library(target: str, tmp_path: Path) -> None:
    """It is built with musl, and has the same inputs."""
    if shutil.which("musl-gcc") is None:
        pytest.skip("there is no musl-gcc: apt-get install musl-tools")
    program = fuzzing.build("musl-gcc", [target, "main"], "", tmp_path / target)
    run(program, tmp_path)


@pytest.mark.seldom
@pytest.mark.timeout(600)  # a compiler at work beside others
@pytest.mark.parametrize("target", fuzzing.TARGETS)
def test_no_bytes_lead_the_muxer_astray(target: str, objects: list[Path], tmp_path: Path) -> None:
    """What is wrong with them is passed over or refused."""
    program = fuzzing.build("gcc", [target, "main"], fuzzing.MEMORY, tmp_path / target, objects)
    run(program, tmp_path)
