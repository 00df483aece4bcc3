"""Formats sizes, ages, short ids and tables for the client as docker shows them, and parses sizes and times as docker
takes them.

Pure; it reads no clock: the caller passes the time.
"""

import re
import time
from collections.abc import Sequence

from engine.errors import Invalid
from engine.literals import quoted

_BYTES = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([kmgtp]?)i?(b?)", re.IGNORECASE)
_FRACTION = re.compile(r"(?<=:\d\d)\.(\d{1,9})(?!\d)", re.ASCII)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ns|us|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
_NARROWEST, _APART = 10, 3  # of docker's tables
_DECIMAL = ("B", "kB", "MB", "GB", "TB", "PB")
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
# (limit, unit, name): below `limit` seconds an age is shown in units of `unit` seconds (go-units, HumanDuration)
_AGES = (
    (60, 1, "second"),
    (3600, 60, "minute"),
    (48 * 3600, 3600, "hour"),
    (14 * 86400, 86400, "day"),
    (60 * 86400, 7 * 86400, "week"),
    (2 * 365 * 86400, 30 * 86400, "month"),
)


def parse_size(text: str) -> int:
    """A size with a unit (`64m`, `1.5g`, `1024`), in bytes; units are powers of 1024. Raises Invalid."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise Invalid(f"invalid size: '{text}'")
    return int(float(match[1]) * _BYTES[match[2].lower()])


def parse_time(text: str, now: float) -> str:
    """A time (Unix time, RFC 3339, or an age: `10m`, `1h30m`) as the API takes it. Raises Invalid."""
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return text
    if parts := _DURATION.findall(text):
        if "".join(number + unit for number, unit in parts) == text:
            return f"{now - sum(float(number) * _SECONDS[unit] for number, unit in parts):.9f}"
        raise Invalid(f"failed to parse value as time or duration: {quoted(text)}")
    # loaded for this form of a time alone
    from datetime import datetime

    fraction = _FRACTION.search(text)  # datetime keeps six digits of it, and times of lines have nine
    try:
        found = datetime.fromisoformat(_FRACTION.sub("", text))
    except ValueError as error:
        raise Invalid(f"failed to parse value as time or duration: {quoted(text)}") from error
    return f"{found.astimezone().timestamp():.0f}.{fraction[1] if fraction else '':0<9}"


def size(count: int) -> str:
    """A number of bytes, shown with three digits: `4.27MB`."""
    return _scaled(count, 1000, _DECIMAL, 3)


def shown_size(count: int) -> str:
    """A number of bytes, shown with four digits: `4.272MB`."""
    return _scaled(count, 1000, _DECIMAL, 4)


def binary_size(count: float) -> str:
    """A number of bytes in powers of 1024, shown with four digits: `7.656GiB`."""
    return _scaled(count, 1024, _BINARY, 4)


def _scaled(count: float, step: int, units: Sequence[str], digits: int) -> str:
    """A number in the largest unit in which it is not below one."""
    value = float(count)
    for unit in units:
        text = f"{value:.{digits}g}"
        if float(text) < step or unit == units[-1]:
            break
        value /= step
    return f"{text}{unit}"


def age(seconds: float) -> str:
    """An age in seconds, shown in words: `5 minutes`, `About an hour`."""
    seconds = int(max(seconds, 0))
    if seconds < 1:
        return "Less than a second"
    if 60 <= seconds < 120:
        return "About a minute"
    if 3600 <= seconds < 90 * 60:
        return "About an hour"
    for below, one, name in _AGES:
        if seconds < below:
            count = (seconds + 1800) // one if name == "hour" else seconds // one
            return f"{count} {name}" + ("s" if count != 1 else "")
    return f"{seconds // (365 * 86400)} years"


def moment(seconds: float) -> str:
    """A Unix time in this host's zone, as Go prints it: `2026-11-23 18:00:00 +0000 UTC`."""
    return time.strftime("%Y-%m-%d %H:%M:%S %z %Z", time.localtime(seconds))


def columns(heads: Sequence[str], rows: Sequence[Sequence[str]], narrowest: int = _NARROWEST) -> str:
    """A table as text: its columns three spaces apart, each with room for so many characters."""
    table = [list(heads), *map(list, rows)]
    widths = [max(narrowest, *(len(row[index]) + _APART for row in table)) for index in range(len(heads))]
    return "\n".join(
        "".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table
    )


def shortened(text: str, most: int) -> str:
    """The text, cut to `most` characters with an ellipsis."""
    return text if len(text) <= most else text[: most - 1] + "…"


def short_id(identity: str) -> str:
    """An id as docker shows it: the first 12 digits, without the algorithm."""
    return identity.removeprefix("sha256:")[:12]
