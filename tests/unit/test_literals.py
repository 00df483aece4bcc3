"""Tests of `engine.literals`: what Go's functions take, what they refuse and how, and that nothing else comes out."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import literals
from engine.errors import Invalid

# What Python's int and float take and Go's do not, and what is past everything.
FOREIGN = (
    "5_0",
    " 50",
    "50 ",
    "\t5",
    "٣",
    "²",
    "\uff15",
    "0x10",
    "1e3",
    "1.5",
    "--5",
    "+-5",
    "5-",
    "",
    "-",
    "+",
    "NaN",
    "inf",
)
ENDLESS = ("9" * 400, "9" * 5_000, "1" + "0" * 100_000)


def refused(read: object, *arguments: object) -> str:
    """The words of a refusal."""
    with pytest.raises(Invalid) as caught:
        read(*arguments)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("-0", 0), ("+7", 7), ("-7", -7), ("007", 7), ("0" * 5_000 + "1", 1), (str(2**63 - 1), 2**63 - 1)],
)
def test_an_integer(text: str, value: int) -> None:
    """It is what strconv.Atoi takes."""
    assert literals.integer(text) == value


@pytest.mark.parametrize("text", FOREIGN)
def test_what_is_no_integer(text: str) -> None:
    """In the words of strconv."""
    assert refused(literals.integer, text) == f"strconv.Atoi: parsing {literals.quoted(text)}: invalid syntax"


@pytest.mark.parametrize("text", [str(2**63), str(-(2**63) - 1), *ENDLESS, *(f"-{text}" for text in ENDLESS)])
def test_an_integer_out_of_range(text: str) -> None:
    """Also of more digits than Python would take."""
    assert refused(literals.integer, text) == f'strconv.Atoi: parsing "{text}": value out of range'


def test_an_integer_in_other_words() -> None:
    """Of the functions with a base, and of who says the rest itself."""
    reader = "strconv.ParseUint"
    assert refused(literals.integer, "-1", *literals.UINT64, reader) == f'{reader}: parsing "-1": invalid syntax'
    assert literals.integer(str(2**64 - 1), *literals.UINT64, reader) == 2**64 - 1
    assert refused(literals.integer, "70000", 0, 65535, "") == "value out of range"
    assert refused(literals.integer, "x", 0, 65535, "") == "invalid syntax"


def test_a_text_is_quoted_as_go_quotes() -> None:
    """strconv.Quote."""
    assert literals.quoted('a"b\\c\n\0\x7fé\u202e\U000e0001') == '"a\\"b\\\\c\\n\\x00\\x7fé\\u202e\\U000e0001"'


@pytest.mark.parametrize(
    ("text", "most", "value"),
    [("0", 9, 0), ("9", 9, 9), ("10", 9, None), ("0009", 9, 9), ("0" * 5_000, 9, 0), ("+9", 9, None), ("-0", 9, None)]
    + [(text, 9, None) for text in (*FOREIGN, *ENDLESS)],
)
def test_a_natural_number(text: str, most: int, value: int | None) -> None:
    """Digits, and nothing but digits."""
    assert literals.natural(text, most) == value


def test_a_natural_number_in_octal_digits() -> None:
    """The modes of files."""
    assert literals.natural("0755", 0o7777, octal=True) == 0o755
    assert [literals.natural(text, 0o7777, octal=True) for text in ("8", "10000", "7" * 5_000, "", "0o7")] == [None] * 5


@pytest.mark.parametrize(
    ("text", "ends"),
    [("80", (80, 80)), ("80-82", (80, 82)), ("82-80", None), ("80-", None), ("-80", None), ("1-70000", None)]
    + [(f"1-{text}", None) for text in ENDLESS],
)
def test_a_span(text: str, ends: tuple[int, int] | None) -> None:
    """One port or several."""
    assert literals.span(text, literals.LAST_PORT) == ends


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0),
        ("-0", 0),
        ("1h30m", 5400 * 10**9),
        ("-1.5s", -1_500_000_000),
        (".5ms", 500_000),
        ("1.s", 10**9),
        ("1us2\u00b5s3\u03bcs4ns", 6_004),
        ("0.100000000000000000000h", 360 * 10**9),
        ("0." + "9" * 5_000 + "s", 999_999_999),
        ("9223372036854775807ns", 2**63 - 1),
    ],
)
def test_a_duration(text: str, nanoseconds: int) -> None:
    """It is what time.ParseDuration takes."""
    assert literals.duration(text) == nanoseconds


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 'time: invalid duration ""'),
        ("h", 'time: invalid duration "h"'),
        ("1", 'time: missing unit in duration "1"'),
        ("1y", 'time: unknown unit "y" in duration "1y"'),
        ("1h 2m", 'time: unknown unit "h " in duration "1h 2m"'),
        ("1e3s", 'time: unknown unit "e" in duration "1e3s"'),
        ("٣h", 'time: invalid duration "٣h"'),
        ("9223372036854775808ns", 'time: invalid duration "9223372036854775808ns"'),
        ("9" * 400 + "h", f'time: invalid duration "{"9" * 400}h"'),
        ("9" * 5_000, f'time: invalid duration "{"9" * 5_000}"'),
        ("2000000h2000000h", 'time: invalid duration "2000000h2000000h"'),
    ],
)
def test_what_is_no_duration(text: str, words: str) -> None:
    """In Go's words."""
    assert refused(literals.duration, text) == words


