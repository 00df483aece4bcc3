"""The muxer on another machine: built for it, and run by an emulator, it does the same with the same inputs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.__main__ import CACHE
from tests.setup import zig
from tests.unit.muxer import fuzzing

COUNT = 100
SEED = 20261122
EMULATOR = "qemu-aarch64-static"


@pytest.mark.seldom
@pytest.mark.timeout(600)
@pytest.mark.parametrize("target", fuzzing.TARGETS)
def test_the_muxer_does_the_same_on_aarch64(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which(EMULATOR) is None:
        pytest.skip(f"there is no {EMULATOR}: apt-get install qemu-user-static")
    if not zig.complete(CACHE):
        pytest.skip("there is no Zig: python3 -m tests")
    for name, value in zig.variables(CACHE).items():
        monkeypatch.setenv(name, value)
    compiler = tmp_path / "cc"
    compiler.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ziglang cc -target aarch64-linux-musl "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setattr(fuzzing, "MUSL", ("-static",))
    program = fuzzing.build(str(compiler), [target, "main"], "", tmp_path / target)
    command = [EMULATOR, program, str(COUNT), str(SEED)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, env={"PATH": os.environ["PATH"]})
    assert (done.returncode, done.stdout) == (0, f"{COUNT} inputs\n"), done.stderr[-6000:]
