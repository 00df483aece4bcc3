"""After a daemon that died within builds: the containers of their steps go, and what they made is put on the disk.

Runs in a thread of its own at the daemon's start, and only when there is something left.
"""

import logging

from engine.daemon.build.run import discard
from engine.daemon.parts import ContainerParts
from engine.daemon.store import builds as table
from engine.errors import EngineError, NotFound

log = logging.getLogger(__name__)


def recover(engine: ContainerParts, steps: list[str], images: list[str]) -> None:
    """Take away the containers of those steps, running or not, and settle the images, which are whole.

    Both were read before the first client could begin another build.
    """
    for container_id in steps:
        try:
            discard(engine, engine.containers.find(container_id))
        except NotFound:
            with engine.database.transaction(frees=True) as connection:
                table.end_step(connection, container_id)
        except EngineError as error:
            log.warning("container %s of a build that was cut off stays: %s", container_id, error)
    if images:
        engine.images.settle(images)
