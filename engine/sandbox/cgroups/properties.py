"""Translates the limits of a container into properties of its scope, by which systemd writes the cgroup's files.

Pure. At a `daemon-reload` systemd writes the files of a unit anew, from these properties, so a limit that stood in a
file alone would be gone then. What systemd has no property for, or cannot say exactly, is written into the file as well
(`scopes`). The names and types are those of org.freedesktop.systemd1(5), the meanings those of
systemd.resource-control(5). All are known to systemd 244 and later.
"""

from engine.errors import Invalid
from engine.sandbox.cgroups import v2
from engine.sandbox.spec import Limits

Property = tuple[str, str, object]
"""A property of a unit: its name, its D-Bus type, its value."""

UNLIMITED = 2**64 - 1
_SECOND = 1_000_000
_STEP = 10_000
_NUMBERS = {
    "memory.max": "MemoryMax",
    "memory.swap.max": "MemorySwapMax",
    "memory.low": "MemoryLow",
    "cpu.weight": "CPUWeight",
    "pids.max": "TasksMax",
    "io.weight": "IOWeight",
}
_SETS = {"cpuset.cpus": "AllowedCPUs", "cpuset.mems": "AllowedMemoryNodes"}
_LAST_OF_SET = 8191  # as many processors as Linux can have
_PLAIN_WEIGHT = 100


def of_limits(limits: Limits, *, bfq: bool) -> list[Property]:
    """The properties for these limits; none for what is not asked for. Raises Invalid.

    bfq: the kernel has the scheduler BFQ, whose weight systemd derives from IOWeight
    """
    found: list[Property] = []
    for file, value in v2.settings(limits):
        if file == "cpu.max":
            found += _quota(value)
        elif file in _SETS:
            found.append((_SETS[file], "ay", bits(value)))
        elif file in _NUMBERS:
            found.append((_NUMBERS[file], "t", _number(value)))
    if limits.blkio_weight:
        found.append(("IOWeight", "t", _weight(limits.blkio_weight, bfq=bfq)))
    return found


def bits(text: str) -> bytes:
    """A set of processors or memory nodes (`0-2,5`) as a bit mask, the lowest numbers first. Raises Invalid."""
    mask = 0
    for part in text.split(","):
        first, dash, last = (word.strip() for word in part.partition("-"))
        try:
            least, most = int(first), int(last if dash else first)
        except ValueError as error:
            raise Invalid(f"{text[:80]!r} is no set of numbers") from error
        if not 0 <= least <= most <= _LAST_OF_SET:
            raise Invalid(f"{text[:80]!r} is no set of numbers")
        mask |= (1 << most + 1) - (1 << least)
    return mask.to_bytes((mask.bit_length() + 7) // 8, "little")


def _quota(value: str) -> list[Property]:
    """The file's `quota period` as time in each second. systemd keeps whole hundredths of a processor, so it is rounded
    up to one.
    """
    quota, _, period = value.partition(" ")
    share = UNLIMITED
    if quota != "max":
        share = -(-int(quota) * _SECOND // (int(period) * _STEP)) * _STEP
    return [("CPUQuotaPeriodUSec", "t", int(period)), ("CPUQuotaPerSecUSec", "t", share)]


def _number(value: str) -> int:
    return UNLIMITED if value == "max" else int(value)


def _weight(weight: int, *, bfq: bool) -> int:
    """IOWeight (1 to 10000) for the API's weight (10 to 1000).

    From IOWeight systemd makes BFQ's weight (1 to 1000) so that 100 stays 100; this is the way back.
    """
    if not bfq:
        return v2.scaled(weight, bfq=False)
    return weight if weight <= _PLAIN_WEIGHT else _PLAIN_WEIGHT + (weight - _PLAIN_WEIGHT) * 11
