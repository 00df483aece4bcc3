"""A look at an image's root as its containers would see it, without any mount on the host.

Runs in the daemon, in a thread made for it: what is mounted there is mounted in that thread's own mount namespace and
ends with the thread. One layer alone, and a root that was copied, need no mount.
"""

import os
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from engine.errors import SystemFailure
from engine.kernel import syscalls

T = TypeVar("T")

_ROOT = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


def within(layer_root: str, layers: Sequence[str], work: Callable[[int], T]) -> T:
    """`work(root_fd)` with an O_PATH descriptor of the root that these layers (lowest first) make together.

    For storage `overlayfs`. Whatever `work` raises is raised here; SystemFailure where the root cannot be shown.
    """
    if len(layers) <= 1:
        return _opened(os.path.join(layer_root, layers[0]) if layers else "", work)
    results: list[T] = []
    failures: list[BaseException] = []

    def look() -> None:
        try:
            results.append(_mounted(layer_root, layers, work))
        except BaseException as error:  # raised again in the thread that asked
            failures.append(error)

    thread = threading.Thread(target=look, name="merged")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    return results[0]


def _opened(path: str, work: Callable[[int], T]) -> T:
    root = os.open(path, _ROOT)
    try:
        return work(root)
    finally:
        os.close(root)


def _mounted(layer_root: str, layers: Sequence[str], work: Callable[[int], T]) -> T:
    try:
        # Linux gives the thread a root and a working directory of its own with it (unshare(2), CLONE_FS).
        syscalls.unshare(syscalls.CLONE_NEWNS)
        syscalls.mount(None, "/", None, syscalls.MS_REC | syscalls.MS_PRIVATE)
        os.chdir(layer_root)
        lowest_last = ":".join(layers[::-1])
        syscalls.mount("overlay", layer_root, "overlay", syscalls.MS_RDONLY, f"lowerdir={lowest_last}")
    except OSError as error:
        raise SystemFailure(f"the image's files cannot be shown: {error}") from error
    return _opened(layer_root, work)
