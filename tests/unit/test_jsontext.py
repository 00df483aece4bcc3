"""JSON from strangers: read, refused, and never deeper than a small stack."""

import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.daemon import jsontext
from engine.errors import Invalid

# Whole numbers past these become floats, as in Go's decoder.
LOWEST, HIGHEST = -(1 << 63), 10**19 - 1
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(LOWEST, HIGHEST) | st.text(alphabet='[]{}"\\a'),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(alphabet='[]{}"\\a'), inner, max_size=4),
)


@given(VALUES)
def test_what_is_json_is_read(value):
    assert jsontext.parse(json.dumps(value).encode(), "test") == value


@given(st.integers() | st.sampled_from([LOWEST - 1, LOWEST, HIGHEST, HIGHEST + 1]))
def test_a_whole_number_past_64_bits_becomes_the_nearest_float(value):
    found = jsontext.parse(json.dumps(value).encode(), "test")
    expected = value if LOWEST <= value <= HIGHEST else float(value)
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize("text", ['"\\', '"\\"', '"', '"\\\\', "\\"])
def test_texts_without_an_end_are_searched_once(text):
    # A search that begins anew at each quote takes hours, and no other thread runs meanwhile.
    with pytest.raises(Invalid):
        jsontext.parse(b"[" * 101 + text.encode() * 400_001, "test")


def test_brackets_in_texts_are_no_nesting():
    value = ["[" * 5000, {'{"' * 3000: "]"}]
    assert jsontext.parse(json.dumps(value), "test") == value


@pytest.mark.parametrize(
    "data", [b"[" * 100_000, b'{"a":' * 100_000, b"[" * 101 + b"]" * 101, b"\xff", b"", b"{", b"1e"]
)
def test_what_is_too_deep_or_no_json_is_refused_even_on_a_small_stack(data):
    found = []

    def parse():
        try:
            jsontext.parse(data, "test")
        except Invalid as error:
            found.append(str(error))

    before = threading.stack_size(256 * 1024)
    try:
        thread = threading.Thread(target=parse)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    assert found[0].startswith("invalid test: ")


def test_half_a_pair_of_surrogates_is_no_character():
    """Nobody could store or send it; Go puts the replacement character in its place."""
    text = rb'{"a\ud800": ["\udfff", "\ud83d\ude00", 1, null]}'
    assert jsontext.parse(text, "test") == {"a\ufffd": ["\ufffd", "\U0001f600", 1, None]}


@pytest.mark.parametrize("number", [-(10**18) - 1, -(1 << 63), 10**19 - 1, (1 << 63) - 1, 0, -1])
def test_a_number_of_64_bits_stays_whole(number):
    assert type(value := jsontext.parse(str(number), "number")) is int and value == number


@pytest.mark.parametrize("number", [-(1 << 63) - 1, -(10**19), 10**19, 10**30, -(10**30)])
def test_a_larger_number_becomes_the_nearest_float(number):
    """The decoder of Go does the same."""
    assert type(value := jsontext.parse(str(number), "number")) is float and value == float(number)
