"""Pruning of volumes (POST /volumes/prune): removing those that no container uses, and counting the bytes freed.

Runs in the daemon's request threads, one prune at a time.
"""

from engine.daemon import locks
from engine.daemon.volumes import listing, usage
from engine.daemon.volumes.store import Volumes
from engine.errors import Conflict

_running = locks.Lock("pruning of volumes")


def prune(volumes: Volumes, filters: dict[str, tuple[str, ...]], all_by_default: bool) -> tuple[list[str], int]:
    """Remove the unused volumes that pass the filters; returns the names of those removed and the bytes of their files.

    all_by_default: whether named volumes are removed too where no filter `all` is given (see `listing.unused`)
    Raises Invalid; Conflict while another prune is under way.
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
