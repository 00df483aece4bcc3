"""Reads the frames and the index of one segment of a log, and checks everything that it finds in the files.

Run by a thread of the daemon (and by the tests), never by the writer. It uses only pread(2): a file that is cut while
it is mapped kills the process that reads the mapping (SIGBUS), and people truncate logs by hand.
"""

import os

from engine.logs import format, order
from engine.logs.writer import last_valid, list_segments

_BLOCK = 4096  # records per read of the index
ALL = 1 << 62


def end(directory: str) -> tuple[int, int]:
    """Where a log ends that stands still, for `Query.end`: its newest segment, and how many records that has."""
    try:
        directory_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0, 0
    try:
        segment = Segment(directory_fd, max(list_segments(directory_fd), default=0))
        if segment.open():
            segment.trim()
        number, count = segment.number, segment.count
        segment.close()
        return number, count
    finally:
        os.close(directory_fd)


class Segment:
    """One segment. Once it is open, it stays readable after it was removed from the directory.

    number: the segment's number; count: how many records there were at the last `refresh`, valid or not; 0 while it is
        not open; mark: its order mark then; most: no more records than this are wanted
    """

    def __init__(self, directory_fd: int, number: int, most: int = ALL):
        self.number, self._most = number, most
        self.count = self.mark = 0
        self._directory_fd = directory_fd
        self._index_fd = self._log_fd = -1
        self._gone = False
        self._size = 0
        self._block = b""
        self._block_start = 0

    @property
    def is_open(self) -> bool:
        """True between `open` and `close`."""
        return self._index_fd >= 0

    def open(self) -> bool:
        """Opens the segment, if it is not open; False when it is gone, and it does not come back. Raises OSError."""
        if self.is_open or self._gone:
            return not self._gone
        flags, directory_fd = os.O_RDONLY | os.O_CLOEXEC, self._directory_fd
        try:
            self._index_fd = os.open(format.index_name(self.number), flags, dir_fd=directory_fd)
            self._log_fd = os.open(format.log_name(self.number), flags, dir_fd=directory_fd)
        except FileNotFoundError:
            self._gone = True
            self.close()
            return False
        except BaseException:
            self.close()
            raise
        self.refresh()
        return True

    def close(self) -> None:
        """Closes the descriptors, if they are open."""
        for fd in (self._index_fd, self._log_fd):
            if fd >= 0:
                os.close(fd)
        self._index_fd = self._log_fd = -1

    def refresh(self) -> None:
        """Updates `count` to what was written since."""
        size = os.fstat(self._index_fd).st_size
        self._size = os.fstat(self._log_fd).st_size  # after the index: a frame is written before its record
        self.count = self.mark = 0
        header = os.pread(self._index_fd, format.INDEX_HEADER.size, 0)
        if format.index_is_ours(header):
            self.mark = format.INDEX_HEADER.unpack(header)[2]
            self.count = min(format.most_records(size, self._size), self._most)
        self._block = b""

    def trim(self) -> None:
        """Leaves out the torn records at the end, so that the last one that counts is valid."""
        self.count = min(self.count, last_valid(self._index_fd, self._log_fd)[0])

    def time_ns(self, number: int) -> int:
        """The time in record `number`; 0 when it cannot be a right one."""
        data = self._data(number)
        record = format.unpack_record(data, self._size) if data else None
        return record.time_ns if record else 0

    @property
    def in_order(self) -> bool:
        """Whether no time in it steps back."""
        return not self.mark & order.STEPPED

    @property
    def latest_ns(self) -> int:
        """The latest time of it and of all before it. It has records, of which the last one is valid."""
        return max(self.mark & order.LATEST, self.time_ns(self.count - 1))

    def record(self, number: int) -> format.Record | None:
        """Record `number`, or None when it or the frame that it points at is not valid."""
        data = self._data(number)
        record = format.unpack_record(data, self._size) if data else None
        if record is None:
            return None
        frame = os.pread(self._log_fd, format.FRAME.size, record.offset)
        return record if frame == format.FRAME.pack(record.stream, record.length) else None

    def payload(self, record: format.Record) -> bytes:
        """The bytes of a valid record's frame; fewer when the file was cut just now."""
        return os.pread(self._log_fd, record.length, record.offset + format.FRAME.size)

    def _data(self, number: int) -> bytes:
        """The 24 bytes of a record, read in blocks; empty when the file has become shorter."""
        size = format.RECORD.size
        place = number - self._block_start
        if place < 0 or (place + 1) * size > len(self._block):
            self._block_start = number - number % _BLOCK
            wanted = min(_BLOCK, self.count - self._block_start) * size
            self._block = os.pread(self._index_fd, wanted, format.INDEX_HEADER.size + self._block_start * size)
            place = number - self._block_start
        data = self._block[place * size : (place + 1) * size]
        return data if len(data) == size else b""
