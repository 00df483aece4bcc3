"""POST /volumes/prune: remove what no container has, and say how much room that took.

Runs in the daemon's request threads, one at a time.
"""

from engine.daemon import locks
from engine.daemon.volumes import listing, usage
from engine.daemon.volumes.store import Volumes
from engine.errors import Conflict

_running = locks.Lock("pruning of volumes")


def prune(volumes: Volumes, filters: dict[str, tuple[str, ...]], all_by_default: bool) -> tuple[list[str], int]:
    """Remove them; the names of those that are gone, and the bytes of their files.

    all_by_default: see `listing.unused`. Raises Invalid; Conflict while another prune is under way.
    """
    if not _running.acquire(blocking=False):
        raise Conflict("a prune operation is already running")
    try:
        removed, reclaimed = [], 0
        for volume in listing.unused(volumes, filters, all_by_default):
            size = usage.size(volume)
            if volumes.prune(volume):
                removed.append(volume.name)
                reclaimed += size
    finally:
        _running.release()
    return removed, reclaimed
