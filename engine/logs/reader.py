"""Reads a log of the engine's own form (driver `local`) and sends the wanted lines to a client; the Python version.

Tests compare `_muxer/log/reader.c` with it. Run by a thread of the daemon, which it blocks until the client has
everything or is gone. It holds no lock, and works whether or not the container's monitor still writes. It sends only
bytes that a valid record points at.
"""

import os
from functools import partial

from engine.logs import seek
from engine.logs.following import Changes, follow
from engine.logs.lines import Lines
from engine.logs.query import Query
from engine.logs.segment import ALL, Segment
from engine.logs.sink import GONE, Sink
from engine.logs.writer import list_segments


def send(directory: str, sink_fd: int, query: Query, chunked: bool = False, ended_fd: int | None = None) -> bool:
    """Writes the wanted lines of the log in `directory` to `sink_fd`; True when the client got all, False when it left.

    chunked: as an HTTP/1.1 chunked body, with its end. ended_fd: None reads what is there now; else a descriptor that
        becomes readable (or hangs up) when the log is complete: until then new lines are sent as they come. A log that
        does not exist is empty. Raises OSError for anything but a client that has left.
    """
    sink = Sink(sink_fd, chunked)
    try:
        with _Reading(directory, query, ended_fd is not None) as reading:
            if ended_fd is None:
                reading.advance(sink, last=True)
            else:

                def wait(changes: Changes, ended: int) -> bool:
                    sink.flush()
                    return changes.wait(sink_fd, query, ended)

                if not follow(directory, partial(reading.advance, sink), wait, query, ended_fd):
                    return False
        sink.finish()
    except OSError as error:
        if error.errno in GONE:
            return False
        raise
    return True


class _Reading:
    """One client's progress through the segments."""

    def __init__(self, directory: str, query: Query, following: bool):
        self.directory = directory
        self._query = query
        self._following = following
        self._lines = Lines(query)
        self._directory_fd = -1
        self._segments: list[Segment] = []
        self._newest = 0  # the highest number ever opened
        self._begun = False
        self._record = 0  # the next one to read, in the first of _segments
        self._skip: dict[int, tuple[int, int]] = {}

    def __enter__(self) -> "_Reading":
        return self

    def __exit__(self, *failure: object) -> None:
        for segment in self._segments:
            segment.close()
        if self._directory_fd >= 0:
            os.close(self._directory_fd)

    def advance(self, sink: Sink, last: bool) -> None:
        """Sends all that is there, and with `last` the lines in progress."""
        self._name_new()
        if not self._begun and (self._segments or last):
            self._begin()
        # Once a segment is open, a rotation cannot take it away.
        self._segments = [segment for segment in self._segments if segment.open()]
        while self._segments:
            # The next segment was seen before this one is read: only then nothing more can be added to this one.
            closed = len(self._segments) > 1
            if self._following:
                self._segments[0].refresh()
            self._read(self._segments[0], sink)
            if closed or last:
                sink.put(self._lines.end())
            if not closed:
                break
            self._segments.pop(0).close()
            self._record, self._skip = 0, {}

    def _begin(self) -> None:
        """Finds the place to start from, once the log exists.

        What is before it is not even opened: a log may have thousands of segments.
        """
        self._begun = True
        start = seek.start(self._segments, self._query, self._following)
        for segment in self._segments[: start.segment]:
            segment.close()
        del self._segments[: start.segment]
        self._record, self._skip = start.record, start.skip
        for stream in start.middle:
            self._lines.pass_over(stream)

    def _name_new(self) -> None:
        """Names every segment that is new."""
        if self._directory_fd < 0:
            try:
                self._directory_fd = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except FileNotFoundError:
                return
        for number in list_segments(self._directory_fd):
            last, most = self._query.end or (number, ALL)
            if self._newest < number <= last:
                self._segments.append(Segment(self._directory_fd, number, most if number == last else ALL))
                self._newest = number

    def _read(self, segment: Segment, sink: Sink) -> None:
        """Sends what the segment has from `_record` on."""
        for number in range(self._record, segment.count):
            record = segment.record(number)
            if record is None:
                continue
            if record.time_ns > self._query.last_ns and not self._lines.owing and segment.in_order:
                self._record = segment.count  # all others are later too
                return
            first, byte = self._skip.get(record.stream, (0, 0))
            if number >= first:
                payload = segment.payload(record)[byte if number == first else 0 :]
                sink.put(self._lines.feed(record.stream, record.time_ns, payload))
            # Torn records at the end are not skipped: the next writer cuts them off and writes good ones in their
            # place.
            self._record = number + 1
