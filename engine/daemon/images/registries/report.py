"""The progress lines of one exchange with a registry: one at a time, whichever thread tells them, and not too many.

Runs in the daemon, on the request's thread and those that work for it. Holds the flag that ends them all.
"""

import threading
import time
from collections.abc import Callable

from engine.daemon.images.registries.download import Cancelled

_REPORT_SECONDS = 0.1

Progress = Callable[[dict], None]


class Report:
    """Tells `progress` line by line; a client that has gone away cancels what it waited for."""

    def __init__(self, progress: Progress):
        self._progress = progress
        self._lock = threading.Lock()
        self._last: dict[str, float] = {}
        self.cancelled = threading.Event()

    def line(self, status: str, identity: str = "", detail: dict | None = None) -> None:
        """One line of text; raises Cancelled once nobody waits any more."""
        line: dict = {"status": status}
        if detail is not None:
            line["progressDetail"] = detail
        if identity:
            line["id"] = identity
        self.send(line)

    def aux(self, document: dict) -> None:
        """A line for programs."""
        self.send({"progressDetail": {}, "aux": document})

    def part(self, status: str, identity: str, current: int, total: int) -> None:
        """How far one blob is; told at most ten times a second for each."""
        now = time.monotonic()
        if now - self._last.get(identity, 0.0) >= _REPORT_SECONDS:
            self._last[identity] = now
            self.line(status, identity, {"current": current, "total": total})

    def check(self) -> None:
        """Raises Cancelled once nobody waits any more."""
        if self.cancelled.is_set():
            raise Cancelled("context canceled")

    def send(self, line: dict) -> None:
        """One line as it is."""
        with self._lock:
            self.check()
            try:
                self._progress(line)
            except BaseException:
                self.cancelled.set()
                raise
