"""The directories of RUN --mount=type=cache: kept between builds below the data root, and given to steps in turn.

Runs on the threads that build. A directory counts once its row is there; one without a row is what a crash left, and
goes with the next prune. Sharing is BuildKit's: `shared` by all at once, `locked` by one after the other, `private`
with a directory of its own for each that asks at the same time.
"""

import collections
import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator

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


def room(engine: object) -> str:
    """Where the directories are."""
    path = os.path.join(engine.settings.data_root, _ROOM)
    os.makedirs(path, mode=0o700, exist_ok=True)
    return path


@contextlib.contextmanager
def taken(
    engine: object,
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
    engine: object,
    name: str,
    sharing: str,
    owner: tuple[int, int, int],
    fill: Callable[[int], None],
    check: Callable[[], None],
) -> int:
    with _turn:
        while True:
            with engine.database.reading() as connection:
                known = [row["number"] for row in table.mounts(connection, name)]
            free = [number for number in known if number not in (_locked if sharing == "shared" else _users)]
            if free:
                number = free[0]
                break
            if not known or sharing == "private":
                number = _make(engine, name, owner, fill)
                break
            _turn.wait(_LOOK_SECONDS)
            check()
        _users[number] += 1
        if sharing != "shared":
            _locked.add(number)
        return number


def _make(engine: object, name: str, owner: tuple[int, int, int], fill: Callable[[int], None]) -> int:
    above = os.open(room(engine), _DIRECTORY)
    part = f"new-{time.time_ns()}"
    uid, gid, mode = owner
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
            with engine.database.transaction() as connection:
                number = table.new_mount(connection, name, time.time_ns())
                os.rename(part, str(number), src_dir_fd=above, dst_dir_fd=above)
                place = str(number)
        except BaseException:
            remove_tree(above, place)
            raise
    except OSError as error:
        raise SystemFailure(f"the cache directory {name} cannot be made: {error}") from error
    finally:
        os.close(above)
    return number


def size(engine: object, number: int) -> int:
    """The bytes that a directory takes, hard links once; what goes meanwhile is not counted."""
    return weigh.below(os.path.join(room(engine), str(number)), weigh.room, directories=True)


def remove(engine: object, number: int) -> bool:
    """Take a directory away; False when a step uses it."""
    with _turn:
        if number in _users:
            return False
        with engine.database.transaction() as connection:
            table.drop_mount(connection, number)
    _remove(engine, str(number))
    return True


def in_use(number: int) -> bool:
    """Whether a step has it mounted now."""
    with _turn:
        return number in _users


def sweep(engine: object) -> None:
    """Take away what has no row: a crash left it. For a moment when no step makes one."""
    with _turn:
        with engine.database.reading() as connection:
            known = {str(row["number"]) for row in table.mounts(connection)}
        for name in os.listdir(room(engine)):
            if name not in known:
                _remove(engine, name)


def _remove(engine: object, name: str) -> None:
    above = os.open(room(engine), _DIRECTORY)
    try:
        with contextlib.suppress(FileNotFoundError):
            remove_tree(above, name)
    finally:
        os.close(above)
