"""engine.daemon.jsonerror: Go's words for what is wrong with a JSON text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.daemon.jsonerror import explain

# What encoding/json says of each, in Go 1.26.
FAULTS = [
    (b"", "EOF"),
    (b" \n", "EOF"),
    (b"{", "unexpected EOF"),
    (b'{"a', "unexpected EOF"),
    (b"[1,", "unexpected EOF"),
    (b"tru", "unexpected EOF"),
    (b"{not json", "invalid character 'n' looking for beginning of object key string"),
    (b'{"a":1,}', "invalid character '}' looking for beginning of object key string"),
    (b'{"a" 1}', "invalid character '1' after object key"),
    (b'{"a":1 "b"', "invalid character '\"' after object key:value pair"),
    (b"[1 2]", "invalid character '2' after array element"),
    (b"[1,]", "invalid character ']' looking for beginning of value"),
    (b"'a'", r"invalid character '\'' looking for beginning of value"),
    (b'"\x01"', r"invalid character '\x01' in string literal"),
    (b'"a\nb"', r"invalid character '\n' in string literal"),
    (rb'"\x"', "invalid character 'x' in string escape code"),
    (rb'"\u12g4"', r"invalid character 'g' in \u hexadecimal character escape"),
    (b"-x", "invalid character 'x' in numeric literal"),
    (b"1.x", "invalid character 'x' after decimal point in numeric literal"),
    (b"1e+x", "invalid character 'x' in exponent of numeric literal"),
    (b"trux", "invalid character 'x' in literal true (expecting 'e')"),
    (b"NaN", "invalid character 'N' looking for beginning of value"),
    (b"\xef\xbb\xbf{}", "invalid character 'ï' looking for beginning of value"),
    (b"\x80", r"invalid character '\u0080' looking for beginning of value"),
]


@pytest.mark.parametrize(("data", "text"), FAULTS)
def test_a_fault_is_told_in_gos_words(data, text):
    assert explain(data) == text


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_there_is_no_fault_in_what_is_json(value):
    assert explain(json.dumps(value).encode()) == ""
    assert explain(json.dumps(value, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass")) == ""


@given(st.text('{}[]",:0123456789.eE+-\\utrfalsn x', max_size=30).map(str.encode))
def test_it_finds_a_fault_where_python_finds_one(data):
    text = data.decode().lstrip(" \t\r\n")
    try:
        _, end = json.JSONDecoder(parse_constant=lambda name: 1 / 0).raw_decode(text)
    except (ValueError, ZeroDivisionError):
        assert explain(data)
    else:
        # Python ends a number where Go still reads on: `0E` is a zero and a letter, or a broken exponent.
        assert explain(data) == "" or end < len(text)


def test_no_depth_of_nesting_is_too_much():
    assert explain(b"[" * 100_000) == "unexpected EOF"
    assert explain(b"[" * 100_000 + b"]" * 100_000) == ""
