"""Texts as Go's libraries read and write them, where a Dockerfile's author or a client sees the difference.

Pure.
"""

import re
from collections.abc import Iterable

from engine.errors import Invalid

SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006"
    "\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
"""What Go calls space; Python counts four control characters more."""

BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}

_ESCAPED = {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v"}
_UNITS = {
    "ns": 1,
    "us": 10**3,
    "\u00b5s": 10**3,
    "\u03bcs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_NUMBER = re.compile(r"(?a:\d+\.?\d*|\.\d+)")
_UNIT = re.compile(r"(?a:[^.\d]+)")
_LARGEST = 2**63 - 1
_LONGEST_SHOWN = 256
# More letters astray are no typing error.
_ASTRAY = 3


def quoted(text: str) -> str:
    """As Go's %q shows a text in an error; a long one only to its first part."""
    if len(text) > _LONGEST_SHOWN:
        text = text[:_LONGEST_SHOWN] + "..."
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


def nanoseconds(text: str) -> int:
    """A duration like "1h30m" or "1.5s"; Invalid in Go's words."""
    sign, rest = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
    if rest == "0":
        return 0
    total, place = 0, 0
    # No number that fits is longer.
    while place < len(rest) <= 100:
        number = _NUMBER.match(rest, place)
        if number is None:
            break
        unit = _UNIT.match(rest, number.end())
        if unit is None:
            raise Invalid(f"time: missing unit in duration {quoted(text)}")
        if unit[0] not in _UNITS:
            raise Invalid(f"time: unknown unit {quoted(unit[0])} in duration {quoted(text)}")
        whole, _, fraction = number[0].partition(".")
        scale = _UNITS[unit[0]]
        total += int(whole or "0") * scale + int(fraction or "0") * scale // 10 ** len(fraction)
        place = unit.end()
    if not rest or place < len(rest) or total > _LARGEST:
        raise Invalid(f"time: invalid duration {quoted(text)}")
    return -total if sign == "-" else total


def meant(word: str, known: Iterable[str], cased: bool = True) -> str:
    """` (did you mean X?)` with the nearest of the known words, or "" where none is near.

    cased: upper and lower case differ; else the answer is written as the question was.
    """
    asked = word if cased else word.lower()
    best, nearest = "", _ASTRAY
    for one in sorted(known):
        option = one if cased else one.lower()
        if option == asked:
            return ""
        if abs(len(option) - len(asked)) < nearest and (distance := _distance(asked, option)) < nearest:
            best, nearest = option, distance
    if not best:
        return ""
    return f" (did you mean {best.upper() if not cased and word.isupper() else best}?)"


def _distance(one: str, other: str) -> int:
    """How many letters must be put in, left out or changed."""
    row = list(range(len(other) + 1))
    for number, letter in enumerate(one, start=1):
        corner, row[0] = row[0], number
        for place, wanted in enumerate(other, start=1):
            corner, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, corner + (letter != wanted))
    return row[-1]
