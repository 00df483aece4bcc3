"""Clean-up after a daemon that died during builds: removes their steps' containers, and makes their images durable.

Runs in a thread of its own at the daemon's start, and only when there is something left to clean up.
"""

import logging

from engine.daemon.builder import giving
from engine.daemon.builder.run import discard
from engine.daemon.parts import ContainerParts
from engine.daemon.store import builds as table
from engine.errors import EngineError, NotFound

log = logging.getLogger(__name__)


def recover(engine: ContainerParts, steps: list[str], images: list[str], given: list[str]) -> None:
    """Remove the containers of those steps, running or not, and make the images durable, which are complete.

    given: files that clients gave to the steps, which are removed
    All lists were read before the first client could begin another build.
    """
    for container_id in steps:
        try:
            discard(engine, engine.containers.find(container_id))
        except NotFound:
            with engine.database.transaction(frees=True) as connection:
                table.end_step(connection, container_id)
        except EngineError as error:
            log.warning("container %s of an interrupted build cannot be removed: %s", container_id, error)
    if images:
        engine.images.settle(images)
    giving.sweep(engine.settings.exec_root, given)
