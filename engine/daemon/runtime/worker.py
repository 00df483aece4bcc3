"""Threads that start when there is work for them, and are asked for again where the host gave none.

The one place of the daemon that makes threads for work which nobody waits for: a piece of work with a thread of its
own (`begin`), and a thread that is there as long as it has something to do (`Worker`). A host out of threads or memory
makes `Thread.start` raise. Then the work is owed: the thread that watches the links looks for one again and again
(`due`, `settle`), so that no work is lost to a moment of need. Whether the work is still wanted by then is the work's
own to find out.
"""

import logging
import os
import threading
from collections import deque
from collections.abc import Callable

log = logging.getLogger(__name__)

RETRY_SECONDS = 0.5
"""How often a thread that was owed is asked for again."""

_lock = threading.Lock()
_owed: deque[tuple[str, Callable[[], None]]] = deque()
_bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)


def begin(name: str, work: Callable[[], None]) -> bool:
    """Run `work` in a thread of its own; False when there is none to be had now, and it begins later.

    name: of the thread, and of the work in the log. Never raises for want of a thread.
    """
    if _start(name, work):
        return True
    with _lock:
        _owed.append((name, work))
    os.eventfd_write(_bell, 1)
    return False


def _start(name: str, work: Callable[[], None]) -> bool:
    try:
        threading.Thread(target=work, name=name, daemon=True).start()
    except (RuntimeError, MemoryError) as error:  # what CPython makes of EAGAIN and ENOMEM (pthread_create(3))
        log.warning("there is no thread for %s yet: %s", name, error)
        return False
    return True


def bell() -> int:
    """A descriptor that is readable once a thread is owed, for the one who calls `settle`."""
    return _bell


def due() -> float | None:
    """Seconds until `settle` is to be called again; None while nothing is owed."""
    return RETRY_SECONDS if _owed else None


def settle() -> None:
    """Begin what is owed, oldest first, as far as there are threads for it."""
    try:
        os.eventfd_read(_bell)
    except BlockingIOError:  # it has been read at the first try
        pass
    while True:
        with _lock:
            if not _owed:
                return
            name, work = _owed.popleft()
        if not _start(name, work):
            with _lock:
                _owed.appendleft((name, work))
            return


class Worker:
    """A thread that starts with the first work and may leave when there is none; one at a time.

    work: does all there is to do. It may go on for ever; before it returns it calls `leave`, holding whatever lock its
    owner calls `wake` under, so that no work comes between the last look and the end.
    """

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        self._name = name
        self._work = work
        self._lock = threading.Lock()
        self._there = False

    def wake(self) -> None:
        """Have the thread, if it is not there. Called at each piece of work, after it was put where the thread looks.

        Where the host has no thread now, it starts later (see `begin`).
        """
        with self._lock:
            if self._there:
                return
            self._there = True
        begin(self._name, self._run)

    def leave(self) -> None:
        """The thread, which calls this, is about to end: the next `wake` starts another."""
        with self._lock:
            self._there = False

    def _run(self) -> None:
        try:
            self._work()
        except BaseException:  # nobody else hears of it; what comes next has a thread again
            log.exception("the thread %s has ended", self._name)
            self.leave()
