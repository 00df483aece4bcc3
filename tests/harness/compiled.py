"""Small programs in C for containers that have no libraries."""

import shutil
import subprocess
from pathlib import Path

import pytest


def static(source: str, place: Path) -> bytes:
    """The program, which needs no library; skips where none can be built. place: an empty directory"""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    (place / "a.c").write_text(source)
    command = [compiler, "-static", "-s", "-O1", "-o", "a", "a.c"]
    built = subprocess.run(command, cwd=place, capture_output=True, timeout=60)
    if built.returncode:
        pytest.skip(f"no static program can be built: {built.stderr[-200:]!r}")
    return (place / "a").read_bytes()
