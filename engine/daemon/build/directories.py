"""The directories of RUN --mount=type=cache: kept between builds below the data root, and given to steps in turn.

Runs on the threads that build. A directory counts once its row is there; one without a row is being made by a step, or
is what a crash left, and goes with the next prune. Sharing is BuildKit's: `shared` by all at once, `locked` by one
after the other, `private` with a directory of its own for each that asks at the same time. `_turn` is held for a look
alone: what fills a new directory, an image's tree perhaps, is copied without it, and only who wants the same directory
waits for that.
"""

import collections
import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator

from engine.daemon.parts import ContainerParts
from engine.daemon.store import builds as table
from engine.daemon.tar.trees import remove_tree
from engine.errors import SystemFailure
from engine.kernel import weigh

_ROOM = "buildmounts"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# How long a waiting step goes without a look at its client.
_LOOK_SECONDS = 0.2

_turn = threading.Condition()
_users: collections.Counter[int] = collections.Counter()
_locked: set[int] = set()
# The name of a directory that is being made for all, or its place in the room while it has no number.
_making: set[str] = set()


def room(engine: ContainerParts) -> str:
    """Where the directories are."""
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
    """The path of the directory of that name, this step's until the end.

    owner: uid, gid and mode of a new one; fill: puts what it begins with into a new one; check: raises to end the wait
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
            making = sharing == "private" or not (known or _first(name) in _making)
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


def _first(name: str) -> str:
    """What stands in `_making` for the one directory that all who share are to have; no place looks like it."""
    return f"/{name}"


def _hold(number: int, sharing: str) -> int:
    """Have the directory; the caller holds `_turn`."""
    _users[number] += 1
    if sharing != "shared":
        _locked.add(number)
    return number


def _make(
    engine: ContainerParts, name: str, sharing: str, owner: tuple[int, int, int], fill: Callable[[int], None]
) -> int:
    """A new directory, filled, and held before anybody else can find it."""
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
        raise SystemFailure(f"the cache directory {name} cannot be made: {error}") from error
    finally:
        with _turn:
            _making.discard(part)
        os.close(above)


def size(engine: ContainerParts, number: int) -> int:
    """The bytes that a directory takes, hard links once; what goes meanwhile is not counted."""
    return weigh.below(os.path.join(room(engine), str(number)), weigh.room, directories=True)


def remove(engine: ContainerParts, number: int) -> bool:
    """Take a directory away; False when a step uses it."""
    with _turn:
        if number in _users:
            return False
        with engine.database.transaction(durable=True, frees=True) as connection:
            table.drop_mount(connection, number)
    _remove(engine, str(number))
    return True


def in_use(number: int) -> bool:
    """Whether a step has it mounted now."""
    with _turn:
        return number in _users


def sweep(engine: ContainerParts) -> None:
    """Take away what has no row and no step makes: a crash left it."""
    with _turn:
        with engine.database.reading() as connection:
            known = {str(row["number"]) for row in table.mounts(connection)}
        left = [name for name in os.listdir(room(engine)) if name not in known and name not in _making]
    for name in left:
        _remove(engine, name)


def _remove(engine: ContainerParts, name: str) -> None:
    above = os.open(room(engine), _DIRECTORY)
    try:
        with contextlib.suppress(FileNotFoundError):
            remove_tree(above, name)
    finally:
        os.close(above)
