"""What the C library keeps of the memory that was freed, given back to the kernel.

Runs in the processes that live long. Both functions do nothing where the C library has no such thing: musl keeps little
by itself.
"""

import ctypes

_LIBRARY = ctypes.CDLL(None)
_M_ARENA_MAX = -8  # malloc.h of glibc


def one_arena() -> None:
    """Have all threads allocate from one heap (mallopt(3)), to be called before there are any.

    glibc gives threads heaps of their own, and of those `trim` does not give back the end, which is megabytes each.
    The interpreter's lock is held by nearly all who allocate, so that nobody waits for the one heap.
    """
    option = getattr(_LIBRARY, "mallopt", None)
    if option is not None:
        option(_M_ARENA_MAX, 1)


def trim() -> None:
    """Give back what is free now (malloc_trim(3)); a millisecond or so, in which others who allocate wait."""
    release = getattr(_LIBRARY, "malloc_trim", None)
    if release is not None:
        release(0)
