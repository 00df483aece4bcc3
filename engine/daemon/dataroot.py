"""The daemon's data root and exec root: makes and locks them, and opens the database in the data root.

Runs in the daemon's main thread before any other exists, and in `engine migrate`, which writes into a data root that no
daemon has.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator

from engine.daemon.store import buildrecords as build_record_table
from engine.daemon.store import builds as build_table
from engine.daemon.store import containers as container_table
from engine.daemon.store import images as image_table
from engine.daemon.store import networks as network_table
from engine.daemon.store import volumes as volume_table
from engine.daemon.store.database import Database
from engine.daemon.store.migrations import MIGRATIONS
from engine.errors import SystemFailure, Unavailable
from engine.kernel import ownership, placement, reasons, wholefile
from engine.regex import regex
from engine.settings.every import Settings

_UUID = regex(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

# No other user of the host may reach what containers write: a setuid program of theirs would run with its owner's
# rights on the host too (CVE-2021-41091). The data root itself is shut to other users. So is each directory in it,
# because a mapped root will have to pass the data root once user namespaces are built. Other users may pass the exec
# root, because it may hold a socket for a group.
_ROOTS = {"data": 0o700, "exec": 0o711}
REMOVED_VOLUMES = "volumes/.removed"
"""What volumes that are removed become first. It is made here, since a removal on a full disk has no room for it."""
UNFINISHED = "tmp"
"""The directory of what is to become a blob or an image."""
OF_IMAGES = ("blobs", "layers", UNFINISHED)
"""The directories of images."""
_PRIVATE = {
    "data": (*OF_IMAGES, "buildmounts", "containers", "contexts", "history", "volumes", REMOVED_VOLUMES),
    "exec": ("containers", "given", "runtimes", "stage"),
}
# Its directories come and go with the containers, and have nothing to do with each other.
_SPREAD = "containers"
_DATABASE = "engine.db"
# What dockerd has in its data root, and this engine does not.
_DOCKERDS_OWN = ("image", "network", "overlay2", "plugins", "swarm", "runtimes", "containerd")


def _refuse_dockerds(root: str) -> None:
    """Raise Unavailable for a data root with the state of dockerd: the engine would remove what it does not know."""
    found = [name for name in _DOCKERDS_OWN if os.path.exists(os.path.join(root, name))]
    if found and not os.path.exists(os.path.join(root, _DATABASE)):
        raise Unavailable(
            f"the data root {root} has the state of dockerd ({', '.join(found)}), which is of another form:"
            " give the engine a --data-root of its own"
        )


def make(settings: Settings) -> None:
    """Make both roots and the directories in them. Raises Unavailable for a data root of dockerd, SystemFailure.

    A root of an older daemon may be open to others, who may read. One whose administrator has shut it further stays so.
    """
    _refuse_dockerds(settings.data_root)
    for kind, root in (("data", settings.data_root), ("exec", settings.exec_root)):
        with usable(f"{kind} root"):
            ownership.make(root, _ROOTS[kind], _PRIVATE[kind])
            placement.spread(os.path.join(root, _SPREAD))


@contextlib.contextmanager
def usable(what: str) -> Iterator[None]:
    """Raise SystemFailure that names `what` for an OSError while the daemon is built."""
    try:
        yield
    except OSError as error:
        raise SystemFailure(f"the {what} cannot be used: {reasons.whole(error)}") from error


@contextlib.contextmanager
def locked(kind: str, root: str) -> Iterator[None]:
    """Hold the lock of a root directory: two daemons on one root would each think that they own its containers.

    Raises Unavailable when another daemon holds it.
    """
    with usable(f"{kind} root"):
        descriptor = os.open(os.path.join(root, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Unavailable(f"another daemon already runs on the {kind} root {root}") from error
        yield
    finally:
        os.close(descriptor)


def engine_id(data_root: str) -> str:
    """The daemon's own id, which the data root keeps: as its file has it, else a UUID. Raises OSError."""
    path = os.path.join(data_root, "engine-id")
    with contextlib.suppress(FileNotFoundError, UnicodeDecodeError), open(path) as file:
        known = file.read()
        if known.strip("\0"):  # otherwise an older daemon lost power within its first start
            # Older daemons wrote a line; of what an administrator has written every character counts, as in dockerd.
            return known[:-1] if _UUID.fullmatch(known[:-1]) and known.endswith("\n") else known
    with open("/proc/sys/kernel/random/uuid") as kernel:
        made = kernel.read().strip()
    wholefile.write(path, made, synced=False)
    return made


def database(data_root: str) -> Database:
    """The database of a data root, which this process alone may write to. Raises SystemFailure."""
    return Database(
        os.path.join(data_root, _DATABASE),
        tuple(
            statement
            for table in (
                *(container_table, image_table, build_table, build_record_table),
                *(volume_table, network_table),
            )
            for statement in table.SCHEMA
        ),
        MIGRATIONS,
        alone=True,
    )
