"""Parses the lines of a log of JSON lines (driver `json-file`) into messages.

Pure; used by the reader in the daemon's threads and by a monitor. Whichever program wrote a line (dockerd, this
engine), and whatever the line contains, it is a message or it is passed over.
"""

import json
import re

from engine.dataclass import dataclass
from engine.logs.format import NEVER, STDERR, STDOUT

LONGEST = 1 << 20
"""Bytes of a line; a longer one is none that docker writes, and is passed over."""

_STREAMS = {"stdout": STDOUT, "stderr": STDERR}
_FAST_STREAMS = {b'stdout","time":"': STDOUT, b'stderr","time":"': STDERR}
_BEGIN, _BETWEEN, _ATTRIBUTES = b'{"log":"', b'","stream":"', b'"attrs":'
_INVALID = dict.fromkeys(range(0xDC80, 0xDD00), "\ufffd")  # what surrogateescape makes of one invalid byte
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
    if text[-1:] != b"Z" or len(fraction) > 9 or (text[19:-1] and (text[19] != 0x2E or not fraction.isdigit())):
        return None
    return _bounded(seconds * 1_000_000_000 + (int(fraction) * 10 ** (9 - len(fraction)) if fraction else 0))


def _bounded(time_ns: int) -> int:
    """A time that a query can ask for."""
    return min(max(time_ns, 0), NEVER)


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
                    if not text.isascii():
                        text = _utf8(text).encode()
                    return Message(stream, time_ns, text[:-2] + b"\n" if escapes else text)
    return _parse_any(line)


def ending(block: bytes, start: int, end: int) -> bytes:
    """What stands behind the text of the line in block[start:end], from the escape of its newline to its own newline.

    Empty unless docker has written it so, and the next line in the block has the same.
    """
    found = block.rfind(b'\\n","stream":"', start, end)
    tail = block[found : end + 1]
    following = block.find(b"\n", end + 1) + 1
    alike = found >= 0 and block.startswith(_BEGIN, start) and block.startswith(_BEGIN, end + 1)
    return tail if alike and block.endswith(tail, end + 1, following) else b""


def run(block: bytes, start: int, tail: bytes) -> tuple[int, bytes] | None:
    """Of the lines from `start` on that have this ending: the end of the last one, before its newline, and all their
    text, each with its newline. The first of them is one that `parse` has read.

    None where another line is in between, or one has a newline within.
    """
    last = block.rfind(tail, start) + len(tail)
    whole = block[start:last]
    count = whole.count(b"\n")
    if whole.count(tail) != count or whole.count(b"\n" + _BEGIN) != count - 1:
        return None
    texts = [line[len(_BEGIN) : 1 - len(tail)] for line in whole[:-1].split(b"\n")]
    found = b"\n".join(texts) + b"\n"
    if b"\\" in found or b'"' in found or not found.isascii():
        if any(text.endswith(b"\\") for text in texts):
            return None  # the escape of the newline may be none
        try:
            said: str = json.loads(b'"' + b"\\n".join(texts) + b'\\n"')
            found = said.encode()
        except ValueError:  # a lone surrogate, or what is no UTF-8, or no JSON
            return None
    return (last - 1, found) if found.count(b"\n") == count else None


def attributes_in(line: bytes) -> bytes:
    """The attributes of a line that `parse` has read, from their name to the comma behind them: `"attrs":{...},`.

    Empty where they do not stand between stream and time, as docker writes them.
    """
    start = line.find(b'","stream":"std') + 20  # behind the name of either stream and its comma
    end = line.rfind(b'"time":"')
    found = line[start:end]
    if not line.startswith(_BEGIN) or not found.startswith(_ATTRIBUTES) or not found.endswith(b","):
        return b""
    try:
        return found if isinstance(json.loads(found[len(_ATTRIBUTES) : -1]), dict) else b""
    except (ValueError, RecursionError):
        return b""


def _utf8(text: bytes) -> str:
    """The text; each byte that is no UTF-8 has become U+FFFD, as in Go."""
    return text.decode("utf-8", "surrogateescape").translate(_INVALID)


def _parse_any(line: bytes) -> Message | None:
    try:
        found = json.loads(_utf8(line))
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
    return _bounded(seconds * 1_000_000_000 + int((fraction or "").ljust(9, "0")))
