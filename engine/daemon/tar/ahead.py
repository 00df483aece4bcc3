"""A read-ahead thread for a stream: it reads, and so decompresses, the next blocks while the caller uses the last.

The thread belongs to the caller that made the `Ahead`, and ends at the latest with its context. It holds a few blocks
only. zlib, a hash and write(2) release the interpreter lock, so a layer takes the time of the slower side, not the
sum of both.
"""

import io
import queue
import threading
from collections.abc import Callable

from engine.daemon.streams import Buffer

_BLOCK = 128 * 1024
_BLOCKS = 4


class Ahead(io.RawIOBase):
    """The bytes of `source`, a raw stream, read by a thread of its own; a context manager.

    abandon: called when the context ends before the stream does; must make a read of `source` that blocks give up
    """

    def __init__(self, source: io.RawIOBase, abandon: Callable[[], None]):
        self._source = source
        self._abandon = abandon
        # Free blocks for the thread to fill; None ends the thread.
        self._free: queue.SimpleQueue[bytearray | None] = queue.SimpleQueue()
        # What the thread has read: a block and how many bytes are in it (0: the end), or the exception.
        self._read: queue.SimpleQueue[tuple[bytearray, int] | BaseException] = queue.SimpleQueue()
        for _ in range(_BLOCKS):
            self._free.put(bytearray(_BLOCK))
        self._block, self._left = bytearray(), memoryview(b"")
        self._failure: BaseException | None = None
        self._ended = False
        self._thread = threading.Thread(target=self._work, name="read-ahead")

    def __enter__(self) -> "Ahead":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._ended:
            self._abandon()
        self._free.put(None)
        self._thread.join()

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Buffer) -> int:
        """Fill the buffer from one block at most; returns the count, 0 at the end. Raises what the source raised."""
        if not self._left and not self._ended:
            self._next()
        if self._failure is not None:
            raise self._failure
        view = memoryview(buffer)
        count = min(len(self._left), len(view))
        view[:count] = self._left[:count]
        self._left = self._left[count:]
        return count

    def _next(self) -> None:
        if self._block:
            self._left = memoryview(b"")
            self._free.put(self._block)
        found = self._read.get()
        if isinstance(found, BaseException):
            self._failure, self._ended = found, True
            return
        self._block, size = found
        self._left = memoryview(self._block)[:size]
        self._ended = not size

    def _work(self) -> None:
        """Fill free blocks until the stream ends or fails, or the context has ended; this is the thread's function."""
        while (block := self._free.get()) is not None:
            try:
                size = self._source.readinto(block)
            except BaseException as error:
                self._read.put(error)
                return
            self._read.put((block, size))
            if not size:
                return
