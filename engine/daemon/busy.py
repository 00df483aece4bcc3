"""Records what each thread of the daemon is doing: the request that it serves, or its work in the background.

The threads that begin and end the work keep the record. The lines of the log (`loglines`) and the dump at SIGUSR1
(`dump`) show it, and a daemon that may end when it has nothing to do asks it (`idle`). There is one entry a thread and
no lock: a thread changes only its own entry, and the others only read. Only the count of work that is owed has a lock:
one thread adds to it, and another one does the work.
"""

import contextlib
import itertools
from _thread import allocate_lock, get_ident
from collections.abc import Iterator
from time import monotonic

from engine.dataclass import dataclass
from engine.redact import redacted

_numbers = itertools.count(1)
_busy: dict[int, "Task"] = {}
_parked: dict[int, "Task"] = {}  # by number, requests that wait without a thread
_owing = allocate_lock()
_owed = 0
_rested = monotonic()
_LONGEST = 200  # characters of a path that are shown


@dataclass(slots=True)
class Task:
    """What a thread does.

    number: of the request, 0 for none; what: its method and path, or the name of the work in the background
    container: the container that the work is about, by id, name or prefix, as the client gave it; empty for none
    since: of the monotonic clock, in seconds; agent: what the client of the request calls itself
    """

    number: int
    what: str
    container: str
    since: float
    agent: str = ""

    def __str__(self) -> str:
        return f"request {self.number} {redacted(self.what)[:_LONGEST]}" if self.number else self.what


def serve(method: str, path: str, agent: str = "") -> None:
    """Note that the calling thread serves this request from now on, until `rest`."""
    _busy[get_ident()] = Task(next(_numbers), f"{method} {path}", "", monotonic(), agent)


def concern(container: str) -> None:
    """Note that the request of the calling thread is about this container."""
    task = _busy.get(get_ident())
    if task is not None:
        task.container = container


def rest() -> None:
    """Note that the calling thread has nothing to do any more."""
    global _rested
    if _busy.pop(get_ident(), None) is not None:
        _rested = monotonic()


def park() -> int:
    """Note that the calling thread leaves its request, which goes on without a thread until `unpark`; its number."""
    task = _busy[get_ident()]
    _parked[task.number] = task
    return task.number


def unpark(number: int) -> None:
    """Note that a parked request has been answered."""
    global _rested
    _parked.pop(number, None)
    _rested = monotonic()


@contextlib.contextmanager
def about(container: str, what: str = "") -> Iterator[None]:
    """Note that the calling thread works on this container within the `with` block. The number and path of a request
    stay.
    """
    me = get_ident()
    before = _busy.get(me)
    if before is None:
        _busy[me] = Task(0, what, container, monotonic())
    else:
        _busy[me] = Task(before.number, before.what, container, before.since, before.agent)
    try:
        yield
    finally:
        if before is None:
            rest()
        else:
            _busy[me] = before


def now() -> Task | None:
    """What the calling thread is doing; None for nothing."""
    return _busy.get(get_ident())


def all_tasks() -> dict[int, Task]:
    """What each thread is doing, by the thread's identity."""
    return dict(_busy)


def all_parked() -> list[Task]:
    """The requests that wait without a thread."""
    return list(_parked.values())


def owe() -> None:
    """Note work that another thread is about to do, until that one calls `pay`: no thread may have begun it yet."""
    global _owed
    with _owing:
        _owed += 1


def pay() -> None:
    """Note that owed work is done."""
    global _owed, _rested
    with _owing:
        _owed -= 1
        _rested = monotonic()


def idle_since() -> float | None:
    """When the last work ended, of the monotonic clock in seconds; None while there is some, or some is owed."""
    return None if _busy or _parked or _owed else _rested
