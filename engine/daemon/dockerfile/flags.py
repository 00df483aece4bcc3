"""The flags (--name=value) between an instruction's keyword and its arguments: split off the text, and checked by kind.

Pure.
"""

import re
from collections.abc import Mapping

from engine.daemon.dockerfile.gotext import SPACE, meant
from engine.errors import Invalid

BOOLEAN, TEXT, TEXTS = "boolean", "text", "texts"
"""What a flag takes: true or false (or nothing: true), one text, or a text each time it is given."""

MOST_FLAGS = 1000

Written = tuple[tuple[str, str | None], ...]

# A word that may have quoted parts; a quote that is never closed ends with the line.
_WORD = {
    escape: re.compile(
        rf"""(?:[^{SPACE}'"{mark}]|{mark}.|{mark}\Z|'(?:[^'{mark}]|{mark}.)*+(?:'|{mark}?\Z)"""
        rf"""|"(?:[^"{mark}]|{mark}.)*+(?:"|{mark}?\Z))++""",
        re.DOTALL,
    )
    for escape, mark in (("\\", r"\\"), ("`", "`"))
}
_QUOTED = {
    escape: re.compile(
        rf"""{mark}(.?)|'((?:[^'{mark}]|{mark}.)*+)(?:'|{mark}?\Z)|"((?:[^"{mark}]|{mark}.)*+)(?:"|{mark}?\Z)""",
        re.DOTALL,
    )
    for escape, mark in (("\\", r"\\"), ("`", "`"))
}
_SPACES = re.compile(f"[{SPACE}]*")
_ESCAPED = {"\\": re.compile(r"\\(.)", re.DOTALL), "`": re.compile(r"`(.)", re.DOTALL)}


def taken_off(text: str, escape: str) -> tuple[Written, str]:
    """The flags at the beginning of a text, and the rest of the text; the word `--` ends the flags."""
    found: list[tuple[str, str | None]] = []
    place = 0
    while True:
        spaces = _SPACES.match(text, place)
        assert spaces is not None  # the expression also matches no space
        rest = spaces.end()
        if not text.startswith("--", rest):
            return tuple(found), text[rest:].strip(SPACE)
        match = _WORD[escape].match(text, rest)
        assert match is not None  # the dashes alone are a word
        word, place = _unquoted(match[0], escape), match.end()
        if word == "--":
            return tuple(found), text[place:].strip(SPACE)
        if len(found) == MOST_FLAGS:
            raise Invalid(f"an instruction has more than {MOST_FLAGS} flags")
        name, equals, value = word[2:].partition("=")
        found.append((name, value if equals else None))


def _unquoted(word: str, escape: str) -> str:
    def plain(match: re.Match[str]) -> str:
        if match[1] is not None:
            return match[1]
        return _ESCAPED[escape].sub(r"\1", match[2] if match[2] is not None else match[3])

    return _QUOTED[escape].sub(plain, word)


class Values:
    """The values of one instruction's flags, by kind: False, "" or () for a flag that was not given."""

    __slots__ = ("booleans", "lists", "texts")

    def __init__(self, known: Mapping[str, str]) -> None:
        self.booleans = {name: False for name, kind in known.items() if kind == BOOLEAN}
        self.texts = {name: "" for name, kind in known.items() if kind == TEXT}
        self.lists: dict[str, tuple[str, ...]] = {name: () for name, kind in known.items() if kind == TEXTS}


def read(written: Written, known: Mapping[str, str]) -> Values:
    """The value of each known flag. Raises Invalid in docker's words."""
    values = Values(known)
    seen: set[str] = set()
    for name, value in written:
        kind = known.get(name)
        if kind is None:
            raise Invalid(f"unknown flag: --{name}{meant(name, known)}")
        if name in seen and kind != TEXTS:
            raise Invalid(f"duplicate flag specified: --{name}")
        seen.add(name)
        if kind == BOOLEAN:
            values.booleans[name] = _boolean(name, value)
        elif value is None:
            raise _missing(name)
        elif kind == TEXTS:
            values.lists[name] += (value,)
        else:
            values.texts[name] = value
    return values


def _missing(name: str) -> Invalid:
    return Invalid(f"missing a value on flag: --{name}")


def _boolean(name: str, value: str | None) -> bool:
    if value == "":
        raise _missing(name)
    if (value or "true").lower() not in ("true", "false"):
        raise Invalid(f"expecting boolean value for flag --{name}, not: {value}")
    return (value or "true").lower() == "true"
