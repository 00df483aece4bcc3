"""Benchmark of what has to be copied onto a host for the engine in one file."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench.cases import OURS
from bench.results import Record
from tests.__main__ import PROJECT

MEGABYTE = 1e6


@pytest.mark.case("bundle_size")
def test_the_engine_in_one_file(tmp_path: Path, record: Record) -> None:
    made = tmp_path / "engine.pyz"
    command = [sys.executable, "-m", "engine", "bundle", "--output", str(made)]
    subprocess.run(command, cwd=PROJECT, stdout=subprocess.DEVNULL, check=True)
    record("bundle_size", OURS, [made.stat().st_size / MEGABYTE])
