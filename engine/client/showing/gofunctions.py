"""The functions of docker's templates, and how a value of JSON is shown in them.

Pure. The first ones are docker's own, the others are those of Go's text/template that are built. A function that Go has
and this client lacks is refused by name.
"""

import json
from collections.abc import Callable, Sequence

from engine.annotating import Any
from engine.client.showing.rows import Fields, Named
from engine.errors import Invalid, NotBuilt
from engine.late import TYPE_CHECKING, late
from engine.literals import quoted

if TYPE_CHECKING:  # loaded for who asks for it
    from engine.client.showing import goformat
else:
    goformat = late("engine.client.showing.goformat")

_NOT_BUILT = ("js", "urlquery", "call")
# What Go's encoder of JSON writes for the characters that HTML takes for its own, and Go's escaping of HTML.
_IN_JSON = {ord(each): f"\\u{ord(each):04x}" for each in "<>&"}
_IN_HTML = {38: "&amp;", 60: "&lt;", 62: "&gt;", 34: "&#34;", 39: "&#39;"}


def known(name: str) -> None:
    """Raises NotBuilt for a function that Go has and this client has not, and Invalid for one that nobody has."""
    if name in _NOT_BUILT:
        raise NotBuilt(f"the function {name} is a part of Go's templates that this client does not have")
    if name not in _FUNCTIONS:
        raise Invalid(f"template parsing error: function {quoted(name)} not defined")


def called(name: str, arguments: Sequence[Any]) -> Any:
    """What a function makes of its arguments. Raises Invalid for a wrong number or kind of them."""
    function, least, most = _FUNCTIONS[name]
    if len(arguments) < least or (most is not None and len(arguments) > most):
        wanted = f"{least}" if most == least else f"at least {least}"
        raise Invalid(f"template parsing error: wrong number of args for {name}: want {wanted} got {len(arguments)}")
    try:
        return function(*arguments)
    except (TypeError, AttributeError, ValueError) as error:
        raise Invalid(f"template parsing error: error calling {name}: wrong type of argument") from error


def shown(value: Any) -> str:
    """A value as Go prints it: `map[a:1 b:2]`, `[1 2]`, `<nil>`, `true`."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Named):
        return value.text
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{shown(each)}" for key, each in sorted(value.items())) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(shown, value)) + "]"
    if isinstance(value, float):
        return f"{value:.6g}" if value != int(value) or abs(value) >= 1e21 else f"{value:g}"
    return str(value)


def kind(value: Any) -> str:
    """The name of a value's type in Go."""
    names = {bool: "bool", str: "string", int: "int", float: "float64", list: "[]interface {}", type(None): "nil"}
    return names.get(type(value), "map[string]interface {}")


def compact(value: Any) -> str:
    """A value as JSON on one line, as docker writes it: of rows alone HTML's own characters are escaped."""
    if not isinstance(value, Fields):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    # A row may have values that are no text (its platform), and functions.
    plain = {name: each for name in sorted(value) if not callable(each := value[name])}
    text = json.dumps(plain, separators=(",", ":"), ensure_ascii=False)
    return text.translate(_IN_JSON)


def _index(value: Any, *keys: Any) -> Any:
    for key in keys:
        if isinstance(value, dict):
            # What is not in a map is its kind of nothing.
            value = value.get(key, "")
        elif isinstance(value, list | str) and isinstance(key, int):
            if not 0 <= key < len(value):
                raise Invalid(f"template parsing error: error calling index: index out of range: {key}")
            value = value[key]
        elif value is None:
            raise Invalid("template parsing error: error calling index: index of nil pointer")
        else:
            raise Invalid(f"template parsing error: error calling index: can't index item of type {kind(value)}")
    return value


def _slice(value: Any, *places: int) -> Any:
    first, last = places[0] if places else 0, places[1] if len(places) > 1 else len(value)
    if not all(isinstance(place, int) for place in places) or not 0 <= first <= last <= len(value):
        raise Invalid(f"template parsing error: error calling slice: invalid slice index {first}:{last}")
    return value[first:last]


def _html(*values: Any) -> str:
    return "".join(map(shown, values)).translate(_IN_HTML)


def _printf(form: str, *values: Any) -> str:
    return goformat.formatted(form, values, shown, kind)


def _join(values: Sequence[str], separator: str) -> str:
    return separator.join(values)


def _split(text: str, separator: str) -> list[str]:
    return text.split(separator) if separator else list(text)


def _title(text: str) -> str:
    return " ".join(word[:1].upper() + word[1:] for word in text.split(" "))


def _truncate(text: str, length: int) -> str:
    return text[:length]


def _pad(text: str, before: int, after: int) -> str:
    return f"{' ' * before}{text}{' ' * after}" if text else text


def _print(*values: Any) -> str:
    # Go puts a blank between two that are no strings.
    text = ""
    for at, value in enumerate(values):
        blank = at and not isinstance(value, str) and not isinstance(values[at - 1], str)
        text += (" " if blank else "") + shown(value)
    return text


def _println(*values: Any) -> str:
    return " ".join(map(shown, values)) + "\n"


def _eq(value: Any, *others: Any) -> bool:
    return any(value == other for other in others)


def _and(*values: Any) -> Any:
    return next((value for value in values if not value), values[-1])


def _or(*values: Any) -> Any:
    return next((value for value in values if value), values[-1])


# name → the function, and how many arguments it takes: at least, at most (None: any number)
_FUNCTIONS: dict[str, tuple[Callable[..., Any], int, int | None]] = {
    "json": (compact, 1, 1),
    "join": (_join, 2, 2),
    "split": (_split, 2, 2),
    "upper": (str.upper, 1, 1),
    "lower": (str.lower, 1, 1),
    "title": (_title, 1, 1),
    "truncate": (_truncate, 2, 2),
    "pad": (_pad, 3, 3),
    "index": (_index, 1, None),
    "len": (len, 1, 1),
    "print": (_print, 0, None),
    "println": (_println, 0, None),
    "printf": (_printf, 1, None),
    "html": (_html, 1, None),
    "slice": (_slice, 1, 3),
    "eq": (_eq, 2, None),
    "ne": (lambda one, other: one != other, 2, 2),
    "lt": (lambda one, other: one < other, 2, 2),
    "le": (lambda one, other: one <= other, 2, 2),
    "gt": (lambda one, other: one > other, 2, 2),
    "ge": (lambda one, other: one >= other, 2, 2),
    "and": (_and, 1, None),
    "or": (_or, 1, None),
    "not": (lambda value: not value, 1, 1),
}
