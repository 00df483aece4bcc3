"""Checks values of options that several verbs take: whole numbers, sizes, labels, limits.

Pure. A check gives the text back as it is, or raises Invalid in docker's words.
"""

from engine.client.display import parse_size
from engine.errors import Invalid
from engine.literals import integer


def number(text: str) -> str:
    """Checks an integer. Raises Invalid."""
    integer(text, reader="strconv.ParseInt")
    return text


def size(text: str) -> str:
    """Checks a size, such as `64m`. Raises Invalid."""
    parse_size(text)
    return text


def swap(text: str) -> str:
    """Checks a size, or -1 for no limit. Raises Invalid."""
    return text if text == "-1" else size(text)


def pair(text: str) -> str:
    """Checks `name` or `name=value`. Raises Invalid."""
    if not text.partition("=")[0]:
        raise Invalid(f"invalid label '{text}': empty name")
    return text


def mapped(values: tuple[str, ...]) -> dict[str, str]:
    """`name=value` texts as a map; a bare name has an empty value."""
    return {name: value for name, _, value in (text.partition("=") for text in values)}


def ulimit(text: str) -> str:
    """Checks `name=soft[:hard]`. Raises Invalid."""
    _ulimit(text)
    return text


def _ulimit(text: str) -> dict[str, str | int]:
    name, separator, numbers = text.partition("=")
    if not separator or numbers.count(":") > 1:
        raise Invalid(f"invalid ulimit argument: {text}")
    soft, _, hard = numbers.partition(":")
    low = integer(soft, reader="strconv.ParseInt")
    high = integer(hard, reader="strconv.ParseInt") if hard else low
    if low > high and high != -1:
        raise Invalid(f"ulimit soft limit must be less than or equal to hard limit: {low} > {high}")
    return {"Name": name, "Soft": low, "Hard": high}


def ulimits(values: tuple[str, ...]) -> list[dict[str, str | int]]:
    """Those that `ulimit` has checked, as the API takes them."""
    return list(map(_ulimit, values))
