"""Measures how long the daemon's actions take, and counts what happens, for a daemon that serves metrics.

Any thread of the daemon measures. A daemon without `--metrics-addr` measures nothing: each call costs one look at a
flag. `api.metricspage` shows what was measured; the names and the buckets are dockerd's.
"""

import functools
import threading
from collections.abc import Callable
from time import monotonic

from engine.annotating import Any, TypeVar, cast
from engine.dataclass import dataclass, field

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
"""The upper bounds of the buckets of durations, in seconds."""
TIMERS = {
    "container_actions": ("action", "The number of seconds it takes to process each container action"),
    "network_actions": ("action", "The number of seconds it takes to process each network action"),
    "image_actions": ("action", "The number of seconds it takes to process each image action"),
    "host_info_functions": ("function", "The number of seconds it takes to call functions gathering info of the host"),
    "health_check_start_duration": ("", "The number of seconds it takes to prepare to run health checks"),
}
"""Family of durations → the label that tells its actions apart, empty for one without actions, and its help."""
_SHOWN_AT_ONCE = (
    *(("container_actions", each) for each in ("changes", "commit", "create", "delete", "start")),
    ("health_check_start_duration", ""),
)

_Function = TypeVar("_Function", bound=Callable[..., object])


@dataclass(slots=True)
class Durations:
    """How often an action was done, how long all of them took, and how many took at most so long as each bucket says.

    seconds: the sum
    """

    count: int = 0
    seconds: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * len(BUCKETS))


class _Measures:
    """All that was measured since the daemon's start. on: somebody wants to know"""

    def __init__(self) -> None:
        self.on = False
        self.lock = threading.Lock()
        self.durations: dict[tuple[str, str], Durations] = {}
        self.counts: dict[tuple[str, str], int] = {}


_measures = _Measures()


def begin() -> None:
    """Measure from now on. dockerd shows some actions before they were done once."""
    for each in _SHOWN_AT_ONCE:
        _measures.durations.setdefault(each, Durations())
    _measures.on = True


def timed(family: str, action: str) -> Callable[[_Function], _Function]:
    """Measure each call of a function that ends without an error."""

    def around(function: _Function) -> _Function:
        @functools.wraps(function)
        def measuring(*arguments: Any, **named: Any) -> object:
            if not _measures.on:
                return function(*arguments, **named)
            began = monotonic()
            result = function(*arguments, **named)
            _add(family, action, monotonic() - began)
            return result

        return cast("_Function", measuring)

    return around


def _add(family: str, action: str, seconds: float) -> None:
    with _measures.lock:
        found = _measures.durations.setdefault((family, action), Durations())
        found.count += 1
        found.seconds += seconds
        for number, bound in enumerate(BUCKETS):
            found.buckets[number] += seconds <= bound


def count(name: str, reason: str = "") -> None:
    """Count one more of this name, and of this reason, if it has reasons."""
    if _measures.on:
        with _measures.lock:
            _measures.counts[name, reason] = _measures.counts.get((name, reason), 0) + 1


def counted(name: str, reason: str = "") -> int:
    """How many of this name, and of this reason, were counted."""
    return _measures.counts.get((name, reason), 0)


def durations() -> dict[tuple[str, str], Durations]:
    """(family, action) → what was measured of it, as it is at this moment."""
    with _measures.lock:
        return {
            key: Durations(each.count, each.seconds, list(each.buckets)) for key, each in _measures.durations.items()
        }
