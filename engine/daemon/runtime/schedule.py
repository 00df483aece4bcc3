"""Running work at a later time on a timer thread, such as the next probe of a health check or a delayed restart.

One thread of the daemon does all of it. It starts with the first piece and sleeps until the next one is due, however
long that is. The work is short: what may wait for anything is handed on to `background`.
"""

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable

from engine.annotating import TypeVarTuple
from engine.daemon.runtime.worker import Worker

log = logging.getLogger(__name__)

Given = TypeVarTuple("Given")


class Handle:
    """One piece of scheduled work, which can be cancelled; made by `Schedule.at`. due: of the monotonic clock"""

    __slots__ = ("_arguments", "_order", "_schedule", "_work", "due")

    def __init__(
        self,
        schedule: "Schedule",
        due: float,
        order: int,
        work: Callable[..., object],
        arguments: tuple[object, ...],
    ) -> None:
        self._schedule = schedule
        self._order = order
        self._work = work
        self._arguments = arguments
        self.due = due

    def __lt__(self, other: "Handle") -> bool:
        return (self.due, self._order) < (other.due, other._order)

    def cancel(self) -> bool:
        """Drop the work; False when it has been done, is being done, or was dropped before. Never waits for it."""
        return self._schedule.drop(self)

    def run(self) -> None:
        """Do the work now; only the schedule calls it."""
        self._work(*self._arguments)


class Schedule:
    """The scheduled work of one daemon, earliest first."""

    def __init__(self) -> None:
        self._heap: list[Handle] = []
        self._doing = False
        self._changed = threading.Condition()
        self._orders = itertools.count()
        self._worker = Worker("schedule", self._run)

    def at(self, delay_seconds: float, work: Callable[[*Given], object], *arguments: *Given) -> Handle:
        """Do `work` once, that many seconds from now; pieces that are due at the same moment keep their order."""
        with self._changed:
            due = time.monotonic() + max(delay_seconds, 0)
            handle = Handle(self, due, next(self._orders), work, arguments)
            heapq.heappush(self._heap, handle)
            if self._heap[0] is handle:
                self._changed.notify()  # it is due before the piece that the thread sleeps for
        self._worker.wake()
        return handle

    @property
    def waits(self) -> bool:
        """Whether any work is scheduled, or is being done."""
        with self._changed:
            return bool(self._heap) or self._doing

    def drop(self, handle: Handle) -> bool:
        """Take a piece of work out again; False when it is not scheduled any more. `Handle.cancel` calls this."""
        with self._changed:
            try:
                self._heap.remove(handle)
            except ValueError:
                return False
            heapq.heapify(self._heap)
            return True

    def _run(self) -> None:
        while True:
            handle = self._next()
            try:
                handle.run()
            except Exception:  # a failure of one piece must not end the thread for all later ones
                log.exception("scheduled work failed")

    def _next(self) -> Handle:
        with self._changed:
            self._doing = False
            while True:
                left = self._heap[0].due - time.monotonic() if self._heap else None
                if left is not None and left <= 0:
                    self._doing = True
                    return heapq.heappop(self._heap)
                # A wait takes no more than TIMEOUT_MAX. Waking up after that with nothing due does no harm.
                self._changed.wait(None if left is None else min(left, threading.TIMEOUT_MAX))
