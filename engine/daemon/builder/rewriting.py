"""A tree as a root that can be written to for a moment, and the tree that comes of it.

The overlay is mounted in a mount namespace of a thread that is made for it, and ends with that thread, so nothing is
ever mounted on the host. Where the storage is `copy`, the tree is copied, and compared with what it was.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator

from engine.daemon.builder.graph.snapshot import Snapshot
from engine.daemon.builder.graph.work import Work
from engine.daemon.containers.contents import changes, commit
from engine.daemon.containers.contents.changes import Change
from engine.daemon.images.layers import merged, storage
from engine.daemon.images.layers.store import Layer
from engine.daemon.tar.trees import remove_tree
from engine.errors import SystemFailure
from engine.kernel import reasons, syscalls
from engine.sandbox import mounts
from engine.sandbox.spec import Root

_Unpacked = tuple[Layer, str] | None
_Use = Callable[[int, Iterator[Change]], _Unpacked]

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def rewritten(work: Work, below: Snapshot, act: Callable[[int], None]) -> Snapshot:
    """The tree with what `act` changes in it, as one more layer; the same tree if it changes nothing.

    act: is called in another thread with a descriptor of the root. Raises what it raises, and SystemFailure.
    """
    with _room(work) as (upper, path):
        if not below.parts:
            act(upper)
            return _packed(work, below, lambda use: changes.above(None, upper, "", use))
        images = work.engine.images
        layer_root = images.layer_root
        with merged.held(layer_root, below.layers) as old:
            if work.engine.storage != "overlayfs":
                source = os.open(".", _DIRECTORY, dir_fd=old)
                try:
                    storage.copy_tree(source, upper, work.check)
                finally:
                    os.close(source)
                act(upper)
                return _packed(work, below, lambda use: changes.between(old, upper, use))
            root = Root(layer_root, below.layers, f"{path}/files", f"{path}/work", userxattr=images.userxattr)
            _aside(lambda: _mounted(root, act))
            return _packed(work, below, lambda use: changes.above(old, upper, images.opaque, use))


def _packed(work: Work, below: Snapshot, compare: Callable[[_Use], _Unpacked]) -> Snapshot:
    with work.keeper.incoming() as blob:
        new = compare(lambda top, found: commit.unpacked(top, found, work.keeper.session, blob))
        return work.keeper.added(blob, new, below)


@contextlib.contextmanager
def _room(work: Work) -> Iterator[tuple[int, str]]:
    """The descriptor of an empty directory for the files that change, and the path of the one above it."""
    name = f"rewritten-{os.urandom(8).hex()}"
    os.mkdir(name, 0o700, dir_fd=work.scratch)
    try:
        for inner in ("files", "work"):
            os.mkdir(f"{name}/{inner}", 0o755, dir_fd=work.scratch)
        upper = os.open(f"{name}/files", _DIRECTORY, dir_fd=work.scratch)
        try:
            yield upper, os.path.join(os.readlink(f"/proc/self/fd/{work.scratch}"), name)
        finally:
            os.close(upper)
    finally:
        remove_tree(work.scratch, name)


def _mounted(root: Root, act: Callable[[int], None]) -> None:
    """Mount the overlay and act on it. Runs in a thread of its own, which must end with this call."""
    try:
        # With CLONE_NEWNS Linux also gives the thread its own root and working directory (unshare(2), CLONE_FS).
        syscalls.unshare(syscalls.CLONE_NEWNS)
        syscalls.mount(None, "/", None, syscalls.MS_REC | syscalls.MS_PRIVATE)
    except OSError as error:
        raise SystemFailure(f"the files cannot be changed: {reasons.whole(error)}") from error
    place = mounts.mount_root(root)
    try:
        top = os.open(".", _DIRECTORY, dir_fd=place)
        try:
            act(top)
        finally:
            os.close(top)
    finally:
        os.close(place)
        # Unmounted now, not when the kernel gets to this thread's end: the files are read at once.
        syscalls.umount2(root.upper, syscalls.MNT_DETACH)


def _aside(work: Callable[[], None]) -> None:
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # raised again in the calling thread
            failures.append(error)

    thread = threading.Thread(target=run, name="rewriting")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
