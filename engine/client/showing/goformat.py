"""Go's `printf` for the values that a template can have: texts, numbers, truths, lists and maps.

Pure. What a verb does not fit is shown as Go shows it: `%!d(string=x)`, `%!s(MISSING)`, `%!(EXTRA int=1)`. A width or a
precision that is a value itself (`*`) is refused, and so is a width of more than `_WIDEST`.
"""

import json
import re
from collections.abc import Callable, Sequence

from engine.annotating import Any
from engine.errors import Invalid, NotBuilt

_VERB = re.compile(r"%([-+# 0]*)(\*|\d*)(?:\.(\*|\d*))?(.?)", re.DOTALL)
_WIDEST = 1000
_NUMBERS = {"d": "d", "b": "b", "o": "o", "x": "x", "X": "X", "c": "c"}
_FLOATS = "eEfFgG"

Shown = Callable[[Any], str]


def formatted(form: str, values: Sequence[Any], shown: Shown, kind: Shown) -> str:
    """The text that `form` makes of the values. shown: a value as `%v` has it; kind: the name of its type in Go.

    Raises Invalid, and NotBuilt.
    """
    left = list(values)

    def one(match: re.Match[str]) -> str:
        flags, width, precision, verb = match[1], match[2], match[3], match[4]
        if "*" in (width, precision):
            raise NotBuilt("a width that is a value is a part of Go's printf that this client does not have")
        if max(int(width or 0), int(precision or 0)) > _WIDEST:
            raise Invalid(f"template parsing error: error calling printf: a width of more than {_WIDEST}")
        if verb == "%":
            return "%"
        if not verb:
            return "%!(NOVERB)"
        if not left:
            return f"%!{verb}(MISSING)"
        value = left.pop(0)
        text = _plain(value, verb, flags, precision, shown)
        if text is None:
            return f"%!{verb}({kind(value)}={shown(value)})"
        return _padded(text, flags, int(width or 0), isinstance(value, int | float))

    text = _VERB.sub(one, form)
    return text + (f"%!(EXTRA {', '.join(f'{kind(value)}={shown(value)}' for value in left)})" if left else "")


def _plain(value: Any, verb: str, flags: str, precision: str | None, shown: Shown) -> str | None:
    """A value without padding; None where the verb is not for such a value."""
    if verb == "v":
        return shown(value)
    if isinstance(value, bool):
        return shown(value) if verb == "t" else None
    if isinstance(value, str):
        return _text(value, verb, None if precision is None else int(precision or 0))
    if isinstance(value, int | float):
        return _number(value, verb, flags, precision)
    return shown(value) if verb == "s" and value is not None else None


def _text(value: str, verb: str, most: int | None) -> str | None:
    value = value[:most]
    if verb in "xX":
        digits = value.encode().hex()
        return digits.upper() if verb == "X" else digits
    return {"s": value, "q": json.dumps(value, ensure_ascii=False)}.get(verb)


def _number(value: float, verb: str, flags: str, precision: str | None) -> str | None:
    sign = "+" if "+" in flags else " " if " " in flags else ""
    if verb in _FLOATS and isinstance(value, float):
        return format(value, f"{sign}.{precision or 0}{verb}" if precision is not None else f"{sign}{verb}")
    if verb in _NUMBERS and isinstance(value, int):
        other = "#" if "#" in flags and verb in "xX" else ""
        try:
            return format(value, f"{'' if verb == 'c' else sign + other}{_NUMBERS[verb]}")
        except (OverflowError, ValueError):  # no such character
            return "\ufffd"
    return None


def _padded(text: str, flags: str, width: int, number: bool) -> str:
    if "-" in flags:
        return text.ljust(width)
    return text.zfill(width) if "0" in flags and number else text.rjust(width)
