"""Formats timestamps (RFC 3339) and durations ("3 weeks") as the API shows them.

Pure; used by the daemon's request threads. It never reads a clock: the caller passes the time. `moments` reads
timestamps that clients write.
"""

import time

NEVER = "0001-01-01T00:00:00Z"
SECOND = 1_000_000_000


def rfc3339(moment_ns: int) -> str:
    """Nanoseconds since the epoch as Go's RFC3339Nano in UTC, without trailing zeros; 0 is Go's zero time.

    Shape: `2026-11-20T05:38:13.708514755Z`.
    """
    if not moment_ns:
        return NEVER
    seconds, nanoseconds = divmod(moment_ns, SECOND)
    year, month, day, hour, minute, second, *_ = time.gmtime(seconds)
    fraction = f".{nanoseconds:09d}".rstrip("0") if nanoseconds else ""
    return f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}{fraction}Z"


def duration(seconds: float) -> str:
    """A length of time in the words of `docker ps`: `Less than a second`, `About a minute`, `3 weeks`."""
    whole = int(seconds)
    if whole < 1:
        return "Less than a second"
    if whole == 1:
        return "1 second"
    if whole < 60:
        return f"{whole} seconds"
    minutes = whole // 60
    if minutes == 1:
        return "About a minute"
    if minutes < 60:
        return f"{minutes} minutes"
    # Hours are rounded and all longer units are cut off, as go-units' HumanDuration does.
    hours = int(seconds / 3600 + 0.5)
    if hours == 1:
        return "About an hour"
    for limit, hours_each, unit in ((48, 1, "hours"), (336, 24, "days"), (1440, 168, "weeks"), (17520, 720, "months")):
        if hours < limit:
            return f"{hours // hours_each} {unit}"
    return f"{int(seconds / 3600) // 8760} years"
