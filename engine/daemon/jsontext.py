"""Parses JSON from registries, archives and parameters of requests with limits on depth and number of values, checks
the depth for other parsers, and writes JSON without spaces.

Pure. Every level of nesting is a C call of the decoder, and the daemon's threads have small stacks: the process would
crash before the decoder notices by itself. JSON bodies of requests go through `api.body`, which uses the check.
"""

import functools
import json
import math
import re
from collections.abc import Callable

from engine.annotating import Any
from engine.errors import Invalid
from engine.late import TYPE_CHECKING, late
from engine.regex import regex

if TYPE_CHECKING:  # loaded by the first text that is no JSON
    from engine.daemon import jsonerror
else:
    jsonerror = late("engine.daemon.jsonerror")

Object = dict[str, Any]
"""A JSON object whose members are looked up by name; a schema, or the code that made it, says which ones it has."""

DEEPEST = 100
# A value takes 50 bytes and more in memory, but its text may take two: a small document must not become a large object.
MOST_VALUES = 200_000
_ENDS, _NO_END = ("EOF", "unexpected EOF"), "unexpected end of JSON input"  # of a stream, and of a text
_FEWEST_PAST_64_BITS = 20  # characters: 20 digits, or 19 and a sign; a shorter number fits into 64 bits
_LOWEST = -(1 << 63)  # of 64 bits; as long as that are numbers below it too
# Matches a string, whose brackets do not count, or a bracket. A string without an end counts to the last byte:
# otherwise the search would begin anew at each quote that follows, which takes hours for a document of megabytes.
_TOKEN = regex(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{}]', re.DOTALL)


def parse(data: bytes | str, what: str) -> object:
    """The value in `data` (JSON in UTF-8); raises Invalid in the words of Go's json.Unmarshal.

    what: the text of the error names it; empty: that is the reason alone
    """
    said = f"invalid {what}: " if what else ""
    try:
        text = data if isinstance(data, str) else data.decode()
        if deeper_than(DEEPEST, text):
            raise Invalid(f"{said}nested too deeply")
        if text.count(",") + text.count("[") + text.count("{") > MOST_VALUES:
            raise Invalid(f"{said}more than {MOST_VALUES} values")
        value = json.loads(text, parse_int=_integer, parse_float=_finite, parse_constant=_refuse)
    except ValueError as error:
        why = jsonerror.explain(data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass"))
        raise Invalid(f"{said}{_NO_END if why in _ENDS else why or error}") from error
    return whole_characters(value) if "\\u" in text else value


def compact(value: object) -> str:
    """A value as JSON on one line without spaces. Raises TypeError for what JSON does not have."""
    return _encoder()(value)


@functools.cache  # made late: a daemon that starts does without the module json (`engine.postponed`)
def _encoder() -> Callable[[object], str]:
    return json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


def _integer(text: str) -> int | float:
    """An integer; one that does not fit into 64 bits becomes the nearest float, as in Go's decoder."""
    length = len(text)
    if length < _FEWEST_PAST_64_BITS or (length == _FEWEST_PAST_64_BITS and _LOWEST <= int(text) < 0):
        return int(text)
    return _finite(text)


def _finite(text: str) -> float:
    value = float(text)
    if value in (math.inf, -math.inf):
        raise ValueError("a number is out of range")
    return value


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not valid JSON")


def whole_characters(value: object) -> object:
    """The value with every half of a surrogate pair, which cannot be stored or sent, replaced by U+FFFD as Go does."""
    if isinstance(value, str):
        if value.isascii():
            return value
        whole = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return type(value)(whole)
    if isinstance(value, list):
        return [whole_characters(item) for item in value]
    if isinstance(value, dict):
        return {whole_characters(key): whole_characters(item) for key, item in value.items()}
    return value


def deeper_than(limit: int, text: str) -> bool:
    """Whether lists and objects are nested deeper than `limit`. If the text is not JSON, that counts up to the fault,
    where the decoder stops.
    """
    # Counting is fast, and most documents have fewer brackets in all than levels are allowed.
    if text.count("[") + text.count("{") <= limit:
        return False
    depth = 0
    for token in _TOKEN.finditer(text):
        if token[0] in ("[", "{"):
            depth += 1
            if depth > limit:
                return True
        elif token[0] in ("]", "}"):
            depth -= 1
    return False
