"""How much room a container takes: its own changes, and the whole of its root.

Runs in the daemon's request threads, only when a client asks for sizes, as it walks directories. It never mounts.
"""

import functools

from engine.daemon.containers.record import Container
from engine.kernel import weigh


def measure(container: Container, layer_root: str, root: str, storage: str) -> tuple[int, int]:
    """(SizeRw, SizeRootFs) in bytes.

    root: the container's writable directory (an overlay's upper, or the whole root with `copy`); it may not be there
        yet; storage: `overlayfs` or `copy`
    """
    layers = sum(_layer(f"{layer_root}/{layer}") for layer in container.layers)
    own = weigh.below(root, weigh.room, directories=True)
    if storage == "copy":
        return max(own - layers, 0), own
    return own, own + layers


# An unpacked layer never changes, and its number is never given to another one.
@functools.lru_cache(maxsize=512)
def _layer(path: str) -> int:
    return weigh.below(path, weigh.room, directories=True)
