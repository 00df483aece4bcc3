"""Files of bbolt, as they are described and as nobody has written them."""

import os
import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import Invalid
from engine.migrate.bolt import Bolt, Bucket

PAGE = 4096
LEAF, BRANCH, META = 2, 1, 4


def fnv(data: bytes) -> int:
    """FNV-1a of 64 bits."""
    found = 0xCBF29CE484222325
    for byte in data:
        found = (found ^ byte) * 0x100000001B3 % 2**64
    return found


def meta(number: int, root: int, transaction: int) -> bytes:
    """One of the two records at the beginning."""
    told = struct.pack("<IIIIQQQQQ", 0xED0CDAED, 2, PAGE, 0, root, 0, 2, 9, transaction)
    return page(number, META, 0, told + struct.pack("<Q", fnv(told)))


def page(number: int, flags: int, count: int, rest: bytes) -> bytes:
    """A page, and those that it flows over into."""
    size = 16 + len(rest)
    over = -(-size // PAGE) - 1
    return (struct.pack("<QHHI", number, flags, count, over) + rest).ljust((over + 1) * PAGE, b"\0")


def leaf(number: int, *elements: tuple[int, bytes, bytes], bare: bool = False) -> bytes:
    """A page of (flags, key, value); bare: as a small bucket has it in its value."""
    heads, rest = b"", b""
    for place, (flags, key, value) in enumerate(elements):
        start = (len(elements) - place) * 16 + len(rest)
        heads += struct.pack("<IIII", flags, start, len(key), len(value))
        rest += key + value
    if bare:
        return struct.pack("<QHHI", 0, LEAF, len(elements), 0) + heads + rest
    return page(number, LEAF, len(elements), heads + rest)


def branch(number: int, *below: tuple[bytes, int]) -> bytes:
    """A page that leads to others."""
    heads, rest = b"", b""
    for place, (key, to) in enumerate(below):
        heads += struct.pack("<IIQ", (len(below) - place) * 16 + len(rest), len(key), to)
        rest += key
    return page(number, BRANCH, len(below), heads + rest)


LONG = b"x" * 10_000
INSIDE = struct.pack("<QQ", 0, 0) + leaf(0, (0, b"k", b"v"), bare=True)
WHOLE = b"".join(
    (
        meta(0, 9, 6),
        meta(1, 3, 7),  # the newer one
        page(2, 16, 0, b""),
        leaf(3, (1, b"large", struct.pack("<QQ", 4, 0)), (1, b"small", INSIDE), (0, b"value", b"of the root")),
        branch(4, (b"a", 5), (b"m", 6)),
        leaf(5, (0, b"a", b"1"), (0, b"b", b"2")),
        leaf(6, (0, b"m", LONG)),
    )
)


def read(tmp_path: Path, data: bytes) -> Bucket:
    """The root of a file with these bytes."""
    path = tmp_path / "db"
    path.write_bytes(data)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return Bolt(descriptor).root
    finally:
        os.close(descriptor)


def test_buckets_have_keys_and_buckets_of_one_page_of_many_and_of_none(tmp_path: Path) -> None:
    root = read(tmp_path, WHOLE)
    assert list(root.values()) == [(b"value", b"of the root")]
    assert [name for name, _ in root.buckets()] == [b"large", b"small"]
    assert list(root.bucket(b"large").values()) == [(b"a", b"1"), (b"b", b"2"), (b"m", LONG)]
    assert root.bucket(b"small").get(b"k") == b"v" and root.bucket(b"small").get(b"l") is None
    assert root.bucket(b"small", b"none") is None and root.bucket(b"none") is None


def test_of_two_records_the_newer_whole_one_counts(tmp_path: Path) -> None:
    torn = bytearray(WHOLE)
    torn[PAGE + 40] ^= 1
    with pytest.raises(Invalid):
        list(read(tmp_path, bytes(torn)).values())  # the older one leads to a page that is not there
    torn = bytearray(WHOLE)
    torn[40] ^= 1
    assert read(tmp_path, bytes(torn)).get(b"value") == b"of the root"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 8192,
        WHOLE[:5000],
        meta(0, 2, 1) + meta(1, 2, 2) + branch(2, (b"a", 2)),
        meta(0, 1, 1) + meta(1, 1, 2),
    ],
    ids=["nothing", "zeros", "cut off", "round", "no page of a tree"],
)
def test_what_is_no_whole_file_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(Invalid, match="no whole file of bbolt"):
        list(read(tmp_path, data).values())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), min_size=1, max_size=6))
def test_damage_ends_in_words(tmp_path: Path, changes: list[tuple[int, int]]) -> None:
    data = bytearray(WHOLE)
    for place, byte in changes:
        data[place] = byte
    try:
        root = read(tmp_path, bytes(data))
        for _, bucket in root.buckets():
            list(bucket.values())
    except Invalid:
        pass
