"""Bounds how many layers travel at once, over all pulls and over all pushes of the daemon.

Any thread of a pull or a push waits here for its turn, and looks meanwhile whether its work was cancelled. The bound is
given at each turn, because the settings may change while the daemon runs.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator

# Seconds after which a waiting thread looks whether its work was cancelled.
_LOOK = 0.2


class Turns:
    """Those who work now, and those who wait for one of them to end."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._working = 0

    @contextlib.contextmanager
    def turn(self, most: int, check: Callable[[], None]) -> Iterator[None]:
        """A context that at most so many threads are in at a time. most: 0 for no bound

        check: called while the thread waits; raises what ends the waiting
        """
        with self._changed:
            while most and self._working >= most:
                check()
                self._changed.wait(_LOOK)
            self._working += 1
        try:
            yield
        finally:
            with self._changed:
                self._working -= 1
                self._changed.notify_all()


DOWNLOADS, UPLOADS = Turns(), Turns()
