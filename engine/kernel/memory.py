"""Makes glibc's malloc give freed memory back to the kernel (malloc_trim), and keep one heap for all threads (mallopt).

Runs in the long-lived processes. Both functions do nothing where the C library has no such call: musl keeps little
freed memory anyway.
"""

import ctypes

_LIBRARY = ctypes.CDLL(None)
_M_ARENA_MAX = -8  # malloc.h of glibc


def one_arena() -> None:
    """Have all threads allocate from one heap (mallopt(3)); call it before there are other threads.

    glibc gives threads heaps of their own, and `trim` does not give back the end of those, which is megabytes each. One
    heap causes no waits: nearly all threads that allocate hold the interpreter's lock.
    """
    option = getattr(_LIBRARY, "mallopt", None)
    if option is not None:
        option(_M_ARENA_MAX, 1)


def trim() -> None:
    """Give free memory back to the kernel (malloc_trim(3)). It takes about a millisecond, in which allocating threads
    wait.
    """
    release = getattr(_LIBRARY, "malloc_trim", None)
    if release is not None:
        release(0)
