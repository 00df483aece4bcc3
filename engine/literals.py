"""Parses numbers, booleans, durations, timestamps and sizes from texts as Go's libraries do, with their error messages.

Pure and open to every package. No other module makes a number of a text from outside. Python's own `int` and `float`
take blanks, underscores and the digits of every script, give up with a ValueError at 4,300 digits, and call a number of
400 digits infinite. All refusals are Invalid, in the words of the function that dockerd uses. No text costs more than
one look at each of its characters.
"""

import re

from engine.errors import Invalid
from engine.regex import regex

INT64 = (-(2**63), 2**63 - 1)
UINT64 = (0, 2**64 - 1)
LAST_PORT = 2**16 - 1

TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))
BOOLEANS = {**dict.fromkeys(TRUE, True), **dict.fromkeys(FALSE, False)}

_ESCAPED = {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v"}
_INTEGER = regex(r"([+-]?)0*([0-9]+)")
_DIGITS = regex(r"[0-9]*")
_MOST_FRACTION = 20  # digits of a second
_OCTAL = regex(r"0*([0-7]+)")
# A number of so many digits is far above every limit, so further digits do not matter.
_MOST_DIGITS = 30

_NANOSECONDS = {
    "ns": 1,
    "us": 10**3,
    "\u00b5s": 10**3,
    "\u03bcs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_NUMBER = regex(r"(?:([0-9]+)\.?([0-9]*)|\.([0-9]+))")
_UNIT = regex(r"[^.0-9]+")

_MAC = regex(r"(?i:[0-9a-f]{2}(:[0-9a-f]{2}){5}|[0-9a-f]{2}(-[0-9a-f]{2}){5}|[0-9a-f]{4}(\.[0-9a-f]{4}){2})")
_MAC_MARKS = dict.fromkeys(map(ord, ":-."))
_SIZE = regex(r"([0-9]+(?:\.[0-9]+)?) ?([kmgtp]?)i?b?", re.IGNORECASE | re.ASCII)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


def quoted(text: str) -> str:
    """A text quoted as Go's %q shows it in an error."""
    return '"' + "".join(_shown(character) for character in text) + '"'


def _shown(character: str) -> str:
    if character in _ESCAPED:
        return _ESCAPED[character]
    if character in '"\\':
        return "\\" + character
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def integer(text: str, low: int = INT64[0], high: int = INT64[1], reader: str = "strconv.Atoi") -> int:
    """A decimal integer from `low` to `high`, with or without a sign. Raises Invalid in the words of `reader`.

    reader: the Go function whose words are used; strconv.ParseUint takes no sign. If empty, the text is the reason
    alone, `invalid syntax` or `value out of range`, and the caller adds the rest.
    """
    found = _INTEGER.fullmatch(text)
    said = f"{reader}: parsing {quoted(text)}: " if reader else ""
    if found is None or (found[1] and reader == "strconv.ParseUint"):
        raise Invalid(f"{said}invalid syntax")
    value = -_value(found[2]) if found[1] == "-" else _value(found[2])
    if not low <= value <= high:
        raise Invalid(f"{said}value out of range")
    return value


def natural(text: str, most: int, octal: bool = False) -> int | None:
    """The number that these ASCII digits make; None for a text with other characters, or for a number above `most`.

    For callers with error texts of their own. octal: the digits are octal, as in a file's mode
    """
    found = _OCTAL.fullmatch(text) if octal else _INTEGER.fullmatch(text)
    if found is None or not text[0].isdigit():
        return None
    value = int(found[1][:_MOST_DIGITS], 8) if octal else _value(found[2])
    return value if value <= most else None


def span(text: str, most: int) -> tuple[int, int] | None:
    """The two ends of a range `7` or `7-9`, of ports for example; None for a malformed or reversed range, or one above
    `most`.
    """
    first, dash, last = text.partition("-")
    low, high = natural(first, most), natural(last if dash else first, most)
    return None if low is None or high is None or low > high else (low, high)


def mac_address(text: str) -> str:
    """The canonical text of a MAC address of six bytes, in one of the three forms of Go's net.ParseMAC; empty for
    another text.
    """
    return bytes.fromhex(text.translate(_MAC_MARKS)).hex(":") if _MAC.fullmatch(text) else ""


def boolean(text: str) -> bool:
    """The value of a text that Go's strconv.ParseBool takes. Raises Invalid in its words."""
    if text not in BOOLEANS:
        raise Invalid(f"strconv.ParseBool: parsing {quoted(text)}: invalid syntax")
    return BOOLEANS[text]


def duration(text: str) -> int:
    """A duration like `1h30m` or `-1.5s` in nanoseconds. Raises Invalid in the words of Go's time.ParseDuration."""
    sign, rest = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
    if rest == "0":
        return 0
    total, place = 0, 0
    while place < len(rest) and total <= INT64[1]:
        number = _NUMBER.match(rest, place)
        if number is None:
            break
        whole = _value((number[1] or "0").lstrip("0") or "0")
        if whole > INT64[1]:
            break
        unit = _UNIT.match(rest, number.end())
        if unit is None:
            raise Invalid(f"time: missing unit in duration {quoted(text)}")
        scale = _NANOSECONDS.get(unit[0])
        if scale is None:
            raise Invalid(f"time: unknown unit {quoted(unit[0])} in duration {quoted(text)}")
        # Go drops the digits of a fraction for which its 64 bits have no room.
        fraction = (number[2] or number[3] or "0")[:18]
        total += whole * scale + int(fraction) * scale // 10 ** len(fraction)
        place = unit.end()
    if not rest or place < len(rest) or total > INT64[1]:
        raise Invalid(f"time: invalid duration {quoted(text)}")
    return -total if sign == "-" else total


def timestamp(text: str) -> int:
    """A moment `seconds[.fraction]` in nanoseconds since the epoch; digits of the fraction after the ninth are dropped.

    A moment more than 292 years from the epoch does not fit into 64 bits and becomes the nearest one that does. Raises
    Invalid.
    """
    whole, _, fraction = text.partition(".")
    try:
        seconds = integer(whole, reader="")
    except Invalid as reason:
        raise Invalid(f"invalid timestamp {quoted(text)}: invalid seconds {quoted(whole)}: {reason}") from reason
    wrong, digits = "", _DIGITS.match(fraction)
    if len(fraction) > _MOST_FRACTION:
        wrong = f"length {len(fraction.encode())} exceeds maximum {_MOST_FRACTION}"
    elif digits is not None and digits.end() < len(fraction):
        wrong = f"invalid character {chr(fraction[digits.end() :].encode()[0])!r} at position {digits.end()}"
    if wrong:
        raise Invalid(f"invalid timestamp {quoted(text)}: invalid nanoseconds: {wrong}")
    return min(max(seconds * 10**9 + int(fraction[:9].ljust(9, "0")), INT64[0]), INT64[1])


def size(text: str, thousand: int = 1000) -> int:
    """A size such as `10m` in bytes. Raises Invalid in the words of docker's go-units, and of Go's strconv, which that
    calls.

    thousand: 1000 for the sizes of files (FromHumanSize), 1024 for those of memory (RAMInBytes)
    """
    found = _SIZE.fullmatch(text)
    if found is None:
        raise Invalid(f"invalid size: '{text}'")
    whole, _, fraction = found[1].partition(".")
    scale: int = thousand ** _POWERS[found[2].lower()]
    parts: int = 10 ** len(fraction[:18])
    value = _value(whole.lstrip("0") or "0") * scale + int(fraction[:18] or "0") * scale // parts
    if value > INT64[1]:
        raise Invalid(f"strconv.ParseFloat: parsing {quoted(found[1])}: value out of range")
    return value


def _value(digits: str) -> int:
    """The value of digits without leading zeros. Of too many digits only the first are read, which is above every
    limit.
    """
    return int(digits[:_MOST_DIGITS])
