"""Every step from an older database to one of this version, put together from the tables that each step changes.

Data only; read once, when the daemon opens its database. The statements stand beside the tables they change.
"""

from engine.daemon.store import containers, images
from engine.daemon.store.database import VERSION

# The version that a file has → the statements that make it one of the next.
MIGRATIONS: dict[int, tuple[str, ...]] = {
    version: (*containers.MIGRATIONS.get(version, ()), *images.MIGRATIONS.get(version, ()))
    for version in range(1, VERSION)
}
