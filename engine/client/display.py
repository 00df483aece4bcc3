"""Formats sizes, ages, short ids and tables for the client as docker shows them, and parses sizes and times as docker
takes them.

Pure; it reads no clock: the caller passes the time.
"""

import re
from collections.abc import Sequence
from datetime import datetime

from engine.errors import Invalid

_BYTES = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([kmgtp]?)i?(b?)", re.IGNORECASE)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ns|us|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
_DECIMAL = ("B", "kB", "MB", "GB", "TB", "PB")
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
        raise Invalid(f"invalid time: {text}")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise Invalid(f"invalid time: {text}") from error
    return f"{moment.astimezone().timestamp():.9f}"


def size(count: int) -> str:
    """A number of bytes, shown with three digits: `4.27MB`."""
    value = float(count)
    for unit in _DECIMAL:
        if value < 999.5 or unit == _DECIMAL[-1]:
            break
        value /= 1000
    return f"{value:.3g}{unit}"


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


def columns(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as text, its columns three spaces apart."""
    table = [list(heads), *map(list, rows)]
    widths = [max(len(row[index]) for row in table) for index in range(len(heads))]
    return "\n".join(
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table
    )


def shortened(text: str, most: int) -> str:
    """The text, cut to `most` characters with an ellipsis."""
    return text if len(text) <= most else text[: most - 1] + "…"


def short_id(identity: str) -> str:
    """An id as docker shows it: the first 12 digits, without the algorithm."""
    return identity.removeprefix("sha256:")[:12]
