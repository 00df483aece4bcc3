"""Buffers a log reader's output and writes it to the client's descriptor, in HTTP chunks where asked.

Run by the daemon's thread that serves the client. The descriptor may be blocking or not, a socket or a pipe; its owner
closes it. Writing to a client that has gone raises BrokenPipeError or ConnectionResetError (SIGPIPE is ignored in every
Python process).
"""

import errno
import os
import select

from engine.kernel import gathered

GONE = frozenset({errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.ETIMEDOUT, errno.ESHUTDOWN})
"""The errno values of a write to a client that has left."""

_LARGEST = 1 << 20  # bytes of one HTTP chunk
_GATHER = 1 << 16  # bytes worth a system call


class Sink:
    """Collects bytes and writes them in large pieces."""

    def __init__(self, fd: int, chunked: bool):
        self._fd = fd
        self._chunked = chunked
        # One buffer, so that a client that takes nothing does not hold an object for each of its lines.
        self._gathered = bytearray()

    def put(self, data: bytes) -> None:
        """Takes bytes, which are written once enough have come, or by `flush`. Raises OSError."""
        if len(data) >= _GATHER:
            self.flush()
            self._write_all(data)  # they need no copy
            return
        self._gathered += data
        if len(self._gathered) >= _GATHER:
            self.flush()

    def flush(self) -> None:
        """Writes all that was put so far. Raises OSError."""
        gathered, self._gathered = self._gathered, bytearray()
        self._write_all(gathered)

    def _write_all(self, data: bytes | bytearray) -> None:
        with memoryview(data) as view:
            for start in range(0, len(view), _LARGEST):
                with view[start : start + _LARGEST] as part:
                    self._write((b"%x\r\n" % len(part), part, b"\r\n") if self._chunked else (part,))

    def finish(self) -> None:
        """Writes what is left and the end of the HTTP body. Raises OSError."""
        self.flush()
        if self._chunked:
            self._write((b"0\r\n\r\n",))

    def _write(self, pieces: gathered.Pieces) -> None:
        while pieces:
            try:
                pieces = gathered.rest(pieces, os.writev(self._fd, pieces))
            except BlockingIOError:
                waiting = select.poll()
                waiting.register(self._fd, select.POLLOUT)
                waiting.poll()
