"""A version is that of the files: as long as they are the same, and no longer."""

import os
import shutil
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from engine.spawner import version


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree of a few files that is taken for the engine's."""
    for name in ("engine/wire/a.py", "engine/daemon/b.py", "engine/c.py", "_muxer/d.so", "_muxer/e.c"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)

    def found(name: str) -> ModuleSpec:
        package = ModuleSpec(name, None, is_package=True)
        package.submodule_search_locations.append(str(tmp_path / name))
        return package

    monkeypatch.setattr(version.importlib.util, "find_spec", found)
    return tmp_path


def test_it_is_the_same_for_the_same_files(tree: Path) -> None:
    before = version.fingerprint()
    os.utime(tree / "engine/c.py", (1, 1))
    (tree / "engine/daemon/b.py").write_text("no part of a spawner")
    (tree / "engine/wire/__pycache__").mkdir()
    (tree / "engine/wire/__pycache__/a.py").write_text("nor is this")
    (tree / "_muxer/e.c").write_text("which is not what runs")
    assert version.fingerprint() == before


@pytest.mark.parametrize("name", ["engine/wire/a.py", "engine/c.py", "_muxer/d.so", "engine/wire/new.py"])
def test_it_is_another_for_other_files(tree: Path, name: str) -> None:
    before = version.fingerprint()
    (tree / name).write_text("other")
    assert version.fingerprint() != before


def test_it_is_another_for_another_python(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = version.fingerprint()
    monkeypatch.setattr(version.sys, "version_info", (3, 99))
    assert version.fingerprint() != before
    shutil.rmtree(tree)
