"""The cache directories of RUN --mount=type=cache: made, kept between builds below the data root, shared, and removed.

Runs on the threads that build. A directory counts once its row is in the database. One without a row is being made by a
step, or was left by a crash, and the next prune removes it. The sharing modes are BuildKit's. With `shared` all steps
use a directory at once. With `locked` one step after the other uses it. With `private` each step that asks at the same
time has a directory of its own, as has one that asks with `shared` while others have locked all. The lock `_turn` is
held for a lookup only. A new directory is filled without the lock, as that may copy an image's whole tree; only steps
that want the same directory wait for it.
"""

import collections
import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator

from engine.daemon.parts import ContainerParts
from engine.daemon.store import builds as table
from engine.daemon.tar.trees import left_for_later, remove_tree
from engine.errors import SystemFailure
from engine.kernel import reasons, weigh

_ROOM = "buildmounts"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# How long a waiting step sleeps before it checks again whether its client is still there.
_LOOK_SECONDS = 0.2

_turn = threading.Condition()
_users: collections.Counter[int] = collections.Counter()
_locked: set[int] = set()
# Directories that are being made: `_first(name)` of one that all steps are to share, and the file name of one that has
# no number yet.
_making: set[str] = set()


def room(engine: ContainerParts) -> str:
    """The directory below the data root that holds all cache directories; made where it is missing."""
    path = os.path.join(engine.settings.data_root, _ROOM)
    os.makedirs(path, mode=0o700, exist_ok=True)
    return path


@contextlib.contextmanager
def taken(
    engine: ContainerParts,
    name: str,
    sharing: str,
    owner: tuple[int, int, int],
    fill: Callable[[int], None],
    check: Callable[[], None],
) -> Iterator[str]:
    """The path of the cache directory of that name, which this step uses until the context ends.

    owner: uid, gid and mode of a new one; fill: puts the first contents into a new one; check: raises to end the wait
    """
    number = _take(engine, name, sharing, owner, fill, check)
    try:
        with engine.database.transaction() as connection:
            table.use_mount(connection, number, time.time_ns())
        yield os.path.join(room(engine), str(number))
    finally:
        with _turn:
            _users[number] -= 1
            if not _users[number]:
                del _users[number]
            _locked.discard(number)
            _turn.notify_all()


def _take(
    engine: ContainerParts,
    name: str,
    sharing: str,
    owner: tuple[int, int, int],
    fill: Callable[[int], None],
    check: Callable[[], None],
) -> int:
    while True:
        with _turn:
            with engine.database.reading() as connection:
                known = [row["number"] for row in table.mounts(connection, name)]
            free = [number for number in known if number not in (_locked if sharing == "shared" else _users)]
            if free:
                return _hold(free[0], sharing)
            begun = sharing != "private" and _first(name) in _making
            making = not begun and (sharing != "locked" or not known)
            if making and sharing != "private":
                _making.add(_first(name))
            elif not making:
                _turn.wait(_LOOK_SECONDS)
        if making:
            try:
                return _make(engine, name, sharing, owner, fill)
            finally:
                with _turn:
                    _making.discard(_first(name))
                    _turn.notify_all()
        check()


def empty(engine: ContainerParts, name: str) -> None:
    """The next step that asks for a directory of that name begins with a new one. Who uses one now keeps it."""
    with engine.database.reading() as connection:
        known = [row["number"] for row in table.mounts(connection) if name in (row["name"], row["name"].split(" ")[0])]
    for number in known:
        if not remove(engine, number):
            with engine.database.transaction() as connection:
                table.drop_mount(connection, number)


def _first(name: str) -> str:
    """The entry of `_making` for a directory that all steps are to share; a file name never begins with a slash."""
    return f"/{name}"


def _hold(number: int, sharing: str) -> int:
    """Count this step as a user of the directory; the caller holds `_turn`."""
    _users[number] += 1
    if sharing != "shared":
        _locked.add(number)
    return number


def _make(
    engine: ContainerParts, name: str, sharing: str, owner: tuple[int, int, int], fill: Callable[[int], None]
) -> int:
    """Make and fill a new directory, and hold it for this step before any other step can find it."""
    above = os.open(room(engine), _DIRECTORY)
    part = f"new-{os.urandom(8).hex()}"
    uid, gid, mode = owner
    with _turn:
        _making.add(part)
    try:
        os.mkdir(part, 0o700, dir_fd=above)
        place = part
        try:
            inside = os.open(part, _DIRECTORY, dir_fd=above)
            try:
                fill(inside)
                os.fchown(inside, uid, gid)
                os.fchmod(inside, mode)
            finally:
                os.close(inside)
            with _turn:
                with engine.database.transaction() as connection:
                    number = table.new_mount(connection, name, time.time_ns())
                    os.rename(part, str(number), src_dir_fd=above, dst_dir_fd=above)
                    place = str(number)
                return _hold(number, sharing)
        except BaseException:
            remove_tree(above, place)
            raise
    except OSError as error:
        raise SystemFailure(f"the cache directory {name} cannot be made: {reasons.whole(error)}") from error
    finally:
        with _turn:
            _making.discard(part)
        os.close(above)


def size(engine: ContainerParts, number: int) -> int:
    """The bytes that a directory takes, hard links counted once. Files that disappear meanwhile are not counted."""
    return weigh.below(os.path.join(room(engine), str(number)), weigh.room, directories=True)


def remove(engine: ContainerParts, number: int) -> bool:
    """Remove a directory and its row; False when a step uses it."""
    with _turn:
        if number in _users:
            return False
        with engine.database.transaction(durable=True, frees=True) as connection:
            table.drop_mount(connection, number)
    _remove(engine, str(number))
    return True


def in_use(number: int) -> bool:
    """Whether a step has the directory mounted now."""
    with _turn:
        return number in _users


def sweep(engine: ContainerParts) -> None:
    """Remove the directories that have no row and that no step is making: a crash left them."""
    with _turn:
        with engine.database.reading() as connection:
            known = {str(row["number"]) for row in table.mounts(connection)}.union(map(str, _users))
        left = [name for name in os.listdir(room(engine)) if name not in known and name not in _making]
    for name in left:
        with left_for_later("a directory of builds"):
            _remove(engine, name)


def _remove(engine: ContainerParts, name: str) -> None:
    above = os.open(room(engine), _DIRECTORY)
    try:
        with contextlib.suppress(FileNotFoundError):
            remove_tree(above, name)
    finally:
        os.close(above)
