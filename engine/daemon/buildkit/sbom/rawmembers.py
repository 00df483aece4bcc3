"""Splits a JSON object into the texts of its members, without keeping their values.

Pure. The document is a stranger's, and may be large: it is checked to be JSON whole, and takes little more memory than
its text.
"""

import json

from engine.daemon import jsontext
from engine.errors import Invalid

MOST_VALUES = 1_000_000
_BLANKS = " \t\n\r"


def _nothing(_value: object) -> None:
    return None


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not valid JSON")


_SKIPPED = json.JSONDecoder(
    object_pairs_hook=_nothing, parse_int=_nothing, parse_float=_nothing, parse_constant=_refuse
)


def split(data: bytes, what: str) -> dict[str, str]:
    """The text of each member of the object in `data`, by the member's name; of several with one name, the last.

    Raises Invalid, whose text names `what`, for what is no JSON object in UTF-8, is nested too deeply, or has more than
    MOST_VALUES values.
    """
    try:
        text = data.decode()
        if jsontext.deeper_than(jsontext.DEEPEST, text):
            raise Invalid(f"invalid {what}: nested too deeply")
        if text.count(",") + text.count("[") + text.count("{") > MOST_VALUES:
            raise Invalid(f"invalid {what}: more than {MOST_VALUES} values")
        return _members(text)
    except (ValueError, IndexError) as error:
        raise Invalid(f"invalid {what}: it is not a single JSON object") from error


def _members(text: str) -> dict[str, str]:
    """The same; raises ValueError or IndexError for what is no object."""
    found: dict[str, str] = {}
    place = _after(text, _blanks(text, 0), "{")
    if text[place] == "}":
        return _ended(text, place + 1, found)
    while True:
        if text[place] != '"':
            raise ValueError("a name is missing")
        name, place = _SKIPPED.raw_decode(text, place)
        start = _after(text, _blanks(text, place), ":")
        _, place = _SKIPPED.raw_decode(text, start)
        found[name] = text[start:place]
        place = _blanks(text, place)
        if text[place] == "}":
            return _ended(text, place + 1, found)
        place = _after(text, place, ",")


def _ended(text: str, place: int, found: dict[str, str]) -> dict[str, str]:
    if _blanks(text, place) != len(text):
        raise ValueError("more follows")
    return found


def _after(text: str, place: int, mark: str) -> int:
    """The place after a mark that must stand here, and after the blanks that follow it."""
    if text[place] != mark:
        raise ValueError(f"{mark} is missing")
    return _blanks(text, place + 1)


def _blanks(text: str, place: int) -> int:
    while place < len(text) and text[place] in _BLANKS:
        place += 1
    return place
