"""Debian's iptables, installed or unpacked, run in a network by the test process."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def run(pid: int, program: str, text: str = "") -> str:
    """Have `iptables-nft-save` or a program beside it run in a process's network, with this input; its output."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"needs {program}: apt-get install iptables")
    own = [each for each in Path(found).parents[1].glob("lib/*-linux-gnu*") if (each / "xtables").is_dir()]
    environment = dict(os.environ)
    if own and not Path(found).is_relative_to("/usr"):
        environment |= {"LD_LIBRARY_PATH": str(own[0]), "XTABLES_LIBDIR": str(own[0] / "xtables")}
    command = ["nsenter", f"--target={pid}", "--net", found]
    done = subprocess.run(command, input=text, env=environment, capture_output=True, text=True, timeout=60.0)
    assert done.returncode == 0 and "incompatible" not in done.stdout, (program, done.stdout, done.stderr)
    return done.stdout
