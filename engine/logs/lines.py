"""Cuts the chunks of a log of the engine's own form into lines, and adds to each its time, details and frame.

Pure: chunks in, bytes out; used by the Python reader, and tests compare `_muxer/log/lines.c` with it. Each line is one
frame, because clients iterate frames and expect lines. A line longer than LINE_LIMIT goes out in pieces, as docker's
does.
"""

from engine.logs import format
from engine.logs.query import Query


class _Line:
    """The line in progress on one stream: the bytes not yet sent, and what was decided when it began."""

    __slots__ = ("dress", "held", "inside", "wanted")

    def __init__(self) -> None:
        self.inside = False  # a first byte has been seen and no end
        self.wanted = False  # its time is within the query
        self.dress = b""  # what stands before the next piece
        self.held = bytearray()


class Lines:
    """The lines in progress of all wanted streams."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._lines = {stream: _Line() for stream in sorted(query.streams)}

    @property
    def owing(self) -> bool:
        """True while a wanted line has begun and not ended."""
        return any(line.inside and line.wanted for line in self._lines.values())

    def pass_over(self, stream: int) -> None:
        """Says that `stream` is in the middle of a line that is not wanted."""
        self._lines[stream].inside, self._lines[stream].wanted = True, False

    def feed(self, stream: int, time_ns: int, payload: bytes) -> bytes:
        """The lines that the chunk completes, ready for the client. Streams that are not wanted are passed over."""
        line = self._lines.get(stream)
        if line is None:
            return b""
        out, start = [], 0
        while start < len(payload):
            if not line.inside:
                self._begin(line, time_ns)
            newline = payload.find(b"\n", start)
            end = newline + 1 or len(payload)
            while line.wanted and start < end:
                taken = min(end - start, format.LINE_LIMIT - len(line.held))
                line.held += payload[start : start + taken]
                start += taken
                if len(line.held) == format.LINE_LIMIT or (newline >= 0 and start == end):
                    out.append(self._piece(stream, line))
            start = end
            line.inside = newline < 0
        return b"".join(out)

    def end(self) -> bytes:
        """Ends every line in progress where it stands, stdout first; returns what that sends."""
        out = [self._piece(stream, line) for stream, line in self._lines.items() if line.held]
        for line in self._lines.values():
            line.inside = False
        return b"".join(out)

    def _begin(self, line: _Line, time_ns: int) -> None:
        line.inside = True
        line.wanted = self._query.first_ns <= time_ns <= self._query.last_ns
        line.dress = (format.stamp(time_ns) if self._query.timestamps else b"") + self._query.prefix

    def _piece(self, stream: int, line: _Line) -> bytes:
        piece = line.dress + line.held
        line.dress = b""
        line.held.clear()
        return piece if self._query.tty else format.FRAME.pack(stream, len(piece)) + piece
