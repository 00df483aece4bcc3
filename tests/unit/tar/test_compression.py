"""Compressed streams: each form, damage, members in a row, and bombs that cost no memory."""

import bz2
import ctypes
import gzip
import io
import lzma
import os
import sys
import zlib

import pytest

from engine.daemon.tar import compression, zstd
from engine.daemon.tar.compression import Unpacked
from engine.errors import Invalid, Unavailable

DATA = bytes(range(256)) * 4096


class Dripping(io.BytesIO):
    """A source that gives a byte at a time, as a socket may."""

    def read(self, count=-1):
        return super().read(min(count, 1))


def unpacked(data: bytes) -> bytes:
    return io.BufferedReader(Unpacked(io.BytesIO(data))).read()


@pytest.mark.parametrize(
    ("form", "pack"), [("", bytes), ("gzip", gzip.compress), ("bzip2", bz2.compress), ("xz", lzma.compress)]
)
def test_each_form_is_seen_and_unpacked(form, pack):
    assert Unpacked(io.BytesIO(pack(DATA))).form == form
    assert unpacked(pack(DATA)) == DATA


def test_members_in_a_row_are_one_stream_and_zeros_after_them_are_nothing():
    assert unpacked(gzip.compress(b"one") + gzip.compress(b"two") + bytes(1000)) == b"onetwo"


def test_a_source_may_give_a_byte_at_a_time():
    stream = Unpacked(Dripping(gzip.compress(b"hello")))
    assert b"".join(iter(lambda: stream.read(100), b"")) == b"hello"


@pytest.mark.parametrize(
    "data",
    [gzip.compress(DATA)[:-9], gzip.compress(DATA)[:-1], gzip.compress(b"x") + b"junk"],
    ids=["without its end", "without its last byte", "with junk"],  # not the bytes, in which the time stands
)
def test_a_stream_that_breaks_off_or_goes_on_with_junk_is_refused(data):
    with pytest.raises(Invalid):
        unpacked(data)


def test_damage_in_the_middle_is_refused():
    data = bytearray(gzip.compress(DATA))
    data[len(data) // 2] ^= 0xFF
    with pytest.raises(Invalid, match="damaged gzip stream"):
        unpacked(bytes(data))


def test_an_empty_source_is_an_empty_stream():
    assert unpacked(b"") == b""


def test_one_read_gives_no_more_than_asked_however_well_it_was_packed():
    squeezed = zlib.compressobj(9, wbits=31)
    data = squeezed.compress(bytes(50_000_000)) + squeezed.flush()
    stream = Unpacked(io.BytesIO(data))
    assert len(stream.read(65536)) <= 65536


# zstd. The compressor is the host's library, asked here in the one call that it has for that.


def zstd_packed(data: bytes, level: int = 3) -> bytes:
    library = ctypes.CDLL("libzstd.so.1")
    library.ZSTD_compressBound.restype = library.ZSTD_compress.restype = ctypes.c_size_t
    target = ctypes.create_string_buffer(library.ZSTD_compressBound(ctypes.c_size_t(len(data))))
    size = library.ZSTD_compress(
        target, ctypes.c_size_t(len(target)), data, ctypes.c_size_t(len(data)), ctypes.c_int(level)
    )
    return target.raw[:size]


SKIPPED = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"note"
# A frame without contents' size: magic, descriptor, window, then one raw block, the last, of one byte.
RAW_BLOCK = (1 | 1 << 3).to_bytes(3, "little") + b"x"


def framed(window_log: int) -> bytes:
    return b"\x28\xb5\x2f\xfd\x00" + bytes(((window_log - 10) << 3,)) + RAW_BLOCK


@pytest.fixture(params=["host", "python"] if sys.version_info >= (3, 14) else ["host"])
def either(request, monkeypatch):
    """Each way to read zstd that there is here: the host's library, and Python's module."""
    if request.param == "host":
        monkeypatch.setattr(compression, "python_has_zstd", lambda: False)
        assert zstd.library() is not None


@pytest.mark.parametrize("level", [1, 3, 19])
def test_zstd_is_unpacked(either, level):
    data = DATA + os.urandom(300_000)
    assert Unpacked(io.BytesIO(zstd_packed(data, level))).form == "zstd"
    assert unpacked(zstd_packed(data, level)) == data


def test_zstd_frames_in_a_row_and_frames_to_be_skipped_are_one_stream(either):
    packed = SKIPPED + zstd_packed(b"one") + zstd_packed(b"") + SKIPPED + framed(20) + zstd_packed(b"two") + SKIPPED
    assert unpacked(packed) == b"onextwo"
    stream = Unpacked(Dripping(packed))
    assert b"".join(iter(lambda: stream.read(100), b"")) == b"onextwo"


@pytest.mark.parametrize("cut", [9, 1])
def test_zstd_that_breaks_off_is_refused(either, cut):
    with pytest.raises(Invalid, match="unexpected EOF"):
        unpacked(zstd_packed(DATA)[:-cut])


def test_damaged_zstd_and_junk_after_it_are_refused(either):
    with pytest.raises(Invalid, match="damaged zstd stream"):
        unpacked(framed(20)[:6] + b"\xff" * 30)
    with pytest.raises(Invalid, match="damaged zstd stream"):
        unpacked(zstd_packed(DATA) + b"junk and more junk")


def test_a_zstd_window_that_would_take_too_much_memory_is_refused_before_it_is_made(either):
    assert unpacked(framed(25)) == b"x"
    with pytest.raises(Invalid, match=r"damaged zstd stream: .*memory"):
        unpacked(framed(26))


def test_zstd_gives_no_more_than_asked_however_well_it_was_packed(either):
    stream = Unpacked(io.BytesIO(zstd_packed(bytes(50_000_000))))
    assert len(stream.read(65536)) <= 65536
    assert sum(len(data) for data in iter(lambda: stream.read(1 << 20), b"")) + 65536 == 50_000_000


@pytest.mark.parametrize(
    ("name", "packed"), [("bz2", bz2.compress(b"x")), ("lzma", lzma.compress(b"x"))], ids=("bz2", "lzma")
)
def test_a_python_without_a_module_refuses_in_words(monkeypatch, name, packed):
    """As small hosts have it, whose Python comes in parts."""
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(Unavailable, match=f"needs the module {name}"):
        Unpacked(io.BytesIO(packed)).read(1)


def test_zstd_is_refused_in_words_where_neither_python_nor_the_host_has_it(monkeypatch):
    monkeypatch.setattr(compression, "python_has_zstd", lambda: False)
    monkeypatch.setattr(zstd, "_LIBRARY", "libnone.so.1")
    zstd.library.cache_clear()
    try:
        with pytest.raises(Unavailable, match=r"libzstd\.so\.1"):
            unpacked(b"\x28\xb5\x2f\xfd" + bytes(20))
    finally:
        zstd.library.cache_clear()
