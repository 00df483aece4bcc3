"""Measures the processor time of a set of processes from /proc; it only reads."""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def parse_stat(stat: str) -> float:
    """Seconds of user and system time from the text of a /proc/PID/stat (proc_pid_stat(5), fields 14 and 15)."""
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def seconds(pids: Iterable[int]) -> float:
    """The processor time of the processes together, in seconds; a process that has ended counts nothing."""
    total = 0.0
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            total += parse_stat(Path(f"/proc/{pid}/stat").read_text())
    return total
