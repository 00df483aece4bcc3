"""Measure how much disk space a container takes, for its own changes (SizeRw) and its whole root (SizeRootFs).

Runs in the daemon's request threads, and only when a client asks for sizes, as it walks directories. It never mounts.
"""

import contextlib
import functools
import os

from engine.daemon.containers.contents import initlayer
from engine.daemon.containers.record import Container
from engine.kernel import weigh


def measure(container: Container, layer_root: str, root: str, storage: str) -> tuple[int, int]:
    """(SizeRw, SizeRootFs) in bytes.

    root: the container's writable directory (an overlay's upper directory, or the whole root with `copy`), which need
        not exist yet; storage: `overlayfs` or `copy`
    """
    layers = sum(_layer(f"{layer_root}/{layer}") for layer in container.layers)
    own = weigh.below(root, weigh.room, directories=True)
    if storage == "copy":
        return max(own - layers, 0), own
    with contextlib.suppress(FileNotFoundError):  # it has never run
        # As dockerd's, whose measure has the directory itself, and its places for mounts in another layer.
        own = max(own + weigh.room(os.stat(root)) - initlayer.room(root), 0)
    return own, own + layers


# Cached, since an unpacked layer never changes and its number is never given to another layer.
@functools.lru_cache(maxsize=512)
def _layer(path: str) -> int:
    return weigh.below(path, weigh.room, directories=True)
