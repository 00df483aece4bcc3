"""What this process has open, told apart by where it lies: other tests' threads open and close what is theirs."""

import contextlib
import os
from collections import Counter
from pathlib import Path


def all_open() -> Counter[str]:
    """All that is open, by what it is: a pipe's name is its own, whatever number another thread's descriptor has."""
    found: Counter[str] = Counter()
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the listing's own, or closed by another thread
            found[os.readlink(f"/proc/self/fd/{number}")] += 1
    return found


def open_below(directory: Path) -> int:
    """How often this directory and what lies below it are open."""
    return sum(_lies_below(f"/proc/self/fd/{number}", directory) for number in os.listdir("/proc/self/fd"))


def _lies_below(link: str, directory: Path) -> bool:
    try:
        return f"{os.readlink(link)}/".startswith(f"{directory}/")
    except FileNotFoundError:  # the listing's own, or closed by another thread
        return False
    except OSError:  # ENAMETOOLONG: of a path so long it is one
        return True
