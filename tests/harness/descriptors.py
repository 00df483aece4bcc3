"""What a process has open, told apart by what it is: its other threads open and close what is theirs meanwhile."""

import contextlib
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

_SECONDS = 5.0  # for what another thread has open for a moment


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


@contextlib.contextmanager
def none_left(most: int = 0) -> Iterator[None]:
    """What is opened within the `with` is closed at its end, all but `most`; others may close theirs meanwhile."""
    before = all_open()
    yield
    end = time.monotonic() + _SECONDS
    while (more := all_open() - before).total() > most:
        assert time.monotonic() < end, more
        time.sleep(0.01)


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