@pytest.mark.parametrize(
    ("text", "thousand", "value"),
    [
        ("10", 1000, 10),
        ("10b", 1000, 10),
        ("2kib", 1024, 2048),
        ("1.5m", 1024, 3 << 19),
        ("1 G", 1024, 1 << 30),
        ("1.5kb", 1000, 1500),
        ("0." + "3" * 5_000 + "k", 1000, 333),
    ],
)
def test_a_size(text: str, thousand: int, value: int) -> None:
    """It is what go-units takes."""
    assert literals.size(text, thousand) == value


@pytest.mark.parametrize("text", ["", "-1", "m", "1kk", "1.", ".5", "1e3", "5_0", "٣m", " 1", "ten", "1\n"])
def test_what_is_no_size(text: str) -> None:
    """In go-units' words."""
    assert refused(literals.size, text) == f"invalid size: '{text}'"


@pytest.mark.parametrize("text", ENDLESS)
def test_a_size_out_of_range(text: str) -> None:
    """A float of 400 digits is infinite, and was a 500."""
    assert refused(literals.size, f"{text}m") == f'strconv.ParseFloat: parsing "{text}": value out of range'


@pytest.mark.parametrize("text", ["99999999999", "-99999999999", "9223372036854775807.9"])
def test_a_moment_past_64_bits_is_their_end(text: str) -> None:
    """It goes into fields of that size, in C."""
    assert abs(literals.timestamp(text)) in (2**63 - 1, 2**63)


@pytest.mark.parametrize(
    ("text", "reason"),
    [("9" * 400, "value out of range"), ("5_0", "invalid syntax"), ("", "invalid syntax"), ("٣", "invalid syntax")],
)
def test_what_is_no_moment(text: str, reason: str) -> None:
    """In dockerd's words."""
    assert refused(literals.timestamp, text) == f'invalid timestamp "{text}": invalid seconds "{text}": {reason}'


def test_a_truth_value() -> None:
    """It is what strconv.ParseBool takes."""
    assert [literals.boolean(text) for text in ("1", "TRUE", "f")] == [True, True, False]
    assert refused(literals.boolean, "yes") == 'strconv.ParseBool: parsing "yes": invalid syntax'


@given(st.one_of(st.text(max_size=40), st.text("0123456789+-._eEhmsnµkKiIbB \0", max_size=600)))
def test_any_text_is_a_number_or_invalid(text: str) -> None:
    """And what comes out fits 64 bits."""
    for read in (literals.integer, literals.duration, literals.size, literals.timestamp, literals.boolean):
        with contextlib.suppress(Invalid):
            assert -(2**63) <= read(text) < 2**63
    for octal in (False, True):
        assert 0 <= (literals.natural(text, 1000, octal) or 0) <= 1000
    literals.span(text, 100)
