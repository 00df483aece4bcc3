"""Which records of the build history a client's filters choose.

Pure. A filter is a line of comma-separated tests, which may be quoted as in CSV, and all of which must hold; of several
filters one has to hold. `startedAt`, `completedAt` and `duration` are compared with `>=`, `<=`, `>` or `<`. Further
tests are those of `fieldfilters`, on `ref`, `status` and `repository`.
"""

import csv
import operator
import time
from collections.abc import Callable, Iterable

from engine.daemon import moments
from engine.daemon.buildkit import fieldfilters
from engine.daemon.buildkit.messages.control import BuildHistoryRecord
from engine.daemon.buildkit.messages.known import Timestamp
from engine.errors import Invalid
from engine.literals import duration, quoted

Test = Callable[[BuildHistoryRecord], bool]

_SECOND = 1_000_000_000
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_MOST = 100


def compiled(filters: Iterable[str]) -> Test:
    """The test of these filters; all records pass where there is none. Raises Invalid."""
    given = list(filters)
    if len(given) > _MOST:
        raise Invalid("too many filters")
    found = [_line(each) for each in given]
    return lambda record: not found or any(all(test(record) for test in tests) for tests in found)


def _line(text: str) -> list[Test]:
    try:
        parts = next(csv.reader([text], strict=True), [])
    except csv.Error as error:
        raise Invalid(f"invalid filter {quoted(text)}: {error}") from error
    tests, others = [], []
    for part in parts:
        test = _compared(part)
        if test is None:
            others.append(part)
        else:
            tests.append(test)
    chosen = fieldfilters.compiled([",".join(others)])
    return [*tests, lambda record: chosen(lambda path: _field(record, path))]


def _compared(part: str) -> Test | None:
    """The test of a time or a duration; None for another field."""
    sign = next((each for each in _COMPARISONS if each in part), "")
    key, _, value = part.partition(sign) if sign else (part, "", "")
    if key not in _TIMES:
        return None
    if not sign:
        raise Invalid(f"invalid filter {quoted(part)}: it compares with nothing")
    of, seconds = _TIMES[key]
    compare, wanted = _COMPARISONS[sign], moments.parse(value, time.time_ns()) if seconds else duration(value)
    if seconds:
        return lambda record: compare(of(record) // _SECOND, wanted // _SECOND)
    return lambda record: compare(of(record), wanted)


def _ns(moment: Timestamp | None) -> int:
    return moment["seconds"] * _SECOND + moment["nanos"] if moment else 0


def _lasted(record: BuildHistoryRecord) -> int:
    end = record.get("CompletedAt")
    return _ns(end) - _ns(record["CreatedAt"]) if end else 0


# The nanoseconds of a field, and whether they are a moment, which is compared by whole seconds.
_TIMES: dict[str, tuple[Callable[[BuildHistoryRecord], int], bool]] = {
    "startedAt": (lambda record: _ns(record["CreatedAt"]), True),
    "completedAt": (lambda record: _ns(record.get("CompletedAt")), True),
    "duration": (_lasted, False),
}


def _status(record: BuildHistoryRecord) -> str:
    if not record.get("CompletedAt"):
        return "running"
    error = record.get("error")
    if error is None:
        return "completed"
    return "canceled" if "context canceled" in error["message"] else "error"


def _field(record: BuildHistoryRecord, path: tuple[str, ...]) -> str | None:
    match path[0]:
        case "ref":
            return record["Ref"] or None
        case "status":
            return _status(record)
        case "repository":
            attributes = record.get("FrontendAttrs", {})
            return attributes.get("vcs:source", _remote(attributes.get("context", "")))
    return None


def _remote(context: str) -> str | None:
    """The repository that a context is, without its branch; None for another context."""
    remote, _, _ = context.partition("#")
    return remote if remote.startswith(("git://", "git@", "ssh://")) or remote.endswith(".git") else None
