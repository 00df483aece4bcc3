"""Lines that wait for a thread to send them, of which those that find no room are dropped.

Used by the process beside a monitor that forwards the lines, for the mode `non-blocking` of every driver, and by the
drivers that send asynchronously by themselves.
"""

import _thread
from _queue import SimpleQueue  # `queue` has the same one, and imports `threading`
from collections.abc import Callable

from engine.logs.drivers.sender import Partial

Send = Callable[[int, bytes, Partial | None, int], None]
"""Sends a line: its stream, the text without its end, which piece of a line it is, and its time (see `Sender.send`)."""

_SHORT = 16


class Ring:
    """Lines that wait for a thread to send them. A line that finds the ring full is dropped, as dockerd drops it.

    most: how many bytes of text may wait; one line may wait whatever its size is
    lines: how many lines may wait; 0: one for each 16 bytes of `most`, since a line takes memory beside its text
    """

    def __init__(self, send: Send, most: int, lines: int = 0) -> None:
        self._send, self._most, self._most_lines = send, most, lines or most // _SHORT + _SHORT
        self._waiting: SimpleQueue[tuple[int, bytes, Partial | None, int] | None] = SimpleQueue()
        self._size = self._count = 0
        # Not `threading`, which takes much memory to be kept for this alone.
        self._counting, self._working = _thread.allocate_lock(), _thread.allocate_lock()
        self._working.acquire()
        _thread.start_new_thread(self._work, ())

    def put(self, stream: int, text: bytes, partial: Partial | None, time_ns: int) -> None:
        """Put a line into the ring, or drop it if the ring is full."""
        with self._counting:
            if self._count and (self._size + len(text) > self._most or self._count >= self._most_lines):
                return
            self._size += len(text)
            self._count += 1
        self._waiting.put((stream, text, partial, time_ns))

    def end(self) -> None:
        """Return when all waiting lines are sent."""
        self._waiting.put(None)
        self._working.acquire()

    def _work(self) -> None:
        try:
            while (line := self._waiting.get()) is not None:
                with self._counting:
                    self._size -= len(line[1])
                    self._count -= 1
                self._send(*line)
        finally:
            self._working.release()
