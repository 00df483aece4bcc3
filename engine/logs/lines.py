"""Cuts the chunks of a log of the engine's own form into lines, and adds to each its time, details and frame.

Pure: chunks in, bytes out; used by the Python reader, and tests compare `_muxer/log/lines.c` with it. Each line is one
frame, because clients iterate frames and expect lines. A line longer than LINE_LIMIT goes out in pieces, as docker's
does.
"""

from engine.logs import format
from engine.logs.query import Query

_BLOCK = format.LINE_LIMIT // 2


class _Heads(dict[int, bytes]):
    """The end of a line and the header of the next frame of one stream, by the length of the next line."""

    def __init__(self, stream: int) -> None:
        super().__init__()
        self._stream = stream

    def __missing__(self, length: int) -> bytes:
        head = b"\n" + format.FRAME.pack(self._stream, length + 1)
        if length <= format.LINE_LIMIT:
            self[length] = head
        return head


_HEADS = {stream: _Heads(stream) for stream in format.STREAMS}


def framed(stream: int, text: bytes) -> bytes:
    """Whole lines, each with its newline, as a frame each."""
    lines = text.split(b"\n")
    lines.pop()
    out = [b"\n"] * (2 * len(lines) + 1)
    out[:-1:2] = map(_HEADS[stream].__getitem__, map(len, lines))
    out[1::2] = lines
    out[0] = out[0][1:]
    return b"".join(out)


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
            if not line.inside and (end := _whole_lines(payload, start)) > start:
                self._begin(line, time_ns)
                if line.wanted:
                    out.append(self._whole(stream, line, payload[start:end]))
                line.inside, start = False, end
                continue
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

    def _whole(self, stream: int, line: _Line, text: bytes) -> bytes:
        if line.dress:
            text = line.dress + text[:-1].replace(b"\n", b"\n" + line.dress) + b"\n"
        return text if self._query.tty else framed(stream, text)

    def _piece(self, stream: int, line: _Line) -> bytes:
        piece = line.dress + line.held
        line.dress = b""
        line.held.clear()
        return piece if self._query.tty else format.FRAME.pack(stream, len(piece)) + piece


def _whole_lines(payload: bytes, start: int) -> int:
    """The end of the whole lines from a place on, if none is so long that it is cut; else the place."""
    end = payload.rfind(b"\n", start) + 1
    # A line that is cut covers one of these blocks, in which no line ends then. Mostly each block has an end.
    blocks = range(start, end - _BLOCK + 1, _BLOCK)
    long = any(payload.find(b"\n", block, block + _BLOCK) < 0 for block in blocks) and (
        max(map(len, payload[start:end].split(b"\n"))) >= format.LINE_LIMIT
    )
    return start if end <= start or long else end
