"""Forgets the environment with which the daemon was started: a variable may be a secret, such as a proxy's password.

The spawner and all that it forks have a copy of the daemon's memory. So has the new process of an exec until it
executes its command, and a program in the container that may trace it reads its memory (`wire.schema.Exec.traced`). The
spawner forgets what Python has copied. A joiner clears the kernel's own copy before it makes a process that may be
traced; until then /proc/PID/environ shows of a process of the engine whose it is. `_muxer/process/title.c` does the
same for a joiner in C.
"""

import ctypes
import os

from engine.kernel import ownstack

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
    ownstack.variables()  # looked up once, here, for all that this process forks


def forget() -> None:
    """Clear the variables that the kernel has put into this process's memory."""
    start, size = ownstack.variables()
    ctypes.memset(start, 0, size)
