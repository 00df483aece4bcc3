"""What each thread of the daemon is busy with: a request, or work in the background.

Kept by those who begin and end it, for the lines of the log (`loglines`) and for an operator who looks inside (`dump`).
One entry a thread, under no lock: a thread changes its own alone, and others only look.
"""

import contextlib
import itertools
from _thread import get_ident
from collections.abc import Iterator
from dataclasses import dataclass
from time import monotonic

_numbers = itertools.count(1)
_busy: dict[int, "Task"] = {}
_LONGEST = 200  # characters of a path that are told


@dataclass(slots=True)
class Task:
    """What a thread does. since: of the monotonic clock

    number: of the request, 0 for none; what: its method and path, or what else is done
    container: whom it is about, by id, name or prefix, as it was asked for; empty for none in particular
    """

    number: int
    what: str
    container: str
    since: float

    def __str__(self) -> str:
        return f"request {self.number} {self.what[:_LONGEST]}" if self.number else self.what


def serve(method: str, path: str) -> None:
    """This thread serves a request from now on, until `rest`."""
    _busy[get_ident()] = Task(next(_numbers), f"{method} {path}", "", monotonic())


def concern(container: str) -> None:
    """What this thread serves is about this container."""
    task = _busy.get(get_ident())
    if task is not None:
        task.container = container


def rest() -> None:
    """This thread does nothing in particular any more."""
    _busy.pop(get_ident(), None)


@contextlib.contextmanager
def about(container: str, what: str = "") -> Iterator[None]:
    """What this thread does in the `with` block is about this container; a request stays what it is."""
    me = get_ident()
    before = _busy.get(me)
    if before is None:
        _busy[me] = Task(0, what, container, monotonic())
    else:
        _busy[me] = Task(before.number, before.what, container, before.since)
    try:
        yield
    finally:
        if before is None:
            _busy.pop(me, None)
        else:
            _busy[me] = before


def now() -> Task | None:
    """What this thread is busy with."""
    return _busy.get(get_ident())


def all_tasks() -> dict[int, Task]:
    """By its identity, what each thread is busy with."""
    return dict(_busy)
