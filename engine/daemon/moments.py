"""Parses the timestamps that clients write in filters: an age, a date with or without time and zone, or seconds.

Used by the daemon's request threads; it asks the host for its time zone. The forms are those of docker's command line
and API (`until=10m`, `until=2026-11-20T05:38`, `until=1795153093.5`), and what is wrong with a text is told as Go's
`time.Parse` tells it. `clock` formats timestamps.
"""

import contextlib
import re
import time
from datetime import UTC, datetime, timedelta

from engine.daemon.clock import SECOND
from engine.errors import Invalid
from engine.literals import duration, quoted, timestamp

# An element of Go's layouts → the texts that it takes, and the name and bounds of its number. Go takes a fraction of a
# second also where the layout has none, and each month has a bound of its own for the day.
_ELEMENTS = {
    "2006": (re.compile(r"(\d{4})", re.ASCII), "year", 0, 9999),
    "01": (re.compile(r"(\d\d)", re.ASCII), "month", 1, 12),
    "02": (re.compile(r"(\d\d)", re.ASCII), "day", 0, 99),
    "15": (re.compile(r"(\d\d?)", re.ASCII), "hour", 0, 23),
    "04": (re.compile(r"(\d\d)", re.ASCII), "minute", 0, 59),
    "05": (re.compile(r"(\d\d)(?:[.,](\d+))?", re.ASCII), "second", 0, 59),
    "Z07:00": (re.compile(r"Z|([+-]\d\d):(\d\d)", re.ASCII), "time zone offset hour", -24, 24),
    **{mark: (re.compile(mark), "", 0, 0) for mark in "-T:"},
}
_LAYOUT = re.compile(r"2006|0[1-5]|15|Z07:00|[-T:]")
_TIMES = ("T15", "T15:04", "T15:04:05")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FOUR_CENTURIES = 146_097 * 86_400  # seconds, after which the calendar repeats


def parse(text: str, now_ns: int) -> int:
    """The moment in nanoseconds since the epoch; an age is subtracted from `now_ns`. Raises Invalid."""
    if not text.strip():
        raise Invalid("failed to parse value as time or duration: value is empty")
    if text != "0":
        with contextlib.suppress(Invalid):
            return now_ns - duration(text)
    try:
        return _date(text, _layout(text), now_ns)
    except Invalid:
        if "-" in text:
            raise
    try:
        return timestamp(text)
    except Invalid as error:
        why = str(error).removeprefix(f"invalid timestamp {quoted(text)}: ")
        raise Invalid(f"failed to parse value as time or duration: {why}") from error


def _layout(text: str) -> str:
    """The layout of Go's that dockerd reads a text of this look by."""
    zoned = any(mark in text for mark in "zZ+") or text.count("-") == 3
    if "." in text:
        clock = f"{_TIMES[2]}.999999999"
    elif "T" in text:
        colons = text.count(":") - (zoned and ":" in text and not any(mark in text for mark in "zZ"))
        clock = _TIMES[min(colons, 2)]
    else:
        clock = ""
    return f"2006-01-02{clock}{'Z07:00' * zoned}"


def _date(text: str, layout: str, now_ns: int) -> int:
    found: dict[str, tuple[str, ...]] = {}
    rest, said = text, f"parsing time {_quoted(text)}"
    for element in _LAYOUT.findall(layout):
        pattern, name, low, high = _ELEMENTS[element]
        part = pattern.match(rest)
        if part is None:
            raise Invalid(f'{said} as "{layout}": cannot parse {_quoted(rest)} as "{element}"')
        found[element], rest = part.groups(""), rest[part.end() :]
        if name and not low <= int(part[1] or 0) <= high:
            raise Invalid(f"{said}: {name} out of range")
    if "Z07:00" in found and int(found["Z07:00"][1] or 0) > 60:
        raise Invalid(f"{said}: time zone offset minute out of range")
    if rest:
        raise Invalid(f"{said}: extra text: {_quoted(rest)}")
    year, month, day, hour, minute, second = (int(found.get(name, "0")[0]) for name in tuple(_ELEMENTS)[:6])
    try:  # Python has no year 0
        moment = datetime(year or 400, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError as error:
        raise Invalid(f"{said}: day out of range") from error
    seconds = (moment - _EPOCH) // timedelta(seconds=1) - (0 if year else _FOUR_CENTURIES)
    fraction = found["05"][1] if "05" in found else ""
    return (seconds - _offset(found.get("Z07:00"), now_ns)) * SECOND + int(fraction[:9].ljust(9, "0"))


def _offset(zone: tuple[str, ...] | None, now_ns: int) -> int:
    """Seconds that a zone is ahead; without a zone it is that which the host has now."""
    if zone is None:
        return time.localtime(now_ns // SECOND).tm_gmtoff
    hours, minutes = zone
    return int(f"{hours[:1]}1") * (int(hours[1:] or 0) * 60 + int(minutes or 0)) * 60


def _quoted(text: str) -> str:
    """A text as Go's package `time` quotes it."""
    plain = text.replace("\\", "\\\\").replace('"', '\\"').encode()
    return '"' + "".join(chr(byte) if 0x20 <= byte < 0x80 else f"\\x{byte:02x}" for byte in plain) + '"'
