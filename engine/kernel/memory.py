"""Giving memory back to the kernel that the C library keeps after a start-up's many small allocations."""

import ctypes

_LIBRARY = ctypes.CDLL(None)


def trim() -> None:
    """malloc_trim(3), where the C library has it (glibc); musl keeps little by itself."""
    release = getattr(_LIBRARY, "malloc_trim", None)
    if release is not None:
        release(0)
