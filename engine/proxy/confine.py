"""Gives up the rights that the proxy does not need, once it has begun.

The Python version of the first half of `_muxer/proxy/confine.c`. It gives up each capability, for good. An interpreter
needs too many system calls for a filter, so only the C version has one.
"""

from engine.kernel import syscalls


def confine() -> None:
    """Drop all capabilities, and let no program give any back (prctl(2), capset(2)). Raises OSError."""
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    syscalls.capset(0, 0, 0)
