"""Logs the daemon's threads with their stacks, its links to other processes, and its locks when SIGUSR1 arrives.

Runs in the main thread, as the handler of that signal. The dump must work when the daemon is stuck, and the main thread
is the place for it. While the daemon serves, that thread only waits for signals. At any other time (an adoption, a
stop, a wait for a lock or for another process's socket) the kernel interrupts its wait for a signal (signal(7)), and
Python runs the handler before the wait goes on. So nothing in here may take a lock of the daemon's, not even that of
`logging`: all values are read as they are at the moment. `faulthandler` would write the stacks from C, without the
interpreter's lock. But it reads the frames of threads that run meanwhile, and a busy daemon has died of that. Where no
Python code can run at all, `inspect-processes` shows from outside where in the kernel each thread waits.
"""

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from time import monotonic
from types import FrameType

from engine.annotating import Protocol
from engine.daemon import busy, locks
from engine.daemon.latepart import is_made
from engine.daemon.loglines import FORMAT, OneLine, shown
from engine.daemon.parts import DaemonParts
from engine.errors import NotFound

_STDERR = 2
_DEEPEST = 60  # frames of one thread that are shown at most
_MOST_PARKED = 100
_DIGITS = 12


class Link(Protocol):
    """The link to the spawner; the dump shows only its descriptor."""

    def fileno(self) -> int: ...


class Dump:
    """The handler of SIGUSR1 from now on; made once, in the main thread.

    spawner: the link to the spawner; engine: the parts of the daemon, None until they are built
    """

    def __init__(self, spawner: Link) -> None:
        self._spawner = spawner
        self.engine: DaemonParts | None = None
        self._asked = 0
        signal.signal(signal.SIGUSR1, lambda *_: self._answer())

    def _answer(self) -> None:
        """Write one dump for each signal, also for signals that arrive while a dump is written."""
        self._asked += 1
        if self._asked == 1:
            while self._asked:
                self._write()
                self._asked -= 1

    def _write(self) -> None:
        data = memoryview(f"{_head()}\n{self.text()}".encode("utf-8", "backslashreplace"))
        while data:
            data = data[os.write(_STDERR, data) :]

    def text(self) -> str:
        """The whole dump but for its first line."""
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        owned = self._locks()

        def name(thread: int) -> str:
            return f'"{names.get(thread, "unknown to Python")}" ({thread:#x})'

        parts = [*_threads(name, {id(lock): of for of, lock in owned}), *_parked(), *self._links(), *_held(name, owned)]
        if self.engine is not None:
            parts += _conditions(name, ((each.id, each.changed) for each in self.engine.containers.glance_all()))
        return "".join(f"{line}\n" for line in parts)

    def _locks(self) -> list[tuple[str, locks.Lock]]:
        """Each lock, with the name of what it guards."""
        found = locks.known()
        if self.engine is not None:
            containers = self.engine.containers.glance_all()
            found += [(f"operation of {_called(each.id)}", each.operation) for each in containers]
        return found

    def _links(self) -> Iterator[str]:
        yield "links:"
        yield f"  spawner: descriptor {self._spawner.fileno()}"
        engine = self.engine
        if engine is None:
            return
        yield f"  resolver: {engine.names.shown() if is_made(engine, 'names') else 'not started'}"
        yield f"  userland proxy: {engine.ports.shown() if is_made(engine, 'ports') else 'not started'}"
        for link, descriptor, watched in engine.monitors.shown():
            watch = "watched" if watched else "not watched yet"
            yield f"  monitor of {_whose(engine, link)}: descriptor {descriptor}, {watch}"


def _whose(engine: DaemonParts, link: str) -> str:
    if engine.containers.glance(link) is not None:
        return _called(link)
    try:
        return f"exec {link[:_DIGITS]} in {_called(engine.execs.find(link).container.id)}"
    except NotFound:
        return f"{link[:_DIGITS]}, unknown to this daemon"


def _head() -> str:
    """The first line of the dump, in the form of the log's lines."""
    said = f"SIGUSR1: the threads, links and locks of process {os.getpid()}"
    return OneLine(FORMAT).format(logging.LogRecord(__name__, logging.INFO, "", 0, said, None, None))


def _called(container: str) -> str:
    return f"container {shown(container) or container[:_DIGITS]}"


def _threads(name: Callable[[int], str], owned: Mapping[int, str]) -> Iterator[str]:
    """Every thread: what it is doing, for which lock it waits, and its stack."""
    now, tasks, waiting = monotonic(), busy.all_tasks(), locks.waiting()
    yield "threads, the innermost call of each first:"
    for thread, innermost in sys._current_frames().items():
        doing = f"  {name(thread)}"
        if (task := tasks.get(thread)) is not None:
            doing += f": {_shown(task, now)}"
        yield doing
        if thread in waiting:
            lock, since = waiting[thread]
            yield f"    waits for the lock {owned.get(id(lock)) or 'without a name'} for {now - since:.1f} s"
        frame: FrameType | None = innermost
        for _ in range(_DEEPEST):
            if frame is None:
                break
            code = frame.f_code
            yield f"    {code.co_filename}:{frame.f_lineno} in {code.co_qualname}"
            frame = frame.f_back


def _parked() -> Iterator[str]:
    """The requests that no thread waits for."""
    now, tasks = monotonic(), busy.all_parked()
    if tasks:
        yield "requests that wait without a thread:"
    for task in tasks[:_MOST_PARKED]:
        yield f"  {_shown(task, now)}"
    if len(tasks) > _MOST_PARKED:
        yield f"  and {len(tasks) - _MOST_PARKED} more"


def _shown(task: busy.Task, now: float) -> str:
    about = f", about {_called(task.container)}" if task.container else ""
    return f"{task}{about}, for {now - task.since:.1f} s"


def _held(name: Callable[[int], str], owned: list[tuple[str, locks.Lock]]) -> Iterator[str]:
    """Every lock that a thread holds or waits for."""
    now, waiting = monotonic(), locks.waiting()
    yield "locks:"
    free = 0
    for of, lock in owned:
        holder, since = lock.holder, lock.since
        waiters = [name(thread) for thread, (wanted, _) in waiting.items() if wanted is lock]
        if not (holder or waiters):
            free += 1
            continue
        held = f"held by {name(holder)} for {now - since:.1f} s" if holder else "released meanwhile"
        yield f"  {of}: {held}" + (f"; {', '.join(waiters)} waiting" if waiters else "")
    yield f"  {free} others are free"


def _conditions(name: Callable[[int], str], states: Iterable[tuple[str, threading.Condition]]) -> Iterator[str]:
    """The containers whose state (a condition) a thread holds; a thread that holds one should not wait for anything."""
    for container, changed in states:
        holder = locks.owner(changed)
        if holder:
            yield f"  state of {_called(container)}: held by {name(holder)}"
