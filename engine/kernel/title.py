"""What a process is called in ps(1): the name of its command, and its command line.

Run by every process of the engine that is forked and not executed, once it knows what it is; `_muxer/process/title.c`
does the same in the processes that are not in Python then. A child that has not named itself bears its parent's names,
so none of them may hold what a container is not to read: whoever shares its PID namespace sees a process before its
execve(2).
"""

import ctypes
import functools

from engine.kernel import syscalls

_PR_SET_NAME = 15
_ARG_START = 48 - 3  # fields of proc_pid_stat(5), of which the first three are not counted
_name = ctypes.create_string_buffer(16)
_NAME = ctypes.addressof(_name)


def name(kind: str) -> None:
    """Call this process's command `engine KIND` (PR_SET_NAME of prctl(2): 15 bytes), and leave its command line."""
    _name.value = f"engine {kind}".encode()[:15]
    syscalls.prctl(_PR_SET_NAME, _NAME)


def become(kind: str, of: str = "") -> None:
    """Call this process `engine KIND`, and its command line `engine KIND OF`, as far as there is room for it.

    The kernel shows the command line from where the program was given it, so it is written there: what would move it
    elsewhere (PR_SET_MM) takes CAP_SYS_RESOURCE, which many a host keeps from its root. Nobody reads it but the kernel:
    Python has copied its arguments long ago.
    """
    name(kind)
    start, size = _room()
    line = f"engine {kind} {of}".rstrip().encode()[: max(size - 1, 0)]
    ctypes.memmove(start, line.ljust(size, b"\0"), size)


@functools.cache  # for a process and all that it forks
def _room() -> tuple[int, int]:
    """Where the command line is, and how many bytes it has; (0, 0) where the kernel does not say."""
    with open("/proc/self/stat", "rb", buffering=0) as file:
        fields = file.read(4096).rpartition(b")")[2].split()
    start, end = (int(each) for each in fields[_ARG_START : _ARG_START + 2])
    return (start, end - start) if 0 < start < end else (0, 0)
