"""Copy the images that a container needs, its root and its image mounts, where the storage is `copy`.

Runs in the daemon's threads, before a verb takes `Container.operation`: a tree of any size is copied, and a stop or a
removal of the container must not wait for that. One thread copies for one container at a time (`preparing`, under
`Container.changed`). A removal does not wait for the copy; the thread that copies then removes what it has copied.
"""

import contextlib
import os

from engine.daemon.containers import paths
from engine.daemon.containers.mounts import preparing
from engine.daemon.containers.record import Container
from engine.daemon.containers.security import specify
from engine.daemon.images.layers.storage import OVERLAY
from engine.daemon.parts import ContentParts
from engine.daemon.tar.trees import remove_path
from engine.errors import NotFound, SystemFailure
from engine.kernel import reasons


def prepare(engine: ContentParts, container: Container) -> None:
    """Make the container's copies; with overlays there is nothing to do. The caller holds no lock.

    Raises SystemFailure, NotFound for a container that was removed meanwhile.
    """
    if engine.storage == OVERLAY:
        return
    where = paths.of(engine.settings.data_root, engine.settings.exec_root, container.id)
    with container.changed:
        container.changed.wait_for(lambda: not container.preparing)
        if container.removed or container.state.running:
            return  # the copies exist, or are not needed any more; the verb finds that out itself
        container.preparing = True
    try:
        if not os.path.isdir(where.upper):
            specify.make_root(engine, container, where)
        for point in container.mounts:
            if point["Type"] == "image":
                preparing.copy_of_image(engine, container, point)
    except OSError as error:
        if not container.removed:
            raise SystemFailure(f"the directories of the container cannot be made: {reasons.whole(error)}") from error
    finally:
        with container.changed:
            container.preparing = False
            container.changed.notify_all()
    if container.removed:
        _remove(where.home)
        raise NotFound(f"No such container: {container.id}")


def _remove(home: str) -> None:
    """Remove the tree while the container's removal may do the same, so that files may vanish meanwhile."""
    while os.path.lexists(home):
        with contextlib.suppress(FileNotFoundError):
            remove_path(home)
