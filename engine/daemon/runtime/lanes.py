"""Work in lanes: what is of one lane is done in order, and the lanes side by side.

Runs in the daemon. Threads come with the work, at most `MOST` of them, and leave when there has been none for a while:
an idle daemon has none. Whoever adds work never waits for any.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

from engine.daemon.runtime import worker

log = logging.getLogger(__name__)

MOST = 16
"""Lanes that are worked on at once; a lane beyond them waits for one of these."""
IDLE_SECONDS = 5.0
"""How long a thread waits for the next work: a busy daemon would make one for each piece."""


class Lanes:
    """A set of lanes. name: of its threads; each lane has a name of its caller's choice while it has work."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = threading.Condition()
        self._ready: deque[str] = deque()  # lanes with work that nobody is at
        self._work: dict[str, deque[Callable[[], None]]] = {}  # lanes with work, that which is being done among it
        self._threads = 0
        self._idle = 0

    def add(self, lane: str, work: Callable[[], None]) -> None:
        """Do `work` when all that was added to this lane before is done."""
        with self._changed:
            waiting = self._work.get(lane)
            if waiting is not None:
                waiting.append(work)
                return
            self._work[lane] = deque((work,))
            self._ready.append(lane)
            if len(self._ready) <= self._idle:
                self._changed.notify()
                return
            if self._threads >= MOST:
                return
            self._threads += 1
        worker.begin(self._name, self._run)

    def _run(self) -> None:
        while (lane := self._next()) is not None:
            try:
                self._work[lane][0]()
            except Exception:  # one lane's trouble is not that of the others
                log.exception("%s: %s", self._name, lane)
            with self._changed:
                waiting = self._work[lane]
                waiting.popleft()
                if waiting:
                    self._ready.append(lane)  # behind those that have waited longer
                else:
                    del self._work[lane]

    def _next(self) -> str | None:
        """The lane that has waited longest, None when there has been none for a while and the thread is to end."""
        latest = time.monotonic() + IDLE_SECONDS
        with self._changed:
            while not self._ready:
                left = latest - time.monotonic()
                if left <= 0:
                    self._threads -= 1
                    return None
                self._idle += 1
                self._changed.wait(left)
                self._idle -= 1
            return self._ready.popleft()
