"""The progress lines of one exchange with a registry: one at a time, whichever thread tells them, and not too many.

Runs in the daemon, on the request's thread and those that work for it. Only the request's thread ever writes to the
client, and it holds nothing meanwhile: those that work hold layers and blobs that other pulls wait for, so they put
their lines down and go on, also where the client has stopped to read. Holds the flag that ends them all.
"""

import threading
import time
from collections.abc import Callable, Sequence

from engine.daemon.images.registry.download import Cancelled
from engine.daemon.jsontext import Object

_REPORT_SECONDS = 0.1
# How often the request's thread looks for what nobody tells it of.
_LOOK = 0.2

Progress = Callable[[Object], None]


class Report:
    """Tells `progress` line by line; a client that has gone away cancels what it waited for.

    Made by the request's thread, whose lines are told at once; those of others are told while it is in `attend`.
    """

    def __init__(self, progress: Progress):
        self._progress = progress
        self._owner = threading.get_ident()
        self._changed = threading.Condition()
        # What others have to tell; of how far one blob is only the newest, so there are few however long nobody reads.
        self._lines: list[Object] = []
        self._ended = 0
        self._last: dict[str, float] = {}
        self.cancelled = threading.Event()

    def line(self, status: str, identity: str = "", detail: Object | None = None) -> None:
        """One line of text; raises Cancelled once nobody waits any more."""
        line: Object = {"status": status}
        if detail is not None:
            line["progressDetail"] = detail
        if identity:
            line["id"] = identity
        self.send(line)

    def aux(self, document: Object) -> None:
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

    def send(self, line: Object) -> None:
        """One line as it is. Waits for nobody but in the request's own thread."""
        self.check()
        if threading.get_ident() == self._owner:
            self._tell(line)
            return
        with self._changed:
            before = next((at for at, other in enumerate(self._lines) if _replaces(line, other)), None)
            if before is None:
                self._lines.append(line)
            else:
                self._lines[before] = line
            self._changed.notify()

    def _tell(self, line: Object) -> None:
        try:
            self._progress(line)
        except BaseException:
            self.cancelled.set()
            raise

    def attend(
        self,
        works: Sequence[tuple[str, Callable[[], None]]],
        cancel: Callable[[], None],
        look: Callable[[], None] = lambda: None,
    ) -> None:
        """Do these works (name of the thread; what never raises) side by side, and tell their lines until all are done.

        cancel: makes them end soon; look: called now and then, to call `cancel`. Raises what `progress` raises, when
        all have ended.
        """
        threads: list[threading.Thread] = []
        self._ended = 0
        try:
            for name, work in works:
                thread = threading.Thread(target=self._do, args=(work,), name=name)
                thread.start()
                threads.append(thread)
            while (lines := self._next(len(threads))) is not None:
                for line in lines:
                    self._tell(line)
                look()
        except BaseException:
            cancel()
            raise
        finally:
            for thread in threads:
                thread.join()

    def _do(self, work: Callable[[], None]) -> None:
        try:
            work()
        finally:
            with self._changed:
                self._ended += 1
                self._changed.notify()

    def _next(self, count: int) -> list[Object] | None:
        """The lines that came, perhaps none, after a while at most; None when `count` works are done and told."""
        with self._changed:
            self._changed.wait_for(lambda: self._lines or self._ended == count, _LOOK)
            lines, self._lines = self._lines, []
            return lines if lines or self._ended < count else None


def _replaces(line: Object, other: Object) -> bool:
    """Whether `line` says what `other` said, of a later moment: how far one blob is."""
    return bool(line.get("progressDetail")) and (line["status"], line.get("id")) == (
        other.get("status"),
        other.get("id"),
    )
