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
import time
from collections.abc import Callable, Iterator

from engine.daemon.builder.copying.remembered import Remembered
from engine.daemon.tar.trees import remove_path
from engine.dataclass import dataclass
from engine.errors import SystemFailure
from engine.kernel import reasons
from engine.literals import INT64, natural

_MOST_KEPT = 32
_MOST_PARTS = 10  # all mirrors together take a tenth of the disk at most
_LOOK_SECONDS = 0.5
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILES, _FACTS, _DIGESTS = "files", "facts", "digests"
_LISTING, _TREES = "list", "trees"  # what holds of the files as they are
_LONGEST_DESCRIPTION = 200
log = logging.getLogger(__name__)
_tidying = threading.Lock()  # of whoever removes mirrors; no client is waited for
_free = threading.Condition()
_used: set[str] = set()  # guarded by `_free`


@dataclass(frozen=True, slots=True)
class Mirror:
    """One that a build uses. path: of its directory; root: descriptor of the files in it; description: for people"""

    path: str
    root: int
    description: str

    @property
    def listing(self) -> str:
        """The path of the list that the files are the same as. It is missing where nobody knows that of them."""
        return os.path.join(self.path, _LISTING)

    def changes(self) -> None:
        """The files are about to be changed: what was known of them as they were counts no more. Raises OSError."""
        for name in (_TREES, _LISTING):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self.path, name))

    def stays(self) -> None:
        """A build more uses the files, as they are. Raises OSError."""
        known = _facts(self.path)
        self.weighs(known.size if known is not None else 0)

    def weighs(self, size: int, used: bool = True) -> None:
        """Note how many bytes its files have. used: a build more uses them"""
        older = _facts(self.path)
        created, uses = (older.created_ns, older.uses) if older else (time.time_ns(), 0)
        facts = _Facts(size, created, uses + used, "")
        new = os.path.join(self.path, f"{_FACTS}.new")
        with open(new, "w", encoding="utf-8", errors="replace") as file:
            file.write(f"{facts.size} {facts.created_ns} {facts.uses}\n{self.description}")
        os.rename(new, os.path.join(self.path, _FACTS))


def remembered(root: int) -> Remembered:
    """The digests of the files of a mirror that a build uses. root: descriptor of the files"""
    above = os.path.dirname(os.readlink(f"/proc/self/fd/{root}"))
    return Remembered(os.path.join(above, _DIGESTS), os.path.join(above, _TREES))


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is noted of one. uses: builds that have used it"""

    size: int
    created_ns: int
    uses: int
    description: str


def _facts(path: str) -> _Facts | None:
    """What was noted; None where a daemon died before it could."""
    try:
        with open(os.path.join(path, _FACTS), encoding="utf-8") as file:
            numbers, _, description = file.read().partition("\n")
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    size, created, uses, *_ = [natural(each, INT64[1]) for each in f"{numbers} - - -".split(" ")]
    return None if size is None or created is None or uses is None else _Facts(size, created, uses, description)


@dataclass(frozen=True, slots=True)
class Kept:
    """One as a record of the build cache. name: of its directory; in_use: a build uses it now"""

    name: str
    description: str
    size: int
    created_ns: int
    used_ns: int
    uses: int
    in_use: bool


def kept(data_root: str) -> list[Kept]:
    """All mirrors whose files have come once."""
    above, found = room(data_root), list[Kept]()
    try:
        names = os.listdir(above)
    except FileNotFoundError:
        return []
    for name in names:
        facts = _facts(os.path.join(above, name))
        if facts is not None:
            with contextlib.suppress(FileNotFoundError):  # it is removed just now
                used_ns = os.stat(os.path.join(above, name)).st_mtime_ns
                in_use = name in _used
                found.append(Kept(name, facts.description, facts.size, facts.created_ns, used_ns, facts.uses, in_use))
    return found


def remove(data_root: str, name: str) -> bool:
    """Remove a mirror; False where a build uses it, or it is gone. Raises SystemFailure."""
    with _free:
        if name in _used:
            return False
        _used.add(name)
    try:
        remove_path(os.path.join(room(data_root), name))
    except FileNotFoundError:
        return False
    except OSError as error:
        raise SystemFailure(f"cannot remove a kept build context: {reasons.of(error)}") from error
    finally:
        _release(name)
    return True


def room(data_root: str) -> str:
    """The directory that holds all mirrors."""
    return os.path.join(data_root, "contexts")


@contextlib.contextmanager
def held(data_root: str, key: tuple[str, ...], description: str, check: Callable[[], None]) -> Iterator[Mirror]:
    """The mirror with this key, which nobody else uses meanwhile. Raises SystemFailure.

    description: says in the list of the build cache what it is; its beginning is shown
    check: raises to end the wait for another build that uses it
    """
    mark = hashlib.sha256("\0".join(key).encode("utf-8", "surrogateescape")).hexdigest()
    path = os.path.join(room(data_root), mark)
    shown = "".join(each if each.isprintable() else " " for each in description[:_LONGEST_DESCRIPTION])
    with _free:
        while mark in _used:
            _free.wait(_LOOK_SECONDS)
            check()
        _used.add(mark)
    try:
        try:
            os.makedirs(path, 0o700, exist_ok=True)
            os.utime(path)  # for the order in which they are removed
            os.makedirs(os.path.join(path, _FILES), exist_ok=True)
            root = os.open(os.path.join(path, _FILES), _DIRECTORY)
            os.fchmod(root, 0o755)  # as a command of any user sees it where it is mounted; nobody else gets to it
        except OSError as error:
            raise SystemFailure(f"cannot keep the build context: {reasons.of(error)}") from error
        try:
            yield Mirror(path, root, shown)
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
    facts = {name: _facts(os.path.join(above, name)) for name in names}
    sizes = {name: each.size if each else 0 for name, each in facts.items()}
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
