"""The filters of GET /networks and POST /networks/prune: compiles names and values into one test of a network.

Pure; runs in the daemon's request threads. One matching value of a filter is enough, but for labels all must match.
"""

import time
from collections.abc import Callable, Iterable, Mapping

from engine.daemon.network.record import Network
from engine.daemon.patterns import matcher
from engine.errors import Invalid
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded by the first filter of times, with datetime
    from engine.daemon import moments
else:
    moments = late("engine.daemon.moments")

Values = tuple[str, ...]
Match = Callable[[Network], bool]

_BOOLEANS = {"1": True, "true": True, "0": False, "false": False}
_TYPES = {"builtin": True, "custom": False}


def listed(filters: Mapping[str, Values], in_use: Callable[[Network], bool]) -> Match:
    """The test for GET /networks. in_use: returns whether a network has endpoints. Raises Invalid."""
    return _all(filters, {**_LISTING, "dangling": lambda values: _dangling(values, in_use)})


def pruned(filters: Mapping[str, Values]) -> Match:
    """The test for POST /networks/prune. Raises Invalid."""
    return _all(filters, _PRUNING)


def _all(filters: Mapping[str, Values], known: Mapping[str, Callable[[Values], Match]]) -> Match:
    for name in filters:
        if name not in known:
            raise Invalid(f"invalid filter '{name}'")
    matches = [known[name](values) for name, values in filters.items() if values]
    return lambda network: all(match(network) for match in matches)


def _dangling(values: Values, in_use: Callable[[Network], bool]) -> Match:
    if len(values) > 1:
        raise Invalid('got more than one value for filter key "dangling"')
    if values[0] not in _BOOLEANS:
        raise Invalid("""invalid value for filter 'dangling': must be "true" (or "1"), or "false" (or "0")""")
    wanted = _BOOLEANS[values[0]]
    return lambda network: (not network.builtin and not in_use(network)) is wanted


def _type(values: Values) -> Match:
    if not set(values) <= _TYPES.keys():
        raise Invalid("invalid value for filter 'type': must be 'builtin' or 'custom'")
    return lambda network: network.builtin in {_TYPES[value] for value in values}


def _pattern(text: Callable[[Network], str]) -> Callable[[Values], Match]:
    def compile_values(values: Values) -> Match:
        passes = matcher(values)
        return lambda network: passes(text(network))

    return compile_values


def _labels(values: Values) -> Match:
    wanted = [value.partition("=") for value in values]
    return lambda network: _has(network.labels, wanted)


def _has(labels: Mapping[str, str], wanted: Iterable[tuple[str, str, str]]) -> bool:
    return all(name in labels and (not equals or labels[name] == value) for name, equals, value in wanted)


def _without_labels(values: Values) -> Match:
    wanted = [value.partition("=") for value in values]
    return lambda network: not _has(network.labels, wanted)


def _until(values: Values) -> Match:
    if len(values) > 1:
        raise Invalid("invalid filter: 'until' cannot be specified more than once")
    until_ns = moments.parse(values[0], time.time_ns())
    return lambda network: network.created_ns <= until_ns


_LISTING: dict[str, Callable[[Values], Match]] = {
    "driver": lambda values: lambda network: network.driver in values,
    "id": _pattern(lambda network: network.id),
    "label": _labels,
    "name": _pattern(lambda network: network.name),
    "scope": lambda values: lambda network: network.scope in values,
    "type": _type,
}
_PRUNING: dict[str, Callable[[Values], Match]] = {"label": _labels, "label!": _without_labels, "until": _until}
