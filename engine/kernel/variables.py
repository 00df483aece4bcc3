"""Forgets the environment with which the daemon was started: a variable may be a secret, such as a proxy's password.

The spawner and all that it forks have a copy of the daemon's memory. So has the new process of an exec until it
executes its command, and a program in the container that may trace it reads its memory (`wire.schema.Exec.traced`). The
spawner forgets what Python has copied. A joiner clears the kernel's own copy before it makes a process that may be
traced; until then /proc/PID/environ shows of a process of the engine whose it is. `_muxer/process/title.c` does the
same for a joiner in C.
"""

import ctypes
import functools
import os

# env_start is field 50 of proc_pid_stat(5); the list begins after the second field, and counts from 0
_ENV_START = 50 - 3
_KEPT = ("PATH", "TZ")  # for the programs of other runtimes, and for the times in lines of syslog
_HEAD = bytes.__basicsize__ - 1
"""Where in an object of bytes its bytes begin; the size of the type counts the NUL behind them."""


def forget_copies() -> None:
    """Forget all variables but PATH and TZ in this process, and write over what Python has of them."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    copies = [*os.environb.keys(), *os.environb.values()]
    os.environ.clear()
    for copy in copies:
        if len(copy) > 1:  # shorter ones are shared with the whole interpreter
            ctypes.memset(id(copy) + _HEAD, 0, len(copy))
    os.environ.update(kept)
    _place()


def forget() -> None:
    """Clear the variables that the kernel has put into this process's memory."""
    start, size = _place()
    ctypes.memset(start, 0, size)


@functools.cache  # the place is the same for a process and all that it forks
def _place() -> tuple[int, int]:
    """The address and length in bytes; (0, 0) where the kernel does not tell them."""
    with open("/proc/self/stat", "rb", buffering=0) as file:
        fields = file.read(4096).rpartition(b")")[2].split()
    start, end = (int(each) for each in fields[_ENV_START : _ENV_START + 2])
    return (start, end - start) if 0 < start < end else (0, 0)
