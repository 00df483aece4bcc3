"""Libraries: found as the loader finds them; its own answer is the oracle where the host can be asked."""

import os
import shutil
import struct
import subprocess

import pytest

from engine.client import libraries
from engine.errors import Invalid, NotFound


def loaders_answer(program: str) -> set[str]:
    """Real paths of what the program's own loader says it would load."""
    loader = libraries.read(program).interpreter
    said = subprocess.run([loader, "--list", program], capture_output=True, text=True)
    words = [line.split("=>")[-1].split("(")[0].strip() for line in said.stdout.splitlines()]
    return {os.path.realpath(word) for word in words if word.startswith("/")}


@pytest.mark.parametrize("name", ["ls", "sh", "cat", "tar"])
def test_the_libraries_are_those_that_the_loader_takes(name):
    path = shutil.which(name)
    if path is None or not os.path.exists("/etc/ld.so.cache"):
        pytest.skip("needs glibc and the program")
    program = os.path.realpath(path)
    assert {os.path.realpath(found) for found in libraries.needed_by(program)} == loaders_answer(program)


def test_a_program_without_libraries_needs_nothing():
    busybox = shutil.which("busybox")
    if busybox is None or libraries.read(busybox).needed:
        pytest.skip("needs a static busybox")
    assert libraries.needed_by(busybox) == []


def test_what_is_no_program_is_refused(tmp_path):
    (tmp_path / "script").write_text("#!/bin/sh\n")
    (tmp_path / "empty").write_text("")
    for name, kind in (("script", Invalid), ("empty", Invalid), ("missing", NotFound)):
        with pytest.raises(kind):
            libraries.read(str(tmp_path / name))


def test_a_cache_behind_one_of_the_old_format_is_read():
    strings = b"libx.so\0/lib/libx.so\0/opt/libx.so\0"
    start = 48 + 2 * 24
    entries = struct.pack("=iIIIQ", 1, start, start + 8, 0, 0) + struct.pack("=iIIIQ", 1, start, start + 21, 0, 0)
    cache = b"glibc-ld.so.cache1.1" + struct.pack("=II", 2, len(strings)) + bytes(20) + entries + strings
    for data in (cache, b"ld.so-1.7.0\0" + bytes(36) + cache):
        assert libraries.parse_cache(data) == {"libx.so": ["/lib/libx.so", "/opt/libx.so"]}
    assert libraries.parse_cache(b"") == {}
    assert libraries.parse_cache(cache[:60]) == {}
