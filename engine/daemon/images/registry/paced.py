"""Limits for reading from an untrusted server: a minimum rate, a maximum silence, and bounded heads and reads.

Runs in the daemon, on the threads of a pull or a push. It counts bytes and time, and does not interpret the bytes.
"""

import io
import time

from engine.daemon.streams import Buffer

# The longest silence; and the longest wait for a whole head or document. A blob may take any time, as long as this many
# bytes come per second of waiting for them.
SILENCE_SECONDS = 60.0
_DOCUMENT_SECONDS = 120.0
_LEAST_RATE = 1024
# Bytes of lines (heads, trailers and the like) without any byte of a body between them. A head has some hundred bytes.
_LONGEST_HEAD = 1 << 20


class Paced(io.RawIOBase):
    """A connection whose reads raise TimeoutError when the server sends too slowly.

    The socket's own timeout limits a silence, but a single byte would end each silence. Only the time of waiting
    counts, so a slow reader does not make a slow sender.
    """

    def __init__(self, source: io.RawIOBase):
        self._source = source
        self._waited = 0.0
        self._came = 0
        # False until `as_blob`: the whole head or document must come within `_DOCUMENT_SECONDS`.
        self._endless = False

    def as_blob(self) -> None:
        """Read a blob from now on: it may take any time, but has to come at the minimum rate."""
        self._endless, self._waited, self._came = True, 0.0, 0

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Buffer) -> int:
        """Fill the buffer from the connection. Raises TimeoutError when it is too slow."""
        began = time.monotonic()
        count: int = self._source.readinto(buffer)
        self._waited += time.monotonic() - began
        self._came += count
        if self._endless and self._waited >= SILENCE_SECONDS:
            if self._came < _LEAST_RATE * self._waited:
                raise TimeoutError(f"less than {_LEAST_RATE} bytes a second in the last {SILENCE_SECONDS:.0f} seconds")
            self._waited, self._came = 0.0, 0
        elif not self._endless and self._waited >= _DOCUMENT_SECONDS:
            raise TimeoutError("context deadline exceeded while reading the answer")
        return count

    def close(self) -> None:
        """Close this stream and the connection's."""
        self._source.close()
        super().close()


class Bounded(io.BufferedReader):
    """The buffered bytes of a connection, with bounds that http.client does not have.

    A read of all bytes is refused: http.client asks for that when a server sends a chunk of size -1. The bytes of lines
    are limited: http.client skips any number of answers 100 Continue, and of trailers.
    """

    def __init__(self, source: io.RawIOBase):
        super().__init__(source)
        self._lines = 0

    def readline(self, size: int | None = -1) -> bytes:
        """Read a line. Raises OSError for too many bytes of lines without a body between them."""
        line = super().readline(size)
        self._lines += len(line)
        if self._lines > _LONGEST_HEAD:
            raise OSError(f"the answer's head is longer than {_LONGEST_HEAD} bytes")
        return line

    def read(self, size: int | None = -1) -> bytes:
        """Read `size` bytes, fewer at the end. Raises ValueError for a negative size."""
        if size is None or size < 0:
            raise ValueError(f"invalid chunk size {size}")
        self._lines = 0
        return super().read(size)

    def read1(self, size: int = -1) -> bytes:
        """Read up to `size` bytes with at most one read of the connection."""
        self._lines = 0
        return super().read1(size)

    def readinto(self, buffer: Buffer) -> int:
        """Fill the buffer; returns the number of bytes."""
        self._lines = 0
        return super().readinto(buffer)
