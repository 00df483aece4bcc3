"""HPACK against the package `hpack`: what one of the two makes the other reads, and both refuse the same."""

import hpack as oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import Invalid
from engine.protocols import hpack, huffman

NAMES = st.sampled_from([b":path", b":status", b"content-type", b"authorization", b"te", b"x-a", b"x-" + b"q" * 50])
VALUES = st.one_of(st.sampled_from([b"", b"/", b"200", b"application/grpc", b"z" * 3000]), st.binary(max_size=40))
FIELDS = st.lists(st.tuples(NAMES, VALUES), max_size=12)
SIZES = st.sampled_from([0, 100, 1000, 4096])
PLENTY = 1 << 20


def read(decoder: oracle.Decoder, block: bytes) -> list[tuple[bytes, bytes]]:
    """What the other package reads."""
    return [(bytes(name), bytes(value)) for name, value in decoder.decode(block, raw=True)]


@given(st.lists(st.tuples(FIELDS, st.none() | SIZES), max_size=8))
def test_the_other_reads_what_is_made(blocks: list[tuple[list[hpack.Field], int | None]]) -> None:
    """Over many blocks of a connection, whose table is made smaller and larger meanwhile."""
    encoder, decoder = hpack.Encoder(), oracle.Decoder(max_header_list_size=PLENTY)
    for fields, size in blocks:
        if size is not None:
            encoder.allow(size)
            decoder.max_allowed_table_size = size
        assert read(decoder, encoder.encode(fields)) == fields


@given(st.lists(st.tuples(FIELDS, st.none() | SIZES), max_size=8))
def test_what_the_other_makes_is_read(blocks: list[tuple[list[hpack.Field], int | None]]) -> None:
    encoder, decoder = oracle.Encoder(), hpack.Decoder(PLENTY)
    for fields, size in blocks:
        if size is not None:
            encoder.header_table_size = size
        assert decoder.decode(encoder.encode(fields)) == fields


@given(
    st.binary(max_size=40) | st.lists(st.sampled_from(b"\x82\x40\x00\x01\x61\x20\x3f\x7f\xff"), max_size=30).map(bytes)
)
def test_any_bytes_are_read_alike_or_refused_by_both(block: bytes) -> None:
    try:
        theirs = read(oracle.Decoder(max_header_list_size=PLENTY), block)
    except oracle.HPACKError:
        with pytest.raises(Invalid):
            hpack.Decoder(PLENTY).decode(block)
    else:
        assert hpack.Decoder(PLENTY).decode(block) == theirs


def test_secrets_enter_no_table() -> None:
    encoder = hpack.Encoder()
    fields = [(b"authorization", b"Bearer x"), (b"x-a", b"once")]
    first, second = encoder.encode(fields), encoder.encode(fields)
    assert first[0] & 0xF0 == second[0] & 0xF0 == 0x10
    assert first[:-1] != second[:-1] and second.startswith(first[:2])  # the other field is in the table by then


def test_a_few_bytes_do_not_become_many() -> None:
    """One field of a kilobyte is put into the table, and named again and again."""
    encoder = hpack.Encoder()
    block = encoder.encode([(b"x-a", b"v" * 1000)])
    bomb = block + encoder.encode([(b"x-a", b"v" * 1000)]) * 10_000
    with pytest.raises(hpack.TooLarge):
        hpack.Decoder(1 << 16).decode(bomb)


@pytest.mark.parametrize(
    ("block", "words"),
    [
        (b"\x80", "there is no field 0"),
        (b"\xff\xff\xff\xff\xff\xff\xff\x01", "a number has no end"),
        (b"\xff", "ends within a number"),
        (b"\x40\x05ab", "ends within a string"),
        (b"\x40", "ends within a field"),
        (b"\x82\x20", "changes its size within a block"),
        (b"\x3f\xff\xff\x03", "where 4096 are allowed"),
        (b"\x40\x81\xff\x00", "filled up"),
        (b"\x40\x84\xff\xff\xff\xff\x00", "has its end in it"),
    ],
)
def test_what_is_wrong_is_said(block: bytes, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        hpack.Decoder(PLENTY).decode(block)


@given(st.binary(max_size=200))
def test_the_huffman_code_goes_both_ways(data: bytes) -> None:
    assert huffman.decode(huffman.encode(data)) == data
    assert huffman.size(data) == len(huffman.encode(data))
