"""Remove a container: first its record, then its networks and volumes, and its files last, in the background.

A daemon that dies in between leaves a home without a record, which the next one sweeps away (`files.sweep`).
"""

import contextlib
import logging
import signal

from engine.daemon.containers import paths, states
from engine.daemon.containers.announce import announce
from engine.daemon.containers.mounts import points
from engine.daemon.containers.record import Container, State
from engine.daemon.containers.verbs import kill
from engine.daemon.measured import timed
from engine.daemon.parts import ContainerParts
from engine.daemon.runtime.background import Turn
from engine.daemon.store import containers as table
from engine.daemon.tar.trees import left_for_later, remove_path
from engine.errors import Conflict, NotFound, SystemFailure
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded by the first start, or by an adoption
    from engine.daemon.containers.endpoints import ending
else:
    ending = late("engine.daemon.containers.endpoints.ending")

log = logging.getLogger(__name__)

_STOP_FIRST = ": stop the container before removing or force remove"
_sweeper = Turn("sweeper")


def remove(
    engine: ContainerParts,
    container: Container,
    force: bool,
    volumes: bool,
    name: str = "",
    *,
    lasting: bool = True,
    patience: float = -1,
) -> None:
    """Remove the container. force: kill it first; volumes: remove its volumes without a name too.

    name: the client's name for it; lasting: as for `create`; patience: seconds to wait for another verb, -1 as long as
        it takes. Raises Conflict when it runs and `force` is not given, or when its removal is already under way.
    """
    name = name or container.id
    while True:
        state = container.snapshot()
        if state.running:
            _kill(engine, container, state, force, name)
        if state.status == "removing":
            raise Conflict(f"removal of container {name} is already in progress")
        if not container.operation.acquire(timeout=patience):
            raise Conflict(f"container {name} is busy")
        try:
            if state.running and container.removed:
                return  # AutoRemove has removed it at its end
            # A start that was under way at the look above has held the lock before this thread.
            if not container.settled().running:
                finish(engine, container, volumes, lasting)
                return
        finally:
            container.operation.release()


def _kill(engine: ContainerParts, container: Container, state: State, force: bool, name: str) -> None:
    if not force:
        way = " and must be unpaused first" if state.status == "paused" else _STOP_FIRST
        raise Conflict(f'cannot remove container "{name}": container is {state.status}{way}')
    try:
        run = kill.send(engine, container, signal.SIGKILL, ends=True)
    except Conflict:  # the container has ended by itself meanwhile
        return
    if not kill.await_end(container, run, kill.KILLED_SECONDS):
        raise Conflict(f'cannot remove container "{name}": could not kill container')


@timed("container_actions", "delete")
def finish(engine: ContainerParts, container: Container, volumes: bool = False, lasting: bool = True) -> None:
    """Remove a container that does not run, also one whose removal an earlier daemon began.

    The caller holds `operation`, but for a daemon's start, which needs no lock.
    """
    with container.changed:
        if container.removed:
            raise NotFound(f"No such container: {container.id}")
        if container.state.status != "removing":
            states.move(container, "removing")
    where = paths.of(engine.settings.data_root, engine.settings.exec_root, container.id)
    _delete_record(engine, container, where, lasting)
    engine.containers.remove(container)
    _leave_networks(engine, container)
    points.release(engine, container, volumes)
    with container.changed:
        container.removed = True
        container.changed.notify_all()
        container.ring()
    engine.monitors.removed(container.id)
    engine.execs.drop(container)
    announce(engine, container, "destroy")
    while container.waiting:
        container.waiting.pop()[1].close()
    _sweeper.add(_give_back, engine, where)


def _leave_networks(engine: ContainerParts, container: Container) -> None:
    """Release its networks, if the end of its last run could not, for want of space on the disk."""
    if engine.networks.endpoints(container_id=container.id):
        ending.release(engine, container)


def _delete_record(engine: ContainerParts, container: Container, where: paths.Paths, lasting: bool) -> None:
    try:
        _delete(engine, container, lasting)
    except SystemFailure as error:
        log.warning(
            "container %s: its record cannot be deleted; deleting its files first to free space: %s",
            container.id,
            error,
        )
    else:
        return
    # On a full disk no transaction has space, and this removal may be what is to free some.
    with contextlib.suppress(OSError):  # then the transaction fails too, and raises the error
        remove_path(where.home)
    try:
        _delete(engine, container, lasting)
    except SystemFailure:
        with container.changed:
            states.move(container, "dead")
        raise


def _delete(engine: ContainerParts, container: Container, lasting: bool) -> None:
    with engine.database.transaction(durable=lasting, frees=True) as connection:
        table.delete(connection, container)


def _give_back(engine: ContainerParts, where: paths.Paths) -> None:
    """Delete the home, and the image's layers if the image was removed before its container."""
    with left_for_later("files of a removed container"):
        with contextlib.suppress(FileNotFoundError):  # it exists only where the last end could not be saved
            remove_path(where.exec_dir)
        remove_path(where.home)
    engine.images.release(engine.containers.using)  # after the files: on a full disk it may need their space
