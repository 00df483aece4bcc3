"""How much room a container takes: its own changes, and the whole of its root.

Runs in the daemon's request threads, only when a client asks for sizes, as it walks directories. It never mounts.
"""

import functools
import os

from engine.daemon.containers.record import Container

_BLOCK = 512


def measure(container: Container, layer_root: str, root: str, storage: str) -> tuple[int, int]:
    """(SizeRw, SizeRootFs) in bytes.

    root: the container's writable directory (an overlay's upper, or the whole root with `copy`); it may not be there
        yet; storage: `overlayfs` or `copy`
    """
    layers = sum(_layer(f"{layer_root}/{layer}") for layer in container.layers)
    own = _walk(root)
    if storage == "copy":
        return max(own - layers, 0), own
    return own, own + layers


# An unpacked layer never changes, and its number is never given to another one.
@functools.lru_cache(maxsize=512)
def _layer(path: str) -> int:
    return _walk(path)


def _walk(path: str) -> int:
    """Bytes on disk below a directory, hard links counted once; what disappears meanwhile counts nothing."""
    total = 0
    seen: set[tuple[int, int]] = set()
    waiting = [path]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    total += _entry(entry, seen, waiting)
        except (FileNotFoundError, NotADirectoryError):
            continue
    return total


def _entry(entry: os.DirEntry, seen: set[tuple[int, int]], waiting: list[str]) -> int:
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return 0
    if entry.is_dir(follow_symlinks=False):
        waiting.append(entry.path)
    elif status.st_nlink > 1:
        if (status.st_dev, status.st_ino) in seen:
            return 0
        seen.add((status.st_dev, status.st_ino))
    return status.st_blocks * _BLOCK
