"""Has plugins mount their volumes for a container, and tells them when the mounts are not needed any more.

Runs in the daemon, on the thread of a request or of a container's end. A plugin counts its mounts by ids, so each mount
of a run has an id of its own. The file of the container's name in `volumes` below the exec root lists them, and is
written before the first call: so a run that a dead daemon has begun is told of by the next one. A plugin is waited for,
two minutes at most; what fails at the end of a run is logged, since there is nobody to tell.
"""

import contextlib
import json
import logging
import os
import threading
from collections.abc import Iterator

from engine.daemon.containers import paths
from engine.daemon.containers.record import Container
from engine.daemon.containers.shapes import MountPoint
from engine.daemon.parts import MountParts
from engine.daemon.runtime.background import later
from engine.errors import EngineError, SystemFailure
from engine.kernel import reasons, wholefile

log = logging.getLogger(__name__)

Lent = dict[str, str]
"""By the paths in the container: the directories of the host where plugins have mounted the volumes for them."""
_LARGEST = 1 << 20  # bytes of a file


def points_of(container: Container) -> list[MountPoint]:
    """The container's mount points whose volumes plugins keep."""
    return [point for point in container.mounts if point["Type"] == "volume" and point["Driver"] not in ("", "local")]


def begin(engine: MountParts, container: Container) -> Lent:
    """Have the plugins mount the volumes for a run; the caller sees to it that `end` is called after it.

    Raises NotFound for a volume or driver that is gone, SystemFailure.
    """
    wanted = points_of(container)
    if not wanted:
        return {}
    mounts = [(point["Driver"], point["Name"], os.urandom(32).hex()) for point in wanted]
    try:
        os.makedirs(paths.lent(engine.settings.exec_root), 0o700, exist_ok=True)
        wholefile.write(_file(engine, container.id), json.dumps(mounts))
    except OSError as error:
        raise SystemFailure(f"the mounts of plugins cannot be noted: {reasons.whole(error)}") from error
    return {point["Destination"]: _mount(engine, *mount) for point, mount in zip(wanted, mounts, strict=True)}


def end(engine: MountParts, container_id: str) -> None:
    """Tell the plugins that the mounts of the container's run are not needed any more, if there are any.

    The main thread does not wait for it: while a daemon starts, a plugin may be about to start too.
    """
    path = _file(engine, container_id)
    if not os.path.exists(path):
        return
    if threading.current_thread() is threading.main_thread():
        os.rename(path, f"{path}.{os.urandom(4).hex()}")
        sweep(engine)
        return
    _end(engine, path)


def sweep(engine: MountParts) -> None:
    """At a daemon's start: tell the plugins, in the background, of runs that have ended before."""
    directory = paths.lent(engine.settings.exec_root)
    with contextlib.suppress(FileNotFoundError):
        for name in sorted(os.listdir(directory)):
            if "." in name:
                later(_end, engine, os.path.join(directory, name))


@contextlib.contextmanager
def meanwhile(engine: MountParts, container: Container, wanted: list[MountPoint] | None = None) -> Iterator[Lent]:
    """Have the plugins mount volumes of a container that does not run, for as long as its files are looked at.

    wanted: of `points_of`, None for all. Raises NotFound, SystemFailure.
    """
    with contextlib.ExitStack() as stack:
        lent: Lent = {}
        for point in points_of(container) if wanted is None else wanted:
            mount = (point["Driver"], point["Name"], os.urandom(32).hex())
            lent[point["Destination"]] = _mount(engine, *mount)
            stack.callback(_unmount, engine, *mount)
        yield lent


def _file(engine: MountParts, container_id: str) -> str:
    return os.path.join(paths.lent(engine.settings.exec_root), container_id)


def _mount(engine: MountParts, driver: str, name: str, identity: str) -> str:
    drivers = engine.volumes.drivers
    if drivers is None:
        why = f'error looking up volume plugin {driver}: plugin "{driver}" not found'
        raise SystemFailure(f"error while mounting volume '{name}': {why}")
    try:
        return drivers.mount(driver, name, identity)
    except EngineError as error:
        raise type(error)(f"error while mounting volume '{name}': {error}") from error


def _unmount(engine: MountParts, driver: str, name: str, identity: str) -> None:
    drivers = engine.volumes.drivers
    try:
        if drivers is not None:
            drivers.unmount(driver, name, identity)
    except EngineError as error:
        log.warning("volume %s: its driver was not told that it is not needed any more: %s", name, error)


def _end(engine: MountParts, path: str) -> None:
    try:
        with open(path) as file:
            mounts = json.loads(file.read(_LARGEST))
    except FileNotFoundError:
        return
    except ValueError:  # it was cut off with the power, and so were the mounts
        mounts = []
    for driver, name, identity in mounts:
        _unmount(engine, driver, name, identity)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
