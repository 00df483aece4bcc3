"""Locks that can say by whom they are held, since when, and who waits for them.

Used by all threads of the daemon as the locks of `threading` are, which say nothing of it. What they say is read
without taking any lock (`known`, `waiting`), also while everything stands still: so it may be wrong by what happens
meanwhile.
An acquisition costs a quarter of a microsecond more than a bare one.
"""

import threading
import weakref
from _thread import allocate_lock, get_ident
from operator import itemgetter
from time import monotonic

_known: weakref.WeakSet["Lock"] = weakref.WeakSet()
_waiting: dict[int, tuple["Lock", float]] = {}  # by thread, which waits for one lock at a time


class Lock:
    """One thread holds it at a time, and any thread may let it go, as with `threading.Lock`.

    name: what it guards; empty for one of many, which its owner shows by a name of its own
    holder: the identity of the thread that holds it, 0 while nobody does; since: of the monotonic clock
    """

    __slots__ = ("__weakref__", "_lock", "holder", "name", "since")

    def __init__(self, name: str = "") -> None:
        self._lock = allocate_lock()
        self.name = name
        self.holder = 0
        self.since = 0.0
        if name:
            _known.add(self)

    def __enter__(self) -> bool:
        if not self._lock.acquire(False):
            self._wait(-1)
        self.holder = get_ident()
        self.since = monotonic()
        return True

    def __exit__(self, *_: object) -> None:
        self.holder = 0
        self._lock.release()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock; False when that would mean to wait, or to wait for longer than `timeout` (-1: for ever)."""
        if not self._lock.acquire(False) and not (blocking and self._wait(timeout)):
            return False
        self.holder = get_ident()
        self.since = monotonic()
        return True

    def release(self) -> None:
        """Let the lock go. Raises RuntimeError when nobody holds it."""
        self.__exit__()

    def locked(self) -> bool:
        """Whether anybody holds the lock."""
        return self._lock.locked()

    def _wait(self, timeout: float) -> bool:
        me = get_ident()
        _waiting[me] = self, monotonic()
        try:
            return self._lock.acquire(True, timeout)
        finally:
            del _waiting[me]


class Reentrant(Lock):
    """A lock that its holder may take again, and has to let go as often, as with `threading.RLock`."""

    __slots__ = ("_depth",)

    def __init__(self, name: str = "") -> None:
        super().__init__(name)
        self._depth = 0

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self.holder = 0
            self._lock.release()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock, at once where this thread holds it already; False as with `Lock.acquire`."""
        if self.holder != get_ident() and not super().acquire(blocking, timeout):
            return False
        self._depth += 1
        return True


def known() -> list[tuple[str, Lock]]:
    """Every lock that has a name of its own."""
    return sorted(((lock.name, lock) for lock in list(_known)), key=itemgetter(0))


def waiting() -> dict[int, tuple[Lock, float]]:
    """By its identity, each thread that waits: for which lock, and since when on the monotonic clock."""
    return dict(_waiting)


def owner(condition: threading.Condition) -> int:
    """The identity of the thread that holds a condition, whose lock is the usual one; 0 while nobody does."""
    _, found, rest = repr(condition).partition("owner=")
    return int(rest.split()[0]) if found else 0
