"""The chunks of a tar that is packed while it is read, as a file object.

Runs on the thread that reads. A chunk is good until the next one is taken.
"""

import io
import sys
from collections.abc import Iterator

from engine.daemon.streams import Buffer
from engine.daemon.tar.writer import Chunk


class Stream(io.BufferedIOBase):
    """A file object that reads the chunks of an iterator."""

    def __init__(self, chunks: Iterator[Chunk]) -> None:
        self._chunks = chunks
        self._left = memoryview(b"")

    def readable(self) -> bool:
        """True, always."""
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        """At most `size` bytes, and no more than the present chunk; all that is left if `size` is None or negative."""
        if size is None or size < 0:
            return b"".join(iter(lambda: self.read(sys.maxsize), b""))
        self._next()
        data, self._left = bytes(self._left[:size]), self._left[size:]
        return data

    def readinto(self, buffer: Buffer, /) -> int:
        """Fill the buffer from the present chunk; returns the count, 0 at the end."""
        self._next()
        view = memoryview(buffer)
        count = min(len(view), len(self._left))
        view[:count], self._left = self._left[:count], self._left[count:]
        return count

    def _next(self) -> None:
        """Take the next chunk that is not empty once the present one is used up, if there is one."""
        while not self._left and (chunk := next(self._chunks, None)) is not None:
            self._left = memoryview(chunk)
