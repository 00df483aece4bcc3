"""ELF files: a made-up one in each class and byte order, this very Python, and anything."""

import os
import struct
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.client import elf
from engine.errors import Invalid

STRINGS = b"\0libc.so.6\0libm.so.6\0$ORIGIN/../lib:/opt/lib\0/run/lib\0"
TAGS = [(1, 1), (1, 11), (15, 21), (29, 45), (5, 0x1000), (10, len(STRINGS)), (0, 0)]
INTERPRETER = b"/lib/ld.so\0"


def made(width: int, order: str) -> bytes:
    """A program with an interpreter, two libraries, an RPATH and a RUNPATH."""
    dynamic = b"".join(struct.pack(order + ("iI" if width == 1 else "qQ"), *tag) for tag in TAGS)
    start = 64
    head = 32 if width == 1 else 56
    data = start + 3 * head
    places = {3: (data, 0, INTERPRETER), 2: (data + len(INTERPRETER), 0, dynamic)}
    strings = data + len(INTERPRETER) + len(dynamic)
    places[1] = (strings, 0x1000, STRINGS)
    segments = b""
    for kind, (offset, address, contents) in places.items():
        size = len(contents)
        segments += (
            struct.pack(order + "IIIIIIII", kind, offset, address, 0, size, size, 0, 0)
            if width == 1
            else struct.pack(order + "IIQQQQQQ", kind, 0, offset, address, 0, size, size, 0)
        )
    layout = order + ("HHIIIIIHHH" if width == 1 else "HHIQQQIHHH")
    header = b"\x7fELF" + bytes([width, 1 if order == "<" else 2, 1]) + bytes(9)
    header += struct.pack(layout, 2, 62, 1, 0, start, 0, 0, 64, head, 3)
    return header.ljust(start, b"\0") + segments + INTERPRETER + dynamic + STRINGS


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("order", ["<", ">"])
def test_a_program_of_each_class_and_order_is_read(width, order):
    found = elf.parse(made(width, order))
    assert found.kind == (width, 1 if order == "<" else 2, 62)
    assert found.interpreter == "/lib/ld.so"
    assert found.needed == ("libc.so.6", "libm.so.6")
    assert found.rpath == ("$ORIGIN/../lib", "/opt/lib")
    assert found.runpath == ("/run/lib",)


def test_this_python_is_read():
    with open(os.path.realpath(sys.executable), "rb") as file:
        found = elf.parse(file.read())
    assert found.interpreter.startswith("/")
    assert any(name.startswith("libc") for name in found.needed)


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"#!/bin/sh\n", b"\x7fELF\x05\x01" + bytes(100), made(2, "<")[:100]])
def test_what_is_no_elf_file_is_refused(data):
    with pytest.raises(Invalid):
        elf.parse(data)


@given(st.data())
def test_a_damaged_file_is_read_or_refused(data):
    whole = bytearray(made(data.draw(st.sampled_from([1, 2])), "<"))
    for _ in range(data.draw(st.integers(1, 8))):
        whole[data.draw(st.integers(4, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        elf.parse(bytes(whole))
    except Invalid:
        pass


def test_an_offset_beyond_any_file_is_refused():
    whole = bytearray(made(2, "<"))
    whole[32:40] = b"\xff" * 8  # e_phoff
    with pytest.raises(Invalid):
        elf.parse(bytes(whole))
