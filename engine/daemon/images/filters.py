"""The filters of listing and pruning images (GET /images/json, POST /images/prune), as functions that judge an image.

Runs in the daemon's request threads, and changes nothing. One row of `FILTERS` is one filter of the API. Several values
of a filter mean "any of them", except for labels, which the image must all have, and for moments, before all of which
it must have been made.
"""

import contextlib
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from engine.daemon.images.catalogue import Catalogue
from engine.daemon.images.image import Image
from engine.daemon.images.reference import Reference
from engine.daemon.patterns import truth
from engine.errors import Invalid
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded by the first filter of times, with datetime
    from engine.daemon import moments
else:
    moments = late("engine.daemon.moments")

Match = Callable[[Image], bool]

_SECOND = 1_000_000_000
# Longer than any name that a pattern is written for. It bounds the time of a search.
_LONGEST_PATTERN = 512


def compile_filters(
    store: Catalogue, filters: Mapping[str, Sequence[str]], allowed: Iterable[str] | None = None
) -> list[Match]:
    """One function for each filter; an image passes if all of them return True.

    allowed: names of the filters that the endpoint takes, None for all. Raises Invalid for an unknown filter or value,
        NotFound for an unknown image.
    """
    known = FILTERS if allowed is None else {name: FILTERS[name] for name in allowed}
    for name in filters:
        if name not in known:
            raise Invalid(f"invalid filter '{name}'")
    return [known[name](store, values) for name, values in filters.items() if values]


def created_ns(image: Image) -> int | None:
    """The creation time in the image's config, in ns since the epoch; None when it has none that can be parsed."""
    try:
        return moments.parse(image.created, 0)
    except Invalid:
        return None


def _dangling(_: Catalogue, values: Sequence[str]) -> Match:
    wanted = truth("dangling", values)
    return lambda image: bool(image.names) != wanted


def _label(_: Catalogue, values: Sequence[str]) -> Match:
    pairs = [value.partition("=") for value in values]

    def test(image: Image) -> bool:
        labels = (image.config.get("config") or {}).get("Labels") or {}
        return all(key in labels and (not equals or labels[key] == value) for key, equals, value in pairs)

    return test


def _not_label(store: Catalogue, values: Sequence[str]) -> Match:
    tests = [_label(store, [value]) for value in values]
    return lambda image: not any(test(image) for test in tests)


def _reference(_: Catalogue, values: Sequence[str]) -> Match:
    matches = by_reference(values)
    return lambda image: any(matches(Reference.parse(name)) for name in image.names)


def by_reference(values: Sequence[str]) -> Callable[[Reference], bool]:
    """A function that tells whether a name matches any of these patterns. Raises Invalid for one that is too long.

    A name is compared with its tag and without, in its short form and in its whole form. A malformed pattern matches
    nothing.
    """
    patterns = []
    for value in values:
        if len(value) > _LONGEST_PATTERN:
            raise Invalid(f"invalid filter 'reference={value[:32]}...': the pattern is too long")
        with contextlib.suppress(Invalid):
            patterns.append(glob(value))

    def matches(name: Reference) -> bool:
        texts = (name.familiar, name.familiar_name, name.with_default_tag().canonical, name.name)
        return any(pattern.fullmatch(text) for pattern in patterns for text in texts)

    return matches


# A part of a pattern: a class in brackets, an escaped character, or one character.
_PART = re.compile(r"\[(\^?)((?:\\.|[^\]\\])+)\]|\\(.)|(.)", re.DOTALL)
_MEMBER = re.compile(r"(\\.|[^\\-])(?:-(\\.|[^\\-]))?", re.DOTALL)


def glob(pattern: str) -> re.Pattern[str]:
    """The regular expression for a pattern of Go's path.Match, where `*` and `?` match no slash.

    A star takes as few characters as it can and does not backtrack, so no pattern makes the search slow. Raises
    Invalid.
    """
    pieces, place = [""], 0
    while place < len(pattern):
        part = _PART.match(pattern, place)
        if part is None or part[4] in ("[", "\\"):
            raise Invalid("syntax error in pattern")
        place = part.end()
        if part[4] == "*":
            pieces.append("")
        elif part[2]:
            pieces[-1] += _class(pattern, part[1], part[2])
        else:
            pieces[-1] += "[^/]" if part[4] == "?" else re.escape(part[3] or part[4])
    first, *rest = pieces
    if not rest:
        return re.compile(first)
    *middle, last = rest
    return re.compile(first + "".join(f"(?>[^/]*?{piece})" for piece in middle) + f"[^/]*{last}")


def _class(pattern: str, negated: str, members: str) -> str:
    shown, place = "", 0
    while place < len(members):
        found = _MEMBER.match(members, place)
        low, high = (end.removeprefix("\\") for end in (found[1], found[2] or found[1])) if found else ("b", "a")
        if found is None or low > high:
            raise Invalid("syntax error in pattern")
        shown += f"{re.escape(low)}-{re.escape(high)}"
        place = found.end()
    return f"(?!/)[{negated}{shown}]"


def _before(store: Catalogue, values: Sequence[str]) -> Match:
    limits = [limit for value in values if (limit := created_ns(store.find(value))) is not None]
    return lambda image: (made := created_ns(image)) is not None and any(made < limit for limit in limits)


def _since(store: Catalogue, values: Sequence[str]) -> Match:
    limits = [limit for value in values if (limit := created_ns(store.find(value))) is not None]
    # An image without a date counts as older than all images that have one.
    undated = len(limits) < len(values)
    return lambda image: (made := created_ns(image)) is not None and (undated or any(made > limit for limit in limits))


def _until(_: Catalogue, values: Sequence[str]) -> Match:
    now = time.time_ns()
    try:
        limit = min(moments.parse(value, now) for value in values)
    except Invalid as error:
        raise Invalid(f"invalid value for 'until' filter: {error}") from error
    return lambda image: (created_ns(image) or 0) < limit


FILTERS: dict[str, Callable[[Catalogue, Sequence[str]], Match]] = {
    "dangling": _dangling,
    "label": _label,
    "label!": _not_label,
    "reference": _reference,
    "before": _before,
    "since": _since,
    "until": _until,
}
