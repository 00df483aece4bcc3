"""Counting the disk space of all images, and the part of it that removing the unused images would free.

Runs in the daemon, on the request's thread, and reads only the database. What several images share is counted once.
"""

from collections.abc import Collection

from engine.daemon.store import images as table
from engine.daemon.store.database import Database


def measure(database: Database, unused: Collection[str]) -> tuple[int, int]:
    """(bytes of all layers and blobs, bytes of those that belong only to images whose ids are in `unused`).

    Layers of a removed image that are kept for containers are counted, but not as freeable.
    """
    with database.reading() as connection:
        holdings = table.holdings(connection)
    sizes = {part: size for _, part, size in holdings}
    needed = {part for image, part, _ in holdings if image not in unused}
    return sum(sizes.values()), sum(size for part, size in sizes.items() if part not in needed)
