"""What this process has open, told apart by where it lies: other tests' threads open and close what is theirs."""

import os
from pathlib import Path


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
