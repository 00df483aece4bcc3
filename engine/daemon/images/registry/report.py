"""Sending the progress messages of a pull or push to the client from several worker threads, and cancelling the work.

Runs in the daemon, on the request's thread and on the worker threads of that request. Only the request's thread writes
to the client, and it holds no lock meanwhile. The worker threads hold layers and blobs that other pulls wait for. So
they queue their messages and go on, even if the client has stopped reading. The flag `cancelled` ends all the threads.
"""

import threading
import time
from collections.abc import Callable, Sequence

from engine.daemon.images.registry.download import Cancelled
from engine.daemon.jsontext import Object

_REPORT_SECONDS = 0.1
# Seconds after which the request's thread looks for things that wake no thread, such as a client that has hung up.
_LOOK = 0.2

Progress = Callable[[Object], None]


class Report:
    """Gives messages to `progress` one by one. If that fails, because the client has gone, the work is cancelled.

    The request's thread makes it and sends its own messages at once. It sends those of other threads in `attend`.
    """

    def __init__(self, progress: Progress):
        self._progress = progress
        self._owner = threading.get_ident()
        self._changed = threading.Condition()
        # Messages of other threads. Of a blob's progress only the newest is kept, so that there are few even if the
        # client does not read for long.
        self._lines: list[Object] = []
        self._ended = 0
        self._last: dict[str, float] = {}
        self.cancelled = threading.Event()

    def line(self, status: str, identity: str = "", detail: Object | None = None) -> None:
        """Send a status message. Raises Cancelled when the work was cancelled.

        identity: the blob or layer that it is about; detail: the message's `progressDetail`
        """
        line: Object = {"status": status}
        if detail is not None:
            line["progressDetail"] = detail
        if identity:
            line["id"] = identity
        self.send(line)

    def aux(self, document: Object) -> None:
        """Send a message for programs, with the document in its field `aux`."""
        self.send({"progressDetail": {}, "aux": document})

    def part(self, status: str, identity: str, current: int, total: int) -> None:
        """Report that `current` of a blob's `total` bytes are done; sent at most ten times a second for each blob."""
        now = time.monotonic()
        if now - self._last.get(identity, 0.0) >= _REPORT_SECONDS:
            self._last[identity] = now
            self.line(status, identity, {"current": current, "total": total})

    def check(self) -> None:
        """Raise Cancelled when the work was cancelled."""
        if self.cancelled.is_set():
            raise Cancelled("context canceled")

    def send(self, line: Object) -> None:
        """Send a message as it is; blocks only in the request's own thread. Raises Cancelled."""
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
        """Run each of `works` in a thread, and send the threads' messages until all have ended.

        works: (name of the thread, a function that never raises); cancel: makes them end soon; look: called regularly,
            and may call `cancel`. Raises what `progress` raises, after all threads have ended.
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
        """The queued messages, perhaps none, after `_LOOK` at most; None once `count` works ended and none is left."""
        with self._changed:
            self._changed.wait_for(lambda: self._lines or self._ended == count, _LOOK)
            lines, self._lines = self._lines, []
            return lines if lines or self._ended < count else None


def _replaces(line: Object, other: Object) -> bool:
    """Whether `line` is a newer progress message of the same blob and status as `other`."""
    return bool(line.get("progressDetail")) and (line["status"], line.get("id")) == (
        other.get("status"),
        other.get("id"),
    )
