"""Counting the disk space of all images. What several of them share is counted once.

Runs in the daemon, on the request's thread, and reads only the database.
"""

from engine.daemon.store import images as table
from engine.daemon.store.database import Database


def measure(database: Database) -> int:
    """The bytes of all layers and blobs, with the layers of a removed image that are kept for containers."""
    with database.reading() as connection:
        return sum({part: size for _, part, size in table.holdings(connection)}.values())
