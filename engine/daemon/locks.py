"""Locks that know which thread holds them, since when, and which threads wait, for the dump at SIGUSR1.

All threads of the daemon use them like the locks of `threading`, which cannot tell this. `known` and `waiting` take no
lock to read, so they work while every thread is stuck; what they return may be out of date by what happens meanwhile.
An acquisition costs a quarter of a microsecond more than that of a bare lock.
"""

import threading
import weakref
from _thread import allocate_lock, get_ident
from operator import itemgetter
from time import monotonic

_known: weakref.WeakSet["Lock"] = weakref.WeakSet()
_waiting: dict[int, tuple["Lock", float]] = {}  # by thread identity; a thread waits for one lock at a time


class Lock:
    """A mutual exclusion lock. One thread holds it at a time, and any thread may release it, as with `threading.Lock`.

    name: what it guards; empty for one of many locks of a kind, which their owner names in the dump
    holder: the identity of the thread that holds it, 0 while it is free; since: when that thread got it, monotonic
    clock
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
        """Take the lock; False when that would need a wait, or a wait longer than `timeout` seconds (-1: no limit)."""
        if not self._lock.acquire(False) and not (blocking and self._wait(timeout)):
            return False
        self.holder = get_ident()
        self.since = monotonic()
        return True

    def release(self) -> None:
        """Release the lock. Raises RuntimeError when no thread holds it."""
        self.__exit__()

    def locked(self) -> bool:
        """Whether a thread holds the lock."""
        return self._lock.locked()

    def _wait(self, timeout: float) -> bool:
        me = get_ident()
        _waiting[me] = self, monotonic()
        try:
            return self._lock.acquire(True, timeout)
        finally:
            del _waiting[me]


class Reentrant(Lock):
    """A lock that its holder may take again and must release as often, as with `threading.RLock`."""

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
        """Take the lock, at once when the calling thread holds it already; False as in `Lock.acquire`."""
        if self.holder != get_ident() and not super().acquire(blocking, timeout):
            return False
        self._depth += 1
        return True


def known() -> list[tuple[str, Lock]]:
    """Every lock that has a name, as (name, lock), sorted by name."""
    return sorted(((lock.name, lock) for lock in list(_known)), key=itemgetter(0))


def waiting() -> dict[int, tuple[Lock, float]]:
    """For each waiting thread, by its identity: the lock, and since when it waits on the monotonic clock."""
    return dict(_waiting)


def owner(condition: threading.Condition) -> int:
    """The identity of the thread that holds a condition with the default lock (`threading.RLock`); 0
    while it is free.
    """
    _, found, rest = repr(condition).partition("owner=")
    return int(rest.split()[0]) if found else 0
