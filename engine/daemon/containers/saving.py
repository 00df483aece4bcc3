"""Make a container's changed state known: save it as its row of the database, wake who waits for it, publish the event.

Called by the verbs, in any thread of the daemon, with `container.changed` held. Two changes are told otherwise: an end,
which is told before it is saved because its exit file keeps it (`life.end`), and a start, whose volumes have events of
their own before it.
"""

import logging

from engine.daemon.containers.announce import announce
from engine.daemon.containers.record import Container
from engine.daemon.parts import DatabasePart, StatePart
from engine.daemon.store import containers as table
from engine.errors import SystemFailure

log = logging.getLogger(__name__)


def save(engine: DatabasePart, container: Container, *, durable: bool = False) -> bool:
    """Save the state, and wake the threads that wait for a change; True when it is saved.

    False on a full disk: then only the exec directory tells the next daemon what has happened.
    durable: also over a loss of power, for a state that decides whether the container runs after it
    """
    container.changed.notify_all()
    try:
        write(engine, container, durable=durable)
    except SystemFailure as error:
        log.error("container %s: its state could not be saved: %s", container.id, error)
        return False
    return True


def write(engine: DatabasePart, container: Container, *, durable: bool = False) -> None:
    """Save the state, by which the next daemon knows also of an end that could not be saved. Raises SystemFailure."""
    with engine.database.transaction(durable=durable, frees=True) as connection:
        table.save_state(connection, container)
    container.unsaved = False


def save_and_tell(engine: StatePart, container: Container, event: str, **attributes: object) -> None:
    """Save the state, and then publish what has happened: what a client hears of is what the next daemon finds."""
    save(engine, container)
    announce(engine, container, event, **attributes)
