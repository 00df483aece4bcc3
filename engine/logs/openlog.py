"""What the open ends of logs of every form have in common: three descriptors, and the place that is reached.

Owned by the monitor. With the C pump an open end only owns the descriptors, and the C moves the fields.
"""

import os
from abc import abstractmethod


class OpenLog:
    """The open end of a log, as a context manager.

    max_size: bytes after which a file is full, 0 for never; max_files: how many files are kept
    limit: bytes at which the present file is full, 0 for never; position: bytes in it
    number: of the present file; records: how many of its frames are indexed; open_lines: as in format.Record
    log_fd, index_fd: the present file and what belongs to it; directory_fd: the log itself; -1 when closed
    last_ns: the latest time written; times never step back, so that the index can be searched by halves
    readable: what is in it can be sent again, frame by frame. The others are of a log of JSON lines
    json, compress, busy, name: a log of JSON lines' own, see `engine.logs.drivers.jsonfile.JsonWriter`
    """

    readable: bool
    json: bool
    compress = False
    busy = 0
    name = b""

    def __init__(self, max_size: int, max_files: int) -> None:
        self.max_size = self.limit = max(max_size, 0)
        self.max_files = max(max_files, 1)
        self.number = self.records = self.open_lines = self.last_ns = self.position = 0
        self.log_fd = self.index_fd = self.directory_fd = -1

    @classmethod
    def taken_over(cls, fields: dict[str, int | bytes]) -> "OpenLog":
        """One that another process has opened: `fields` are all its own, with this process's numbers."""
        log = cls.__new__(cls)
        for name, value in fields.items():
            setattr(log, name, value)
        log.go_on()
        return log

    def go_on(self) -> None:
        """Make what is not among the fields of a log that was taken over."""

    @abstractmethod
    def append(self, stream: int, payload: bytes | memoryview) -> None:
        """Writes one chunk of a stream, of 1 to LARGEST_CHUNK bytes. Raises OSError for what is lost."""

    @abstractmethod
    def end(self, stream: int) -> None:
        """The stream has ended: what is left of its unfinished line is written. Raises OSError."""

    @abstractmethod
    def unfinished(self, stream: int) -> bytes:
        """What is held back of the stream's unfinished line."""

    @abstractmethod
    def rotate(self) -> None:
        """Goes on in a new file, and removes the oldest past `max_files`.

        Where the host refuses a new one (a full disk) it goes on in the old, for another `max_size`, as the container
        is worth more than the size of its log; and raises OSError.
        """

    def __enter__(self) -> "OpenLog":
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    @property
    def full(self) -> bool:
        """True when the present file has passed its size and `rotate` is due."""
        return 0 < self.limit <= self.position

    def close(self) -> None:
        """Gives the descriptors back. A second call does nothing."""
        for fd in (self.log_fd, self.index_fd, self.directory_fd):
            if fd >= 0:
                os.close(fd)
        self.log_fd = self.index_fd = self.directory_fd = -1
