"""What a process has open, told apart by what it is: its other threads open and close what is theirs meanwhile."""

import contextlib
import os
from collections import Counter
from pathlib import Path


def open_links(pid: int) -> list[str]:
    """What its descriptors lead to; none where it has ended, or is not ours to look at."""
    found = []
    with contextlib.suppress(OSError):
        for number in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):  # closed meanwhile
                found.append(os.readlink(f"/proc/{pid}/fd/{number}"))
    return found


def all_open() -> Counter[str]:
    """All that this process has open: a pipe's name is its own, whatever number another thread's descriptor has."""
    return Counter(open_links(os.getpid()))


def open_below(directory: Path) -> int:
    """How often this process has this directory and what lies below it open."""
    return sum(_lies_below(f"/proc/self/fd/{number}", directory) for number in os.listdir("/proc/self/fd"))


def _lies_below(link: str, directory: Path) -> bool:
    try:
        return f"{os.readlink(link)}/".startswith(f"{directory}/")
    except FileNotFoundError:  # the listing's own, or closed by another thread
        return False
    except OSError:  # ENAMETOOLONG: of a path so long it is one
        return True
