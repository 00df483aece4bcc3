"""Hands the reader's bytes to the client's descriptor, in HTTP chunks where asked.

Run by the daemon's thread that serves the client. The descriptor may be blocking or not, a socket or a pipe; it stays
its owner's. Writing to a client that has gone raises BrokenPipeError or ConnectionResetError (SIGPIPE is ignored in
every Python process).
"""

import errno
import os
import select

GONE = frozenset({errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.ETIMEDOUT, errno.ESHUTDOWN})
"""What a write to a client that has left fails with."""

_LARGEST = 1 << 20  # bytes of one HTTP chunk
_GATHER = 1 << 18  # bytes worth a system call


class Sink:
    """Gathers bytes and writes them in large pieces."""

    def __init__(self, fd: int, chunked: bool):
        self._fd = fd
        self._chunked = chunked
        self._parts: list[bytes] = []
        self._size = 0

    def put(self, data: bytes) -> None:
        """Takes bytes; they are written by and by. Raises OSError."""
        if data:
            self._parts.append(data)
            self._size += len(data)
        if self._size >= _GATHER:
            self.flush()

    def flush(self) -> None:
        """Writes all that was put so far. Raises OSError."""
        data = memoryview(b"".join(self._parts))
        self._parts, self._size = [], 0
        for start in range(0, len(data), _LARGEST):
            part = data[start : start + _LARGEST]
            self._write(b"%x\r\n%b\r\n" % (len(part), part) if self._chunked else part)

    def finish(self) -> None:
        """Writes what is left and the end of the HTTP body. Raises OSError."""
        self.flush()
        if self._chunked:
            self._write(b"0\r\n\r\n")

    def _write(self, data: bytes | memoryview) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:
                waiting = select.poll()
                waiting.register(self._fd, select.POLLOUT)
                waiting.poll()
