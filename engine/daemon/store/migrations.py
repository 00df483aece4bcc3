"""The schema migrations of the database, by version, collected from the files of the tables that each step changes.

Data only; read once, when the daemon opens its database. The statements themselves stand beside the tables they change.
"""

from engine.daemon.store import containers, images
from engine.daemon.store.database import VERSION

# The version of a database file → the statements that bring it to the next version.
MIGRATIONS: dict[int, tuple[str, ...]] = {
    version: (*containers.MIGRATIONS.get(version, ()), *images.MIGRATIONS.get(version, ()))
    for version in range(1, VERSION)
}
