"""Parses the timestamps that clients write in filters: an age, a date with or without time and zone, or seconds.

Pure; used by the daemon's request threads. The forms are those of docker's command line and API (`until=10m`,
`until=2026-11-20T05:38`, `until=1795153093.5`). `clock` formats timestamps.
"""

import contextlib
import re
from datetime import UTC, datetime, timedelta

from engine.daemon.clock import SECOND
from engine.errors import Invalid
from engine.literals import duration, quoted, timestamp

_SECONDS = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?")
_DATE = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:T(\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d{1,18}))?)?)?)?(Z|[+-]\d\d:\d\d)?", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse(text: str, now_ns: int) -> int:
    """The moment in nanoseconds since the epoch; an age is subtracted from `now_ns`. Raises Invalid."""
    if date := _DATE.fullmatch(text):
        return _date(text, date)
    if not _SECONDS.fullmatch(text):
        with contextlib.suppress(Invalid):
            return now_ns - duration(text)
    try:
        return timestamp(text)
    except Invalid as error:
        why = str(error).removeprefix(f"invalid timestamp {quoted(text)}: ") if text else "value is empty"
        raise Invalid(f"failed to parse value as time or duration: {why}") from error


def _date(text: str, found: re.Match[str]) -> int:
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    try:
        moment = datetime(int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0))
        moment = moment.astimezone() if zone is None else moment.replace(tzinfo=UTC) - _offset(zone)
    except (ValueError, OverflowError) as error:
        raise Invalid(f"parsing time {quoted(text)}: {str(error).split()[0]} out of range") from error
    whole = (moment - _EPOCH) // timedelta(seconds=1)
    return whole * SECOND + int((fraction or "")[:9].ljust(9, "0"))


def _offset(zone: str) -> timedelta:
    if zone == "Z":
        return timedelta()
    length = timedelta(hours=int(zone[1:3]), minutes=int(zone[4:6]))
    return -length if zone[0] == "-" else length
