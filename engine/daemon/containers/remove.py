"""Remove a container: its record first, its files after.

A daemon that dies in between leaves a home without a record, which the next one sweeps away (`files.sweep`).
"""

import logging
import shutil
import signal

from engine.daemon.containers import paths, states
from engine.daemon.containers.record import Container
from engine.daemon.containers.stop import await_end
from engine.daemon.runtime import processes
from engine.daemon.runtime.background import Turn
from engine.daemon.store import containers as table
from engine.errors import Conflict, NotFound

log = logging.getLogger(__name__)

_KILLED_SECONDS = 10
_sweeper = Turn("sweeper")


def remove(engine: object, container: Container, force: bool, volumes: bool) -> None:
    """Remove the container, killing it first with `force`; `volumes` has nothing to remove until volumes are built.

    Raises Conflict when it runs and `force` is not given, or when its removal is already under way.
    """
    state = container.snapshot()
    if state.running:
        if not force:
            raise Conflict(
                f'cannot remove container "{container.id}": container is {state.status}: '
                "stop the container before removing or force remove"
            )
        processes.send_signal(state.pid, state.pid_start, signal.SIGKILL)
        await_end(container, state.pid_start, _KILLED_SECONDS)
    if container.snapshot().status == "removing":
        raise Conflict(f"removal of container {container.id} is already in progress")
    with container.operation:
        container.settled()
        finish(engine, container)


def finish(engine: object, container: Container) -> None:
    """Remove a container that does not run; also what an earlier daemon began. The caller sees to `operation`."""
    with container.changed:
        if container.removed:
            raise NotFound(f"No such container: {container.id}")
        if container.state.running:
            raise Conflict(f'cannot remove container "{container.id}": could not kill container')
        if container.state.status != "removing":
            states.move(container, "removing")
    with engine.database.transaction(durable=True) as connection:
        table.delete(connection, container)
    engine.containers.remove(container)
    with container.changed:
        container.removed = True
        container.changed.notify_all()
    for _, connection in container.waiting:
        connection.close()
    _sweeper.add(_give_back, engine, paths.of(engine.settings.data_root, engine.settings.exec_root, container.id).home)


def _give_back(engine: object, home: str) -> None:
    """Delete the home, and the image's layers if the image went before its container.

    What cannot be deleted now is logged, and tried again at the next start.
    """
    engine.images.release(engine.containers.using)
    try:
        shutil.rmtree(home)
    except OSError as error:
        log.warning("files of a removed container stay until the next start: %s", error)
