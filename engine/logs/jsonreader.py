"""Reads a log of JSON lines (driver `json-file`), also one that dockerd has written, and sends it to a client.

Run by a thread of the daemon, which it blocks until the client has everything or is gone; it holds no lock and writes
no file. `engine.logs.jsonfiles` finds the files. Their lines are taken apart here by Python, or by
`engine.logs.nativelines`, with which tests compare it.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

from engine.annotating import Protocol
from engine.logs import format, jsonlines
from engine.logs.details import shown
from engine.logs.following import Changes, follow
from engine.logs.jsonfiles import File, Log, whole_lines
from engine.logs.jsonlines import Message, parse
from engine.logs.lines import framed
from engine.logs.query import Query
from engine.logs.sink import GONE, Sink

Make = Callable[[int, Query, bool, bool], AbstractContextManager["Out"]]
"""Makes what sends to one client: its descriptor, what it wants, with details, as an HTTP body in chunks."""


class Out(Protocol):
    """What sends the lines of files to one client."""

    def read(self, file: File) -> None:
        """Send what a file has from its offset on, and move that."""

    def flush(self) -> None:
        """Write all that was put so far. Raises OSError."""

    def finish(self) -> None:
        """Write what is left and the end of the HTTP body. Raises OSError."""

    def wait(self, log: Log, changes: Changes, ended_fd: int) -> bool:
        """Wait until there may be more to read; False when the client has left."""


def send(
    directory: str,
    name: str,
    sink_fd: int,
    query: Query,
    *,
    details: bool = False,
    chunked: bool = False,
    ended_fd: int | None = None,
    after: tuple[int, int] | None = None,
    make: Make | None = None,
) -> tuple[int, int] | None:
    """Write the wanted lines to `sink_fd`; the (inode, offset) up to which they were read, None when the client left.

    details: each line's own attributes stand before it, and `query.prefix` is not used. after: not the whole log, but
        what comes after this (inode, offset). make: what takes the lines apart, see `sending`; None: Python.
        The other arguments are those of `engine.logs.reader.send`. Raises OSError for anything but a client that has
        left.
    """
    try:
        with Log(directory, name) as log, (make or PythonOut)(sink_fd, query, details, chunked) as out:
            return _send(log, out, query, ended_fd, after)
    except OSError as error:
        if error.errno in GONE:
            return None
        raise


def _send(
    log: Log, out: Out, query: Query, ended_fd: int | None, after: tuple[int, int] | None
) -> tuple[int, int] | None:
    if ended_fd is not None:
        begun = False

        def advance(_last: bool) -> None:
            nonlocal begun
            begun = begun or log.begin(query.tail, query.first_ns)
            log.read_new(out.read)

        if not follow(log.directory, advance, partial(out.wait, log), query, ended_fd):
            return None
    else:
        if after is None:
            log.begin(query.tail, query.first_ns)
        else:
            log.begin_after(*after)
        if query.end is not None:
            log.end(*query.end)
        log.read_new(out.read)
    out.finish()
    return log.position


class PythonOut:
    """Decides which lines go out, and what stands before each."""

    def __init__(self, sink_fd: int, query: Query, details: bool, chunked: bool) -> None:
        self._sink, self._sink_fd = Sink(sink_fd, chunked), sink_fd
        self._query = query
        self._streams = query.streams
        self._first, self._last = query.first_ns, query.last_ns
        self._timestamps, self._tty, self._details = query.timestamps, query.tty, details
        self.flush, self.finish = self._sink.flush, self._sink.finish

    def __enter__(self) -> "PythonOut":
        return self

    def __exit__(self, *failure: object) -> None:
        """There is nothing to end."""

    def read(self, file: File) -> None:
        """Send what a file has from its offset on."""
        in_order = self._last < format.NEVER and file.in_order
        for block in whole_lines(file):
            # One line at a time: a client that takes nothing then holds a block, and not an object for each of its
            # lines.
            start, alike = 0, True
            while (end := block.find(b"\n", start)) >= 0:
                message = parse(block[start:end])
                if message is not None:
                    if in_order and message.time_ns > self._last:
                        file.pass_over()
                        return
                    tail = jsonlines.ending(block, start, end) if alike else b""
                    run = jsonlines.run(block, start, tail) if tail else None
                    if run is None:
                        alike = alike and not tail  # a block is searched in vain only once
                        self.put(message)
                    else:
                        end, text = run
                        self._put_run(message, text)
                start = end + 1

    def _put_run(self, message: Message, text: bytes) -> None:
        """Put several lines that differ from the message only in their text; each has its newline."""
        if message.stream not in self._streams or not self._first <= message.time_ns <= self._last:
            return
        dress = format.stamp(message.time_ns) if self._timestamps else b""
        if self._details:
            dress += shown(message.attributes)
        if dress:
            text = dress + text[:-1].replace(b"\n", b"\n" + dress) + b"\n"
        self._sink.put(text if self._tty else framed(message.stream, text))

    def wait(self, _log: Log, changes: Changes, ended_fd: int) -> bool:
        """Wait until there may be more to read; False when the client has left."""
        self.flush()
        return changes.wait(self._sink_fd, self._query, ended_fd)

    def put(self, message: Message) -> None:
        """Put the message if it is wanted."""
        if message.stream in self._streams and self._first <= message.time_ns <= self._last:
            text = message.text
            if self._details:
                text = shown(message.attributes) + text
            if self._timestamps:
                text = format.stamp(message.time_ns) + text
            self._sink.put(text if self._tty else format.FRAME.pack(message.stream, len(text)) + text)
