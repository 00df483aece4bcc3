"""Has the C muxer send the lines of a log of JSON lines, and judges those lines that docker does not write.

Run by the daemon's threads. While bytes move, no Python object is touched and the interpreter's lock is free; only what
a compressed file holds comes by way of Python, which unpacks it.
"""

import os

from _muxer._native import ffi, lib
from engine.logs import jsonlines
from engine.logs.details import shown
from engine.logs.following import Changes
from engine.logs.jsonfiles import File, Log, whole_lines
from engine.logs.nativereader import asked
from engine.logs.query import Query


class Out:
    """The C side's lines for one client; a context manager."""

    def __init__(self, sink_fd: int, query: Query, details: bool, chunked: bool) -> None:
        self._details, self._until = details, query.until_ns > 0
        self._prefix = shown(None) if details else b""  # stays where it is, because C points at it
        self._lines = lib.mux_lines_new(sink_fd, asked(query, chunked, self._prefix))
        if not self._lines:
            raise MemoryError
        self._offset = ffi.new("uint64_t *")
        self._size = ffi.new("size_t *")

    def __enter__(self) -> "Out":
        return self

    def __exit__(self, *failure: object) -> None:
        lib.mux_lines_free(self._lines)

    def read(self, file: File) -> None:
        """Send what a file has from its offset on, and move that."""
        if self._until:
            lib.mux_lines_sift(self._lines, not file.in_order)
        if (self._unpack(file) if file.compressed else self._read(file)) == lib.MUX_LINES_PAST:
            file.pass_over()

    def flush(self) -> None:
        """Write all that was put so far. Raises OSError."""
        _check(lib.mux_lines_flush(self._lines, False))

    def finish(self) -> None:
        """Write what is left and the end of the HTTP body. Raises OSError."""
        _check(lib.mux_lines_flush(self._lines, True))

    def wait(self, log: Log, changes: Changes, ended_fd: int) -> bool:
        """Send what comes into the file that is being written, until Python has to look; False when the client has
        left.
        """
        file = log.newest
        fd = -1 if file is None or file.compressed else file.fd
        self._offset[0] = 0 if file is None else file.offset
        path = os.fsencode(log.path)
        ended = _check(lib.mux_lines_wait(self._lines, fd, self._offset, path, changes.fd, ended_fd))
        if ended == lib.MUX_LINES_TOGETHER:
            try:
                changes.close()  # a watch costs whoever writes the log
            finally:
                ended = _check(lib.mux_lines_together(self._lines, self._offset, ended_fd))
        if file is not None and fd >= 0:
            file.offset = self._offset[0]
        if ended == lib.MUX_LINES_OTHER:
            self._judge()
        return ended != lib.MUX_LINES_LEFT

    def _read(self, file: File) -> int:
        self._offset[0] = file.offset
        lib.mux_lines_limit(self._lines, file.end)
        while True:
            ended = _check(lib.mux_lines_read(self._lines, file.fd, self._offset))
            file.offset = self._offset[0]
            if ended != lib.MUX_LINES_OTHER:
                return ended
            if (ended := self._judge()) == lib.MUX_LINES_PAST:
                return ended

    def _unpack(self, file: File) -> int:
        for block in whole_lines(file):
            data, place = ffi.cast("uint8_t *", ffi.from_buffer(block)), 0
            while place < len(block):
                ended = _check(lib.mux_lines_feed(self._lines, data + place, len(block) - place, self._size))
                place += self._size[0]
                if ended == lib.MUX_LINES_OTHER:
                    ended = self._judge()
                if ended == lib.MUX_LINES_PAST:
                    return ended
        return lib.MUX_LINES_READ

    def _judge(self) -> int:
        """Send the line that C does not know, if it is one after all."""
        found = lib.mux_lines_other(self._lines, self._size)
        line = ffi.buffer(found, self._size[0])[:]
        message = jsonlines.parse(line)
        if message is None:
            return lib.MUX_LINES_READ
        prefix = shown(message.attributes) if self._details else b""
        attributes = jsonlines.attributes_in(line)
        if attributes:
            _check(lib.mux_lines_learn(self._lines, attributes, len(attributes), prefix, len(prefix)))
        told = (prefix, len(prefix), message.text, len(message.text))
        return _check(lib.mux_lines_put(self._lines, message.stream, message.time_ns, *told))


def _check(result: int) -> int:
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return result
