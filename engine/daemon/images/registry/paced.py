"""Reading from a registry that may do anything: never endlessly much at once, and never endlessly slowly.

Runs in the daemon, on the threads of a pull or a push. Knows bytes and time; what they mean is for others.
"""

import io
import time

from engine.daemon.streams import Buffer

# Of silence; and of waiting for all of an answer that is a head or a document. A blob has no end to its time as long
# as this many bytes come a second, of the seconds that are spent waiting for them.
SILENCE_SECONDS = 60.0
_DOCUMENT_SECONDS = 120.0
_LEAST_RATE = 1024
# Heads, trailers and the like, without a byte of a body among them; a head has some hundred bytes.
_LONGEST_HEAD = 1 << 20


class Paced(io.RawIOBase):
    """A connection that is given up when it trickles: a silence has its limit, but a byte would end each of them.

    Only waiting counts, so a reader that takes its time is no slow sender.
    """

    def __init__(self, source: io.RawIOBase):
        self._source = source
        self._waited = 0.0
        self._came = 0
        # Until `as_blob`: a head, or a document, is to come whole in this time.
        self._endless = False

    def as_blob(self) -> None:
        """What comes now may take any time, at a rate that is worth waiting for."""
        self._endless, self._waited, self._came = True, 0.0, 0

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Buffer) -> int:
        """Fill the buffer as the connection does. Raises TimeoutError."""
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
        """Close the connection's side too."""
        self._source.close()
        super().close()


class Bounded(io.BufferedReader):
    """The bytes of a connection, never all of them at once: a chunk of size -1 makes http.client ask for that.

    Nor are there lines without an end: http.client passes over any number of 100 Continue, and of trailers.
    """

    def __init__(self, source: io.RawIOBase):
        super().__init__(source)
        self._lines = 0

    def readline(self, size: int | None = -1) -> bytes:
        """Read a line. Raises OSError for too many lines without a body between them."""
        line = super().readline(size)
        self._lines += len(line)
        if self._lines > _LONGEST_HEAD:
            raise OSError(f"the answer's head is longer than {_LONGEST_HEAD} bytes")
        return line

    def read(self, size: int | None = -1) -> bytes:
        """Read so many bytes; a negative size is a ValueError."""
        if size is None or size < 0:
            raise ValueError(f"invalid chunk size {size}")
        self._lines = 0
        return super().read(size)

    def read1(self, size: int = -1) -> bytes:
        """Read what one look at the connection brings."""
        self._lines = 0
        return super().read1(size)

    def readinto(self, buffer: Buffer) -> int:
        """Fill the buffer."""
        self._lines = 0
        return super().readinto(buffer)
