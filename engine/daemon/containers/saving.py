"""Save a container's state as its row of the database, durable where the caller needs it.

Called by the verbs, in any thread of the daemon, with `container.changed` held.
"""

import logging

from engine.daemon.containers.record import Container
from engine.daemon.parts import DatabasePart
from engine.daemon.store import containers as table
from engine.errors import SystemFailure

log = logging.getLogger(__name__)


def save(engine: DatabasePart, container: Container, *, durable: bool = False) -> bool:
    """Save the state; True when it is saved.

    False on a full disk: then only the exec directory tells the next daemon what has happened.
    durable: also over a loss of power, for a state that decides whether the container runs after it
    """
    try:
        with engine.database.transaction(durable=durable, frees=True) as connection:
            table.save_state(connection, container)
    except SystemFailure as error:
        log.error("container %s: its state could not be saved: %s", container.id, error)
        return False
    return True
