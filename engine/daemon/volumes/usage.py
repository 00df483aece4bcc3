"""How much room a volume takes.

Runs in the daemon's request threads, only when a client asks, as it walks the volume's directories. What is in them is
a container's to change meanwhile: no symbolic link is followed.
"""

import os

from engine.daemon.volumes.store import Volume
from engine.kernel.beneath import open_beneath

_READABLE = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def size(volume: Volume) -> int:
    """The bytes of the files in a volume, hard links counted once, as dockerd counts them."""
    try:
        top = os.open(volume.path, _READABLE | os.O_NOFOLLOW)
    except OSError:
        return 0  # removed meanwhile
    total, seen, waiting = 0, set(), ["."]
    try:
        while waiting:
            above = waiting.pop()
            try:
                here = open_beneath(top, above, _READABLE, no_symlinks=True)
            except OSError:
                continue  # it went while this looked, or lies deeper than a path may be long
            try:
                with os.scandir(here) as entries:
                    for entry in entries:
                        total += _entry(entry, above, seen, waiting)
            finally:
                os.close(here)
    finally:
        os.close(top)
    return total


def _entry(entry: os.DirEntry, above: str, seen: set[tuple[int, int]], waiting: list[str]) -> int:
    try:
        found = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return 0
    if entry.is_dir(follow_symlinks=False):
        waiting.append(f"{above}/{entry.name}")
        return 0
    if found.st_nlink > 1:
        if (found.st_dev, found.st_ino) in seen:
            return 0
        seen.add((found.st_dev, found.st_ino))
    return found.st_size
