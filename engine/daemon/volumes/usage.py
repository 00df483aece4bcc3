"""Counting the bytes in a volume's files, by the files' lengths.

Runs in the daemon's request threads, and only when a client asks, because it walks the volume's directories.
"""

from engine.daemon.volumes.volume import Volume
from engine.kernel import weigh


def size(volume: Volume) -> int:
    """The bytes in the files of a volume, hard links counted once, as dockerd counts them; 0 for one that is gone."""
    return weigh.below(volume.path, weigh.length)
