"""Compressing in each format, which the engine's own reader and other programs read again."""

import io
import os
import zlib

import pytest

from engine.daemon.tar.compression import Peeked, Unpacked
from engine.daemon.tar.squeeze import FORMATS, compressor
from engine.daemon.tar.zstd import library
from engine.errors import Invalid

DATA = b"".join(b"line %d\n" % number for number in range(50_000)) + os.urandom(300_000)


def squeezed(form: str, level: int | None = None) -> bytes:
    made = compressor(form, level)
    pieces = [made.compress(DATA[place : place + 70_001]) for place in range(0, len(DATA), 70_001)]
    return b"".join((*pieces, made.flush()))


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("level", [None, 1, 9])
def test_what_is_compressed_is_read_again(form: str, level: int | None) -> None:
    if form == "zstd" and library() is None:
        pytest.skip("needs libzstd.so.1")
    data = squeezed(form, level)
    assert Peeked(io.BytesIO(data)).form == ("" if form == "uncompressed" else form)
    assert io.BufferedReader(Unpacked(Peeked(io.BytesIO(data)))).read() == DATA
    assert squeezed(form, level) == data, "the same bytes give the same result"


def test_a_higher_level_is_smaller() -> None:
    assert len(squeezed("gzip", 9)) < len(squeezed("gzip", 1)) < len(squeezed("gzip", 0))
    assert zlib.decompress(squeezed("gzip", 0), wbits=31) == DATA


@pytest.mark.parametrize(("form", "level"), [("gzip", 10), ("gzip", -1), ("zstd", 23)])
def test_a_level_that_there_is_not(form: str, level: int) -> None:
    with pytest.raises(Invalid, match="compression level"):
        compressor(form, level)
