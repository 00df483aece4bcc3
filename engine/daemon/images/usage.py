"""How much of the disk all images take, and how much of that would be free without those that no container uses.

Runs in the daemon, on the request's thread; reads the database alone. What several images share is counted once.
"""

from collections.abc import Collection

from engine.daemon.store import images as table
from engine.daemon.store.database import Database


def measure(database: Database, unused: Collection[str]) -> tuple[int, int]:
    """(bytes of all layers and blobs, those of them that only images in `unused` hold).

    What is left of a removed image for the sake of a container is counted, and is not to be freed.
    """
    with database.reading() as connection:
        holdings = table.holdings(connection)
    sizes = {part: size for _, part, size in holdings}
    needed = {part for image, part, _ in holdings if image not in unused}
    return sum(sizes.values()), sum(size for part, size in sizes.items() if part not in needed)
