"""Reads `--filter name=value` for the client's verbs that list, prune or watch.

Pure.
"""

from collections.abc import Sequence

from engine.client.showing.gofunctions import compact
from engine.commandline import Option
from engine.errors import Invalid


def checked(text: str) -> str:
    """Checks one filter. Raises Invalid."""
    if "=" not in text:
        raise Invalid("bad format of filter (expected name=value)")
    return text


FILTER = Option(
    "filter",
    "Filter output based on conditions provided",
    short="f",
    kind="list",
    default=(),
    value="filter",
    check=checked,
)
PRUNE_FILTER = Option(
    "filter", 'Provide filter values (e.g. "until=<timestamp>")', kind="list", default=(), value="filter", check=checked
)


def query_of(texts: Sequence[str], *more: tuple[str, str]) -> str | None:
    """The filters as the API's JSON; None for none.

    more: (name, value) of filters that the user has not written
    """
    found: dict[str, list[str]] = {}
    for text in texts:
        key, _, value = text.partition("=")
        found.setdefault(key.strip().lower(), []).append(value.strip())
    for key, value in more:
        found.setdefault(key, []).append(value)
    return compact(found) if found else None
