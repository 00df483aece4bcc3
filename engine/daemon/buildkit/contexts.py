"""The mirrors of clients' directories, kept from one build to the next so that only what changed travels.

A mirror belongs to a client's shared key, the name of the directory and the choice of files. One build uses it at a
time; the next waits. Those that were not used for longest are removed where there are too many, or where they take too
much of the disk. A daemon that was killed leaves a mirror as it stood, which the next list puts right.
"""

import contextlib
import hashlib
import logging
import os
import threading
from collections.abc import Callable, Iterator

from engine.daemon.tar.trees import remove_path
from engine.dataclass import dataclass
from engine.errors import SystemFailure

_MOST_KEPT = 32
_MOST_PARTS = 10  # all mirrors together take a tenth of the disk at most
_LOOK_SECONDS = 0.5
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILES, _SIZE = "files", "size"
log = logging.getLogger(__name__)
_tidying = threading.Lock()  # of whoever removes mirrors; no client is waited for
_free = threading.Condition()
_used: set[str] = set()  # guarded by `_free`


@dataclass(frozen=True, slots=True)
class Mirror:
    """One that a build uses. path: of its directory; root: descriptor of the files in it"""

    path: str
    root: int

    def weighs(self, size: int) -> None:
        """Note how many bytes its files have."""
        with open(os.path.join(self.path, _SIZE), "w") as file:
            file.write(str(size))


def room(data_root: str) -> str:
    """The directory that holds all mirrors."""
    return os.path.join(data_root, "contexts")


@contextlib.contextmanager
def held(data_root: str, key: tuple[str, ...], check: Callable[[], None]) -> Iterator[Mirror]:
    """The mirror with this key, which nobody else uses meanwhile. Raises SystemFailure.

    check: raises to end the wait for another build that uses it
    """
    mark = hashlib.sha256("\0".join(key).encode("utf-8", "surrogateescape")).hexdigest()
    path = os.path.join(room(data_root), mark)
    with _free:
        while mark in _used:
            _free.wait(_LOOK_SECONDS)
            check()
        _used.add(mark)
    try:
        try:
            os.makedirs(os.path.join(path, _FILES), 0o700, exist_ok=True)
            os.utime(path)  # for the order in which they are removed
            root = os.open(os.path.join(path, _FILES), _DIRECTORY)
        except OSError as error:
            raise SystemFailure(f"cannot keep the build context: {error.strerror}") from error
        try:
            yield Mirror(path, root)
        finally:
            os.close(root)
            _tidy(data_root)
    finally:
        _release(mark)


def _release(mark: str) -> None:
    with _free:
        _used.discard(mark)
        _free.notify_all()


def _tidy(data_root: str) -> None:
    """Remove the mirrors that are too many, the oldest first; those that a build uses stay. A failure is logged."""
    with _tidying:
        try:
            _remove_surplus(room(data_root))
        except OSError as error:
            log.warning("a kept build context cannot be removed: %s", error)


def _remove_surplus(above: str) -> None:
    with os.scandir(above) as found:
        names = [
            name for _, name in sorted((each.stat(follow_symlinks=False).st_mtime_ns, each.name) for each in found)
        ]
    sizes = {name: _size(os.path.join(above, name)) for name in names}
    state = os.statvfs(above)
    most, left, taken = state.f_blocks * state.f_frsize // _MOST_PARTS, len(names), sum(sizes.values())
    for name in names:
        if left <= _MOST_KEPT and taken <= most:
            return
        with _free:
            if name in _used:
                continue
            _used.add(name)
        try:
            remove_path(os.path.join(above, name))
            left, taken = left - 1, taken - sizes[name]
        finally:
            _release(name)


def _size(path: str) -> int:
    """What was noted; 0 where a daemon died before it could."""
    try:
        with open(os.path.join(path, _SIZE)) as file:
            return int(file.read() or 0)
    except (FileNotFoundError, ValueError):
        return 0
