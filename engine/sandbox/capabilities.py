"""Linux capabilities: their names, docker's default set, the set of a container from CapAdd and CapDrop, and dropping.

The tables and `effective` are pure; `limit_bounding` and `set_own` run in init. It never raises a capability that the
engine itself does not hold: a host may lack some.
"""

from collections.abc import Iterable

from engine.errors import Invalid
from engine.kernel import syscalls

ALL: tuple[str, ...] = (
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_DAC_READ_SEARCH",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETPCAP",
    "CAP_LINUX_IMMUTABLE",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_BROADCAST",
    "CAP_NET_ADMIN",
    "CAP_NET_RAW",
    "CAP_IPC_LOCK",
    "CAP_IPC_OWNER",
    "CAP_SYS_MODULE",
    "CAP_SYS_RAWIO",
    "CAP_SYS_CHROOT",
    "CAP_SYS_PTRACE",
    "CAP_SYS_PACCT",
    "CAP_SYS_ADMIN",
    "CAP_SYS_BOOT",
    "CAP_SYS_NICE",
    "CAP_SYS_RESOURCE",
    "CAP_SYS_TIME",
    "CAP_SYS_TTY_CONFIG",
    "CAP_MKNOD",
    "CAP_LEASE",
    "CAP_AUDIT_WRITE",
    "CAP_AUDIT_CONTROL",
    "CAP_SETFCAP",
    "CAP_MAC_OVERRIDE",
    "CAP_MAC_ADMIN",
    "CAP_SYSLOG",
    "CAP_WAKE_ALARM",
    "CAP_BLOCK_SUSPEND",
    "CAP_AUDIT_READ",
    "CAP_PERFMON",
    "CAP_BPF",
    "CAP_CHECKPOINT_RESTORE",
)
"""Every capability; the index is its number (linux/capability.h)."""

DEFAULT: tuple[str, ...] = (
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FSETID",
    "CAP_FOWNER",
    "CAP_MKNOD",
    "CAP_NET_RAW",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETFCAP",
    "CAP_SETPCAP",
    "CAP_NET_BIND_SERVICE",
    "CAP_SYS_CHROOT",
    "CAP_KILL",
    "CAP_AUDIT_WRITE",
)
"""docker's default: the capabilities of a container for which nothing is asked."""

_NUMBERS = {name: number for number, name in enumerate(ALL)}


def _normalized(names: Iterable[str], option: str) -> list[str]:
    result = []
    for name in names:
        upper = name.upper()
        full = upper if upper == "ALL" or upper.startswith("CAP_") else f"CAP_{upper}"
        if full != "ALL" and full not in _NUMBERS:
            raise Invalid(f'invalid {option}: unknown capability: "{full}"')
        result.append(full)
    return result


def effective(add: Iterable[str] | None, drop: Iterable[str] | None, privileged: bool = False) -> tuple[str, ...]:
    """The capabilities for CapAdd, CapDrop (with or without `CAP_`, any case, `ALL`) and Privileged, without doubles.

    Raises Invalid: `invalid CapAdd: unknown capability: "CAP_X"`.
    """
    added, dropped = _normalized(add or (), "CapAdd"), _normalized(drop or (), "CapDrop")
    if privileged:
        return ALL
    if "ALL" in added:
        return tuple(name for name in ALL if name not in dropped)
    base = () if "ALL" in dropped else DEFAULT
    kept = [name for name in base if name not in dropped]
    return tuple(dict.fromkeys([*kept, *added]))


def mask(names: Iterable[str]) -> int:
    """The set as bits, as /proc/PID/status shows it; Invalid for an unknown name."""
    bits = 0
    for name in names:
        if name not in _NUMBERS:
            raise Invalid(f'unknown capability: "{name}"')
        bits |= 1 << _NUMBERS[name]
    return bits


def names(bits: int) -> tuple[str, ...]:
    """The names of the bits; a bit without a name is `CAP_<number>`."""
    numbers = (number for number in range(bits.bit_length()) if bits >> number & 1)
    return tuple(ALL[number] if number < len(ALL) else f"CAP_{number}" for number in numbers)


def last_known() -> int:
    """The highest capability of the running kernel."""
    with open("/proc/sys/kernel/cap_last_cap", "rb", buffering=0) as file:
        return int(file.read(16))


def limit_bounding(keep: int, last: int) -> None:
    """Drop every capability outside `keep`, up to `last`, from the bounding set: no execve brings it back."""
    for number in range(last + 1):
        if not keep >> number & 1:
            syscalls.prctl(syscalls.PR_CAPBSET_DROP, number)


def set_own(keep: int) -> None:
    """Make `keep` this process's effective and permitted set; the inheritable and ambient sets become empty."""
    syscalls.capset(keep, keep, 0)
