"""Starting threads for background work, with retries while the host has no thread to give.

Only this file makes threads for work that no caller waits for: a thread for one piece of work (`begin`), and a thread
that exists as long as it has something to do (`Worker`). On a host that is out of threads or memory `Thread.start`
raises. Then the work is owed: the thread that watches the monitors' links tries again and again to start a thread for
it (`due`, `settle`), so that a short shortage loses no work. The work itself has to find out whether it is still wanted
by then.
"""

import logging
import os
import threading
from collections import deque
from collections.abc import Callable

log = logging.getLogger(__name__)

# Python frames live on the heap, so a thread's stack only holds C calls. The deepest C calls are those of the JSON
# decoder, and `api.body.DEPTH_LIMIT` bounds them. This size is for the next deepest: getaddrinfo(3) and OpenSSL. Pages
# of a stack that are never touched cost no memory, only address space. musl gives 128 KB, which the decoder leaves at
# some 900 levels.
STACK_SIZE = 256 * 1024
"""Bytes of a thread's stack. The daemon asks for them before its first thread."""
RETRY_SECONDS = 0.5
"""Seconds between two attempts to start a thread that is owed."""

_lock = threading.Lock()
_owed: deque[tuple[str, Callable[[], None]]] = deque()
_bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)


def begin(name: str, work: Callable[[], None]) -> bool:
    """Run `work` in a thread of its own; False when the host has no thread now, and the work begins later.

    name: of the thread, and of the work in the log. Never raises because a thread is missing.
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
    except (RuntimeError, MemoryError) as error:  # CPython raises these for EAGAIN and ENOMEM of pthread_create(3)
        log.warning("cannot start a thread for %s, will retry: %s", name, error)
        return False
    return True


def bell() -> int:
    """An eventfd that is readable once a thread is owed, so that the thread that calls `settle` wakes up."""
    return _bell


def due() -> float | None:
    """Seconds until `settle` is to be called again; None while nothing is owed."""
    return RETRY_SECONDS if _owed else None


def settle() -> None:
    """Start the owed work, oldest first, until a thread cannot be started."""
    try:
        os.eventfd_read(_bell)
    except BlockingIOError:  # an earlier call has read it
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
    """A thread that starts with the first work and may end when there is none; at most one exists at a time.

    work: does all the work there is. It may run for ever. Before it returns it calls `leave` while it holds the lock
        under which its owner calls `wake`, so that no work is added between its last look and its end.
    """

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        self._name = name
        self._work = work
        self._lock = threading.Lock()
        self._there = False

    def wake(self) -> None:
        """Start the thread if it does not exist. Call it for each piece of work, after the work was put where the
        thread looks.

        Where the host has no thread now, the thread starts later (see `begin`).
        """
        with self._lock:
            if self._there:
                return
            self._there = True
        begin(self._name, self._run)

    def leave(self) -> None:
        """Say that the thread is about to end, so that the next `wake` starts another; the thread itself calls this."""
        with self._lock:
            self._there = False

    def _run(self) -> None:
        try:
            self._work()
        except BaseException:  # no caller gets the error; later work gets a new thread
            log.exception("the thread %s has ended", self._name)
            self.leave()
