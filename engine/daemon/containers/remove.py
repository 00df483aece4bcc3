"""Remove a container: its record first, its files after.

The files are moved aside before they are deleted, so that a daemon that dies in between finds them in one place at its
next start (`sweep`) and never as half a container.
"""

import logging
import os
import shutil
import signal

from engine.daemon.containers import paths, states
from engine.daemon.containers.record import Container
from engine.daemon.containers.stop import await_end
from engine.daemon.runtime import processes
from engine.daemon.store import containers as table
from engine.errors import Conflict, NotFound

log = logging.getLogger(__name__)

_KILLED_SECONDS = 10


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
    aside = set_aside(engine.settings.data_root, engine.settings.exec_root, container.id)
    with engine.database.transaction(durable=True) as connection:
        table.delete(connection, container.id)
    engine.containers.remove(container)
    with container.changed:
        container.removed = True
        container.changed.notify_all()
    delete_tree(aside)


def set_aside(data_root: str, exec_root: str, container_id: str) -> str:
    """Move the container's files to where `sweep` finds them; returns the new place."""
    aside = os.path.join(data_root, "removing", container_id)
    try:
        os.rename(paths.of(data_root, exec_root, container_id).home, aside)
    except FileNotFoundError:
        pass  # moved by a daemon that died before it deleted the record
    return aside


def delete_tree(path: str) -> None:
    """Delete what was set aside; what cannot be deleted now is logged, and tried again at the next start."""
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        pass  # nothing was left to set aside
    except OSError as error:
        log.warning("files of a removed container stay until the next start: %s", error)


def sweep(data_root: str) -> None:
    """Delete what an earlier daemon had set aside and not deleted."""
    place = os.path.join(data_root, "removing")
    os.makedirs(place, mode=0o700, exist_ok=True)
    for name in os.listdir(place):
        delete_tree(os.path.join(place, name))
