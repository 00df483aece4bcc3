"""Gives up the rights that the proxy does not need, once it has begun.

The Python version of the first half of `_muxer/proxy/confine.c`. It gives up each capability, for good. An interpreter
needs too many system calls for a filter, so only the C version has one.
A transparent proxy keeps the right to send from others' addresses in its own network.
"""

from engine.kernel import syscalls

_NET_RAW = 1 << 13  # linux/capability.h


def confine(transparent: bool = False) -> None:
    """Drop all capabilities, and let no program give any back (prctl(2), capset(2)). Raises OSError.

    transparent: but for CAP_NET_RAW
    """
    kept = _NET_RAW if transparent else 0
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    syscalls.capset(kept, kept, 0)
