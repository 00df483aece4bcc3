"""Compressed streams: each form, damage, members in a row, and bombs that cost no memory."""

import bz2
import gzip
import io
import lzma
import zlib

import pytest

from engine.daemon.tar import compression
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


def test_zstd_is_read_where_python_can_and_refused_in_words_elsewhere():
    if compression.has_zstd():
        from compression import zstd

        assert unpacked(zstd.compress(DATA)) == DATA
    else:
        with pytest.raises(Unavailable, match=r"compression\.zstd"):
            unpacked(b"\x28\xb5\x2f\xfd" + bytes(20))
