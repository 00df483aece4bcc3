"""Where the kernel has put this process's arguments and variables, which /proc shows from there to other processes.

The kernel puts both at the end of the stack when a program is executed (proc_pid_stat(5)). The places are the same for
a process and all that it forks.
"""

import functools

Place = tuple[int, int]
"""Address and length in bytes; (0, 0) where the kernel does not tell them."""

# These are fields 48 and 50 of proc_pid_stat(5); the list begins after the second field, and counts from 0.
_ARG_START, _ENV_START = 48 - 3, 50 - 3


def arguments() -> Place:
    """The place of the command line."""
    return _places()[0]


def variables() -> Place:
    """The place of the environment."""
    return _places()[1]


@functools.cache
def _places() -> tuple[Place, Place]:
    with open("/proc/self/stat", "rb", buffering=0) as file:
        fields = file.read(4096).rpartition(b")")[2].split()
    return _place(fields[_ARG_START : _ARG_START + 2]), _place(fields[_ENV_START : _ENV_START + 2])


def _place(texts: list[bytes]) -> Place:
    start, end = map(int, texts)
    return (start, end - start) if 0 < start < end else (0, 0)
