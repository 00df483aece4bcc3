"""Parses the lines of a log of JSON lines (driver `json-file`) into messages.

Pure; used by the reader in the daemon's threads and by a monitor. Whichever program wrote a line (dockerd, this
engine), and whatever the line contains, it is a message or it is passed over.
"""

import json
import re

from engine.dataclass import dataclass
from engine.logs.format import STDERR, STDOUT

_STREAMS = {"stdout": STDOUT, "stderr": STDERR}
_FAST_STREAMS = {b'stdout","time":"': STDOUT, b'stderr","time":"': STDERR}
_BEGIN, _BETWEEN = b'{"log":"', b'","stream":"'
_TIME = re.compile(rb"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?Z")
_LONE = re.compile("[\ud800-\udfff]")
_ZONED = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9})\d*)?(?:Z|([+-])(\d\d):(\d\d))")


@dataclass(slots=True)
class Message:
    """One line: its stream (1, 2), its time in ns, the bytes that the container wrote, and its attributes or None.

    Not frozen, because frozen objects are slower to make.
    """

    stream: int
    time_ns: int
    text: bytes
    attributes: dict[str, str] | None = None


_seconds: tuple[bytes, int] = (b"", 0)


def _epoch(year: int, month: int, day: int, hour: int, minute: int, second: int) -> int:
    """Seconds since the epoch (Howard Hinnant's days_from_civil)."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    days = era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + day_of_year - 719468
    return ((days * 24 + hour) * 60 + minute) * 60 + second


def parse_time(text: bytes) -> int | None:
    """RFC 3339 in UTC as ns since the epoch; None for anything else."""
    global _seconds
    known, seconds = _seconds  # read in one step, because threads share it
    if text[:19] != known:
        found = _TIME.fullmatch(text)
        if found is None:
            return None
        seconds = _epoch(*map(int, found.groups()[:6]))
        _seconds = (text[:19], seconds)
    fraction = text[20:-1]
    if text[-1:] != b"Z" or len(fraction) > 9 or (fraction and not fraction.isdigit()):
        return None
    return seconds * 1_000_000_000 + (int(fraction) * 10 ** (9 - len(fraction)) if fraction else 0)


def parse(line: bytes) -> Message | None:
    """The message in a line (with its end or without); None when there is none."""
    if line.startswith(_BEGIN):
        # What this engine and dockerd write for text without anything to escape, which is most text.
        place = line.find(_BETWEEN)
        stream = _FAST_STREAMS.get(line[place + 12 : place + 28])
        if stream:
            text = line[8:place]
            escapes = text.count(b"\\")
            end = line.find(b'"', place + 28)
            if (escapes == 0 or (escapes == 1 and text.endswith(b"\\n"))) and line[end:].rstrip(b"\n") == b'"}':
                time_ns = parse_time(line[place + 28 : end])
                if time_ns is not None:
                    return Message(stream, time_ns, text[:-2] + b"\n" if escapes else text)
    return _parse_any(line)


def _parse_any(line: bytes) -> Message | None:
    try:
        found = json.loads(line)
        text, stream, time, attributes = (found.get(key) for key in ("log", "stream", "time", "attrs"))
    except (ValueError, AttributeError, RecursionError):
        return None
    number = _STREAMS.get(stream) if isinstance(stream, str) else None
    if number is None or not isinstance(text or "", str) or not isinstance(time, str):
        return None
    time_ns = _parse_zoned(time)
    if time_ns is None:
        return None
    if not isinstance(attributes, dict):
        attributes = None
    else:
        attributes = {name: value for name, value in attributes.items() if isinstance(value, str)}
    # A lone surrogate is replaced, as Go does when it reads JSON.
    return Message(number, time_ns, _LONE.sub("\ufffd", text or "").encode(), attributes)


def _parse_zoned(text: str) -> int | None:
    found = _ZONED.fullmatch(text)
    if found is None:
        return None
    *numbers, fraction, sign, hours, minutes = found.groups()
    seconds = _epoch(*map(int, numbers))
    if sign:
        seconds -= (int(hours) * 60 + int(minutes)) * (60 if sign == "+" else -60)
    return seconds * 1_000_000_000 + int((fraction or "").ljust(9, "0"))
