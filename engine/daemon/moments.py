"""Moments as clients write them in filters: an age, a date with or without a time and a zone, or seconds.

Pure; used by the daemon's request threads. The forms are those of docker's command line and API (`until=10m`,
`until=2026-11-20T05:38`, `until=1795153093.5`).
"""

import re
from datetime import UTC, datetime, timedelta

from engine.daemon.clock import SECOND
from engine.errors import Invalid

_AGE = re.compile(r"([+-]?)((?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)")
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_UNITS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
_SECONDS = re.compile(r"([+-]?\d{1,18})(?:\.(\d{0,18}))?")
_DATE = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:T(\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d{1,18}))?)?)?)?(Z|[+-]\d\d:\d\d)?", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse(text: str, now_ns: int) -> int:
    """The moment in nanoseconds since the epoch; an age is counted back from `now_ns`. Raises Invalid."""
    if age := _AGE.fullmatch(text):
        length = sum(int(float(number) * _UNITS[unit]) for number, unit in _PART.findall(age[2]))
        return now_ns + length if age[1] == "-" else now_ns - length
    if date := _DATE.fullmatch(text):
        return _date(text, date)
    if seconds := _SECONDS.fullmatch(text):
        return int(seconds[1]) * SECOND + int((seconds[2] or "")[:9].ljust(9, "0"))
    raise Invalid(f'failed to parse value as time or duration: "{text}"')


def _date(text: str, found: re.Match) -> int:
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    try:
        moment = datetime(int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0))
        moment = moment.astimezone() if zone is None else moment.replace(tzinfo=UTC) - _offset(zone)
    except (ValueError, OverflowError) as error:
        raise Invalid(f'parsing time "{text}": {error}') from error
    whole = (moment - _EPOCH) // timedelta(seconds=1)
    return whole * SECOND + int((fraction or "")[:9].ljust(9, "0"))


def _offset(zone: str) -> timedelta:
    if zone == "Z":
        return timedelta()
    length = timedelta(hours=int(zone[1:3]), minutes=int(zone[4:6]))
    return -length if zone[0] == "-" else length
