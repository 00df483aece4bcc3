"""What a compiled library runs on is read from it, and what is cut off was for debuggers alone."""

import ctypes
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from engine.bundle import objects
from engine.errors import Invalid

SOURCE = '#include <stdlib.h>\nint answer(void) { return getenv("PATH") ? 42 : 0; }\n'


def compiled(compiler: str, directory: Path) -> bytes:
    """A small library of a C compiler's."""
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    (directory / "a.c").write_text(SOURCE)
    subprocess.run([compiler, "-shared", "-fPIC", "-g", "-o", directory / "a.so", directory / "a.c"], check=True)
    return (directory / "a.so").read_bytes()


def test_what_is_left_of_a_library_works(tmp_path: Path) -> None:
    whole = compiled("gcc", tmp_path)
    cut = objects.loaded(whole)
    assert len(cut) < len(whole) and b".debug_info" not in cut
    (tmp_path / "cut.so").write_bytes(cut)
    assert ctypes.CDLL(str(tmp_path / "cut.so")).answer() == 42
    assert objects.loaded(cut) == cut


def test_the_c_library_is_known() -> None:
    header = bytearray(64)
    header[:6] = b"\x7fELF\x02\x01"
    struct.pack_into("<H", header, 18, 183)
    struct.pack_into("<Q", header, 32, 64)
    struct.pack_into("<HH", header, 54, 56, 1)
    data = bytes(header) + struct.pack("<IIQQQQQQ", 1, 4, 0, 0, 0, 200, 200, 1)
    glibc = data + b"\0GLIBC_2.17\0GLIBC_2.4\0libc.so.6\0"
    assert objects.target(glibc.ljust(200, b"\0")) == "aarch64-linux-gnu-2.17"
    assert objects.target(data.ljust(200, b"\0")) == "aarch64-linux-musl-0"


def test_a_library_of_musl_is_known(tmp_path: Path) -> None:
    assert objects.target(compiled("musl-gcc", tmp_path)).endswith("-linux-musl-0")


def test_this_hosts_library_is_known(tmp_path: Path) -> None:
    assert "-linux-gnu-2." in objects.target(compiled("gcc", tmp_path))


HEAD = b"\x7fELF\x02"


@pytest.mark.parametrize(
    "data", [b"", HEAD, b"#!/bin/sh\n" * 20, HEAD + b"\x02" + bytes(80), HEAD + b"\x01" + bytes(80)]
)
def test_what_is_no_library_is_refused(data: bytes) -> None:
    with pytest.raises(Invalid):
        objects.loaded(data)
