"""The names and numbers of signals, the parser of a signal as clients write it, and what STOPSIGNAL may name.

Pure: a table and parsers, used by the daemon's request threads. It never sends a signal.
"""

import contextlib
import re
import signal

from engine.errors import Invalid
from engine.literals import integer

# Linux has these numbers on x86, arm and riscv alike (signal(7)). `signal.Signals` lacks the old aliases, and the
# SIGRTMIN of the C library, which containers see, is 34.
NUMBERS = {
    "HUP": 1,
    "INT": 2,
    "QUIT": 3,
    "ILL": 4,
    "TRAP": 5,
    "ABRT": 6,
    "IOT": 6,
    "BUS": 7,
    "FPE": 8,
    "KILL": 9,
    "USR1": 10,
    "SEGV": 11,
    "USR2": 12,
    "PIPE": 13,
    "ALRM": 14,
    "TERM": 15,
    "STKFLT": 16,
    "CHLD": 17,
    "CLD": 17,
    "CONT": 18,
    "STOP": 19,
    "TSTP": 20,
    "TTIN": 21,
    "TTOU": 22,
    "URG": 23,
    "XCPU": 24,
    "XFSZ": 25,
    "VTALRM": 26,
    "PROF": 27,
    "WINCH": 28,
    "IO": 29,
    "POLL": 29,
    "PWR": 30,
    "SYS": 31,
}
_STOP_SIGNAL = re.compile(r"(?a:(?:SIG)?(?:(RTMIN)\+(\d{1,2})|(RTMAX)-(\d{1,2})|([A-Z][A-Z0-9]*)))", re.IGNORECASE)
FIRST_REALTIME = 34
LAST_REALTIME = 64

NUMBERS["RTMIN"] = FIRST_REALTIME
NUMBERS["RTMAX"] = LAST_REALTIME
NUMBERS.update({f"RTMIN+{step}": FIRST_REALTIME + step for step in range(1, 16)})
NUMBERS.update({f"RTMAX-{step}": LAST_REALTIME - step for step in range(1, 15)})


def parse_signal(text: str) -> int:
    """The number of a signal given as `9`, `KILL`, `SIGKILL` or `SIGRTMIN+3`, in any case.

    dockerd takes any number here, also one that no signal has (see `check_sent`). Raises Invalid in its words, also for
    signal 0, which only tests whether a process exists.
    """
    number = NUMBERS.get(text.upper().removeprefix("SIG"), 0)
    if not number:
        with contextlib.suppress(Invalid):
            number = integer(text)
    if not number:
        raise Invalid(f"invalid signal: {text}")
    return number


def sendable(number: int) -> bool:
    """Whether Linux has a signal of this number."""
    return 1 <= number <= LAST_REALTIME


def check_sent(number: int) -> int:
    """The number itself. Raises Invalid where the signal has no name: the C library keeps two for itself."""
    if number not in NUMBERS.values():
        raise Invalid(f"the linux daemon does not support signal {number}")
    return number


def check_stop_signal(text: str) -> None:
    """Raise Invalid for what a Dockerfile's STOPSIGNAL may not name, in dockerd's words.

    dockerd accepts any number except 0 there, and a name that the host knows.
    """
    if text.isascii() and text.isdigit():
        fine = any(digit != "0" for digit in text)
    elif (match := _STOP_SIGNAL.fullmatch(text)) is None:
        fine = False
    elif offset := match[2] or match[4]:
        fine = int(offset) < signal.SIGRTMAX - signal.SIGRTMIN
    else:
        fine = f"SIG{match[5].upper()}" in signal.Signals.__members__
    if not fine:
        raise Invalid(f"invalid signal: {text}")
