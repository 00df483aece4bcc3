"""The abstract open end of a log, which both log writers inherit: its descriptors, its write position, its rotation.

Owned by the monitor. With the C pump the object only owns the descriptors, and the C code changes the fields.
"""

import os
from abc import abstractmethod
from collections.abc import Iterable

from engine.logs import order

IDLE, UNTOLD, TOLD = 0, 1, 2
"""`OpenLog.busy`: nothing is being compressed; a rotated file is to be; the monitor has been told of it."""


class OpenLog:
    """The open end of a log, as a context manager.

    max_size: bytes after which a file is full, 0 for never; max_files: how many files are kept
    limit: bytes at which the present file is full, 0 for never; position: bytes in it
    number: the number of the present file; records: how many of its frames are indexed; open_lines: as in format.Record
    log_fd, index_fd: the present file and its index or attributes; directory_fd: the log's directory; -1 when closed
    last_ns: the latest time ever written; late: the last time written was before that, see `engine.logs.order`
    readable: whether its content can be sent again, frame by frame; False for a log of JSON lines
    json, compress, busy, name: only used by a log of JSON lines, see `engine.logs.jsonwriter.JsonWriter`
    """

    readable: bool
    json: bool
    compress = False
    late = False
    busy = IDLE
    name = b""

    def __init__(self, max_size: int, max_files: int) -> None:
        self.max_size = self.limit = max(max_size, 0)
        self.max_files = max(max_files, 1)
        self.number = self.records = self.open_lines = self.last_ns = self.position = 0
        self.log_fd = self.index_fd = self.directory_fd = -1

    def clock(self, time_ns: int) -> int:
        """Returns the time of what is written next. Where it steps back, it marks the present file. Raises OSError."""
        late = time_ns < self.last_ns
        if late and not self.late:
            self.mark(self.last_ns | order.STEPPED)
        self.late = late
        self.last_ns = max(time_ns, self.last_ns)
        return time_ns

    @abstractmethod
    def mark(self, mark: int) -> None:
        """Changes the order mark of the present file. Raises OSError."""

    @abstractmethod
    def append(self, stream: int, payload: bytes | memoryview) -> None:
        """Writes one chunk of a stream, of 1 to LARGEST_CHUNK bytes. Raises OSError when something is lost."""

    @abstractmethod
    def end(self, stream: int) -> None:
        """Writes what is left of the stream's unfinished line, since the stream has ended. Raises OSError."""

    @abstractmethod
    def unfinished(self, stream: int) -> bytes:
        """The bytes of the stream's unfinished line that are held back."""

    def later(self, _place: tuple[int, int]) -> Iterable[tuple[int, bytes]]:
        """(stream, text) of each line behind a place (inode, offset) that a reader has told; the log stands still.

        Only a log of JSON lines has such readers.
        """
        return ()

    def compress_older(self) -> None:
        """Compresses the files that a rotation has closed; in a child process of the monitor's. Raises OSError.

        Only a log of JSON lines ever asks for it, by `busy`.
        """

    def compressed(self, _unwanted: bool) -> None:
        """The child has ended: the log may be rotated again. unwanted: it was killed, and has perhaps left a file"""

    @abstractmethod
    def rotate(self) -> None:
        """Goes on in a new file, and removes the oldest past `max_files`.

        If the host refuses a new file (a full disk), it goes on in the old file for another `max_size`, because the
        container matters more than the size of its log; and raises OSError.
        """

    def __enter__(self) -> "OpenLog":
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    @property
    def full(self) -> bool:
        """True when the present file has passed its size."""
        return 0 < self.limit <= self.position

    @property
    def due(self) -> bool:
        """True when whoever appends must `rotate` first."""
        return self.full

    def descriptors(self) -> tuple[int, int, int]:
        """The present file, its index or attributes, and the directory."""
        return self.log_fd, self.index_fd, self.directory_fd

    def close(self) -> None:
        """Closes the descriptors. A second call does nothing."""
        for fd in self.descriptors():
            if fd >= 0:
                os.close(fd)
        self.log_fd = self.index_fd = self.directory_fd = -1
