"""A container's copies of images, where the storage is `copy`: its root, and what it mounts of images.

Runs in the daemon's threads, before a verb takes `Container.operation`: a tree of any size is copied, and whoever wants
to stop or remove the container must not wait for that. One thread copies for one container at a time (`preparing`,
under `Container.changed`); a removal does not wait for it, and what is copied for a container that is no more goes.
"""

import contextlib
import os

from engine.daemon.containers import paths
from engine.daemon.containers.isolation import sandbox
from engine.daemon.containers.mounts import mounting
from engine.daemon.containers.record import Container
from engine.daemon.images.layers.storage import OVERLAY
from engine.daemon.tar.trees import remove_path
from engine.errors import NotFound, SystemFailure


def prepare(engine: object, container: Container) -> None:
    """Have the copies there; with overlays there is nothing to be done. The caller holds no lock.

    Raises SystemFailure, NotFound for a container that was removed meanwhile.
    """
    if engine.storage == OVERLAY:
        return
    where = paths.of(engine.settings.data_root, engine.settings.exec_root, container.id)
    with container.changed:
        container.changed.wait_for(lambda: not container.preparing)
        if container.removed or container.state.running:
            return  # that it is there, or that it does not matter, is for the verb to find out
        container.preparing = True
    try:
        if not os.path.isdir(where.upper):
            sandbox.make_root(engine, container, where)
        for point in container.mounts:
            if point["Type"] == "image":
                mounting.copy_of_image(engine, container, point)
    except OSError as error:
        if not container.removed:
            raise SystemFailure(f"the directories of the container cannot be made: {error}") from error
    finally:
        with container.changed:
            container.preparing = False
            container.changed.notify_all()
    if container.removed:
        _remove(where.home)
        raise NotFound(f"No such container: {container.id}")


def _remove(home: str) -> None:
    """Remove the tree beside the removal of the container, which may take a file away under this one's eyes."""
    while os.path.lexists(home):
        with contextlib.suppress(FileNotFoundError):
            remove_path(home)
