"""Sets the name and the command line that ps(1) shows for a process of the engine.

Run by every process of the engine that is forked and does not execute a program, once it knows what it is.
`_muxer/process/title.c` does the same in the processes that do not run Python by then. A child that has not named
itself bears its parent's names. So no name may hold anything that a container must not read: every process that shares
its PID namespace sees a process before its execve(2).
"""

import ctypes

from engine.kernel import ownstack, syscalls

_PR_SET_NAME = 15
_name = ctypes.create_string_buffer(16)
_NAME = ctypes.addressof(_name)


def name(kind: str) -> None:
    """Set this process's command name to `engine KIND` (PR_SET_NAME of prctl(2): 15 bytes); the command line stays."""
    _name.value = f"engine {kind}".encode()[:15]
    syscalls.prctl(_PR_SET_NAME, _NAME)


def become(kind: str, of: str = "") -> None:
    """Set this process's command name to `engine KIND`, and its command line to `engine KIND OF`, as far as there is
    room.

    The kernel shows the command line from where it put the program's arguments, so the text is written over those. To
    move it elsewhere (PR_SET_MM) takes CAP_SYS_RESOURCE, which many hosts deny their root. Only the kernel reads those
    arguments any more: Python has copied them long ago.
    """
    name(kind)
    start, size = ownstack.arguments()
    line = f"engine {kind} {of}".rstrip().encode()[: max(size - 1, 0)]
    ctypes.memmove(start, line.ljust(size, b"\0"), size)
