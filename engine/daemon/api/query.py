"""Reads the parameters of a request's query string: texts, flags, numbers, timestamps and filters as dockerd reads
them.

Pure; belongs to the request's thread. The query is parsed at the first access, since most requests have none.
"""

from collections.abc import Iterable

from engine.errors import Invalid
from engine.late import TYPE_CHECKING, late
from engine.literals import integer, quoted, timestamp
from engine.protocols.http import percent_decoded
from engine.regex import regex

if TYPE_CHECKING:  # loaded with the first filter
    from engine.daemon.api import body
else:
    body = late("engine.daemon.api.body")

_FALSE = frozenset({"", "0", "no", "false", "none"})
_BAD_ESCAPE = regex(r"%(?:[^0-9A-Fa-f]|[0-9A-Fa-f][^0-9A-Fa-f]|.?$)")


class Query:
    """The parameters of a query. Of a parameter that is given more than once the first value counts,
    except in `every`.
    """

    __slots__ = ("_raw", "_values")

    def __init__(self, raw: str):
        self._raw = raw
        self._values: dict[str, list[str]] | None = None if raw else {}

    def _all(self) -> dict[str, list[str]]:
        if self._values is None:
            self._values = parse_query(self._raw)
        return self._values

    def __contains__(self, name: str) -> bool:
        return name in self._all()

    def drop(self, names: Iterable[str]) -> None:
        """Forget these parameters. Raises Invalid for a malformed query."""
        for name in names:
            self._all().pop(name, None)

    def every(self, name: str) -> list[str]:
        """All values of a parameter, in order."""
        return list(self._all().get(name, ()))

    def text(self, name: str, default: str = "") -> str:
        """A parameter's value as the client gave it; `default` when it is not given."""
        values = self._all().get(name)
        return values[0] if values else default

    def flag(self, name: str, default: bool = False) -> bool:
        """False for an empty text, 0, no, false and none, True for all else; `default` when it is not given."""
        values = self._all().get(name)
        return values[0].strip().lower() not in _FALSE if values else default

    def number(self, name: str, default: int | None = None) -> int | None:
        """A decimal number; `default` when it is not given or empty. Raises Invalid in the words of Go's strconv."""
        text = self.text(name)
        if not text:
            return default
        return integer(text)

    def timestamp(self, name: str) -> int | None:
        """A moment `seconds[.fraction]` in nanoseconds since the epoch; None when it is not given. Raises Invalid."""
        text = self.text(name)
        if not text:
            return None
        try:
            return timestamp(text)
        except Invalid as error:
            raise Invalid(f'invalid value for "{name}": {error}') from error

    def filters(self, allowed: Iterable[str] | None = None) -> dict[str, tuple[str, ...]]:
        """The parameter `filters`, by name; raises Invalid for malformed filters, and for a name not in `allowed`."""
        filters = parse_filters(self.text("filters"))
        if allowed is not None:
            for name in filters:
                if name not in allowed:
                    raise Invalid(f"invalid filter '{name}'")
        return filters


def parse_query(raw: str) -> dict[str, list[str]]:
    """A raw query as names and their values, by the rules of Go's url.ParseQuery. Raises Invalid."""
    values: dict[str, list[str]] = {}
    for pair in raw.split("&"):
        if not pair:
            continue
        if ";" in pair:
            raise Invalid("invalid semicolon separator in query")
        name, _, value = pair.partition("=")
        values.setdefault(_unescape(name), []).append(_unescape(value))
    return values


def _unescape(text: str) -> str:
    if bad := _BAD_ESCAPE.search(text):
        raise Invalid(f"invalid URL escape {quoted(text[bad.start() : bad.start() + 3])}")
    return percent_decoded(text.replace("+", " ").encode("latin-1")).decode("utf-8", "replace")


def parse_filters(text: str) -> dict[str, tuple[str, ...]]:
    """Filters in JSON, given as `{"name": ["value"]}` or `{"name": {"value": true}}`, as names and values.

    A value that is given twice counts once, as in docker. Raises Invalid.
    """
    if not text:
        return {}
    try:
        decoded, rest = body.load(text.encode("utf-8", "replace"))
    except Invalid as error:
        raise Invalid("invalid filter") from error
    if not isinstance(decoded, dict) or rest.strip():
        raise Invalid("invalid filter")
    return {name: _filter_values(values) for name, values in decoded.items()}


def _filter_values(values: object) -> tuple[str, ...]:
    if isinstance(values, dict) and all(isinstance(chosen, bool) for chosen in values.values()):
        return tuple(value for value, chosen in values.items() if chosen)
    if isinstance(values, list) and all(isinstance(value, str) for value in values):
        return tuple(dict.fromkeys(values))
    raise Invalid("invalid filter")
