"""A read-only view of an image's layers merged into one root, as containers see it, without a mount on the host.

Runs in the daemon, in a thread that is made for it. The overlay is mounted in that thread's own mount namespace and
ends with the thread. A single layer needs no mount. Where the storage is `copy`, the layers are copied instead.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from engine.annotating import TypeVar
from engine.daemon.images.layers import storage
from engine.daemon.tar.trees import remove_path
from engine.errors import SystemFailure
from engine.kernel import reasons, syscalls

Result = TypeVar("Result")

_ROOT = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


def within(layer_root: str, layers: Sequence[str], work: Callable[[int], Result]) -> Result:
    """The result of `work(root_fd)`, with an O_PATH descriptor of the root that these layers (lowest first) make.

    Without layers the root is empty. Where the storage is `copy`, several layers are copied for this, which may take
    long. Raises what `work` raises; SystemFailure where the root cannot be mounted or copied.
    """
    if len(layers) == 1:
        return _opened(os.path.join(layer_root, layers[0]), work)
    if layers and storage.choose(os.path.dirname(layer_root)) != storage.OVERLAY:
        with _copy(layer_root, layers) as root:
            return work(root)
    results: list[Result] = []
    failures: list[BaseException] = []

    def look() -> None:
        try:
            results.append(_mounted(layer_root, layers, work))
        except BaseException as error:  # raised again in the calling thread
            failures.append(error)

    thread = threading.Thread(target=look, name="merged")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    return results[0]


def _opened(path: str, work: Callable[[int], Result]) -> Result:
    root = os.open(path, _ROOT)
    try:
        return work(root)
    finally:
        os.close(root)


@contextlib.contextmanager
def held(layer_root: str, layers: Sequence[str]) -> Iterator[int]:
    """An O_PATH descriptor of the root that these layers make, to be used outside of the thread that mounted it.

    It is for work that also needs the layer root's own path, over which the thread of `within` mounts. The descriptor
    keeps the mount alive until the context ends; no other process sees it.
    """
    if len(layers) > 1 and storage.choose(os.path.dirname(layer_root)) != storage.OVERLAY:
        with _copy(layer_root, layers) as root:
            yield root
        return
    root = within(layer_root, layers, os.dup)
    try:
        yield root
    finally:
        os.close(root)


@contextlib.contextmanager
def _copy(layer_root: str, layers: Sequence[str]) -> Iterator[int]:
    place = os.path.join(os.path.dirname(layer_root), "tmp", f"merged-{os.getpid()}-{time.monotonic_ns()}")
    os.mkdir(place, 0o700)
    try:
        try:
            storage.copy_layers(layer_root, layers, place)
        except OSError as error:
            raise SystemFailure(f"the image's files cannot be shown: {reasons.whole(error)}") from error
        root = os.open(place, _ROOT)
        try:
            yield root
        finally:
            os.close(root)
    finally:
        remove_path(place)


def _mounted(layer_root: str, layers: Sequence[str], work: Callable[[int], Result]) -> Result:
    try:
        # With CLONE_NEWNS Linux also gives the thread its own root and working directory (unshare(2), CLONE_FS).
        syscalls.unshare(syscalls.CLONE_NEWNS)
        syscalls.mount(None, "/", None, syscalls.MS_REC | syscalls.MS_PRIVATE)
        os.chdir(layer_root)
        options = f"lowerdir={':'.join(layers[::-1])}"
        if storage.marks_of_user(os.path.dirname(layer_root)):
            options += f",{storage.USERXATTR}"
        if layers:
            syscalls.mount("overlay", layer_root, "overlay", syscalls.MS_RDONLY, options)
        else:
            syscalls.mount("tmpfs", layer_root, "tmpfs", syscalls.MS_RDONLY, "mode=755")
    except OSError as error:
        raise SystemFailure(f"the image's files cannot be shown: {reasons.whole(error)}") from error
    return _opened(layer_root, work)
