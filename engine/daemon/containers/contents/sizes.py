"""How much room a container takes: its own changes, and the whole of its root.

Runs in the daemon's request threads, only when a client asks for sizes, as it walks directories. It never mounts.
"""

import errno
import functools
import os

from engine.daemon.containers.record import Container
from engine.kernel.beneath import open_beneath

_BLOCK = 512
_READABLE = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_PASSED_OVER = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})


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
    """Bytes on disk below a directory, hard links counted once.

    What disappears meanwhile counts nothing, nor does what lies deeper than a path may be long.
    """
    try:
        top = os.open(path, _READABLE)
    except (FileNotFoundError, NotADirectoryError):
        return 0
    total = 0
    seen: set[tuple[int, int]] = set()
    waiting = ["."]
    try:
        while waiting:
            above = waiting.pop()
            try:
                # The container may be running, and put a link to the host's files in the place of any directory.
                fd = open_beneath(top, above, _READABLE, no_symlinks=True)
            except OSError as error:
                if error.errno in _PASSED_OVER:
                    continue
                raise
            try:
                with os.scandir(fd) as entries:
                    for entry in entries:
                        total += _entry(entry, above, seen, waiting)
            finally:
                os.close(fd)
    finally:
        os.close(top)
    return total


def _entry(entry: os.DirEntry, above: str, seen: set[tuple[int, int]], waiting: list[str]) -> int:
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return 0
    if entry.is_dir(follow_symlinks=False):
        waiting.append(f"{above}/{entry.name}")
    elif status.st_nlink > 1:
        if (status.st_dev, status.st_ino) in seen:
            return 0
        seen.add((status.st_dev, status.st_ino))
    return status.st_blocks * _BLOCK
