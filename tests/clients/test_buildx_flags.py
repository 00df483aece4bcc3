"""The table of flags of `docker buildx build` in engine/README.md has those of the real buildx, and no others."""

import re
import subprocess

import pytest

from tests.__main__ import CACHE, PROJECT
from tests.setup import compose as built

ROW = re.compile(r"^\| ((?:`--[a-z-]+` ?)+) \| ([^|]+) \|$", re.MULTILINE)
FLAG = re.compile(r"^ +(?:-\w, )?--([a-z-]+)", re.MULTILINE)
OF_ALL_COMMANDS = {"help", "builder", "debug"}


def table() -> dict[str, str]:
    """Flag → what becomes of it."""
    paper = (PROJECT / "engine" / "README.md").read_text()
    section = paper.partition("\n## The flags of docker buildx build\n")[2].partition("\n## ")[0]
    rows = ROW.findall(section)
    return {flag: becomes for flags, becomes in rows for flag in re.findall(r"--([a-z-]+)", flags)}


def test_every_flag_has_its_row() -> None:
    if not built.complete(CACHE):
        pytest.skip("needs buildx, which the set-up builds where it has Go")
    said = subprocess.run([built.buildx(CACHE), "build", "--help"], capture_output=True, text=True, check=True).stdout
    flags = set(FLAG.findall(said)) - OF_ALL_COMMANDS
    assert "build-arg" in flags and "tag" in flags
    assert table().keys() == flags


def test_no_row_is_empty() -> None:
    assert all(len(becomes) > 10 for becomes in table().values())
