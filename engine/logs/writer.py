"""Writes chunks of output to a log of the engine's own form (driver `local`), segment after segment, and rotates it.

Run by the monitor, in its only thread; one writer per log. With the C pump this object only owns the descriptors and
the position, and the C code changes both. It never changes a frame or record once it is indexed, never renames a file,
and cuts off only bytes that no reader could have read.
"""

import os
import time

from engine.logs import format, lasting, order
from engine.logs.openlog import OpenLog

_BLOCK = 1024  # records that are read at once


class Writer(OpenLog):
    """The open end of a log in the engine's own form; its files are its segments: the frames, and their index."""

    readable = True
    json = False

    def __init__(self, directory: str, max_size: int = 0, max_files: int = 1) -> None:
        """Opens the newest segment and cuts its torn tail, or begins the first. Raises OSError.

        directory: host path; made (0700) when it is missing, its parents must exist
        """
        super().__init__(max_size, max_files)
        try:
            os.mkdir(directory, 0o700)
        except FileExistsError:
            pass  # a restarted container goes on in its old log
        self.directory_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            numbers = self._numbers()
            if not (numbers and self._resume(numbers[-1])):
                self._begin(numbers[-1] + 1 if numbers else 1)
        except BaseException:
            self.close()
            raise

    def append(self, stream: int, payload: bytes | memoryview) -> None:
        """Writes one chunk (1 to LARGEST_CHUNK bytes) with the present time. Raises OSError; then nothing was added."""
        self.append_at(stream, payload, time.time_ns())

    def append_at(self, stream: int, payload: bytes | memoryview, time_ns: int) -> None:
        """The same with another time, in nanoseconds since the epoch."""
        self.clock(time_ns)
        open_lines = format.open_after(self.open_lines, stream, payload)
        record = format.Record(self.position, time_ns, len(payload), stream, open_lines)
        _write_at(self.log_fd, (format.FRAME.pack(stream, len(payload)), payload), self.position)
        place = format.INDEX_HEADER.size + self.records * format.RECORD.size
        _write_at(self.index_fd, (format.pack_record(record),), place)
        self.position, self.open_lines = record.end, open_lines
        self.records += 1

    def mark(self, mark: int) -> None:
        """Changes the order mark of the present segment."""
        _write_at(self.index_fd, (order.MARK.pack(mark),), format.INDEX_HEADER.size - order.MARK.size)

    def end(self, stream: int) -> None:
        """Does nothing: every byte of the stream is written already."""

    def unfinished(self, stream: int) -> bytes:
        """Returns nothing: this log holds no bytes of a stream back."""
        return b""

    def rotate(self) -> None:
        """Goes on in the next segment (see `OpenLog.rotate`)."""
        try:
            # A write that failed half-way may have left bytes after the last frame.
            os.ftruncate(self.log_fd, self.position)
            self._begin(self.number + 1)
            self._remove_oldest()
        except OSError:
            if self.full:
                self.limit = self.position + self.max_size
            raise

    def _remove_oldest(self) -> None:
        numbers = self._numbers()
        kept = [number for number in numbers if number > self.number - self.max_files]
        synced = False
        for number in numbers[: len(numbers) - len(kept)]:
            if not synced and lasting.is_old(self.directory_fd, format.log_name(number), time.time_ns()):
                self._sync(kept)
                synced = True
            # The index goes first: a reader lists segments by their indexes, and so never misses the frames of a listed
            # one.
            for name in (format.index_name(number), format.log_name(number)):
                try:
                    os.unlink(name, dir_fd=self.directory_fd)
                except FileNotFoundError:
                    pass  # a rotation that was cut short has removed one of the two files

    def _sync(self, kept: list[int]) -> None:
        """Write the full segments that stay to the disk; one that is on the disk already costs next to nothing."""
        for number in kept:
            if number < self.number:
                for name in (format.index_name(number), format.log_name(number)):
                    lasting.sync(self.directory_fd, name)
        os.fsync(self.directory_fd)

    def _numbers(self) -> list[int]:
        return list_segments(self.directory_fd)

    def _begin(self, number: int) -> None:
        """Makes segment `number`: the file of frames first, since for a reader a segment exists when its index does."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        log_fd = index_fd = -1
        try:
            log_fd = os.open(format.log_name(number), flags | os.O_TRUNC, 0o600, dir_fd=self.directory_fd)
            index_fd = os.open(format.index_name(number), flags | os.O_EXCL, 0o600, dir_fd=self.directory_fd)
            _write_at(index_fd, (format.pack_index_header(number, self.last_ns),), 0)
        except BaseException:
            if index_fd >= 0:
                os.unlink(format.index_name(number), dir_fd=self.directory_fd)
            for fd in (log_fd, index_fd):
                if fd >= 0:
                    os.close(fd)
            raise
        for fd in (self.log_fd, self.index_fd):
            if fd >= 0:
                os.close(fd)
        self.log_fd, self.index_fd = log_fd, index_fd
        self.number, self.position, self.records, self.open_lines = number, 0, 0, 0
        self.limit, self.late = self.max_size, False

    def _resume(self, number: int) -> bool:
        """Opens segment `number` at its last whole frame; False when its index cannot be continued."""
        flags = os.O_RDWR | os.O_CLOEXEC
        index_fd = log_fd = -1
        try:
            index_fd = os.open(format.index_name(number), flags, dir_fd=self.directory_fd)
            log_fd = os.open(format.log_name(number), flags, dir_fd=self.directory_fd)
            header = os.pread(index_fd, format.INDEX_HEADER.size, 0)
            if format.index_is_ours(header):
                records, last = last_valid(index_fd, log_fd)
                self.number, self.records = number, records
                self.last_ns = format.INDEX_HEADER.unpack(header)[2] & order.LATEST
                if last:
                    self.position, self.open_lines = last.end, last.open_lines
                    self.last_ns = max(self.last_ns, last.time_ns)
                os.ftruncate(index_fd, format.INDEX_HEADER.size + records * format.RECORD.size)
                os.ftruncate(log_fd, self.position)
                self.index_fd, self.log_fd, index_fd, log_fd = index_fd, log_fd, -1, -1
                return True
        except FileNotFoundError:
            pass  # an index without frames: the caller begins the next segment
        finally:
            for fd in (index_fd, log_fd):
                if fd >= 0:
                    os.close(fd)
        return False


def list_segments(directory_fd: int) -> list[int]:
    """The numbers of the log's segments, in order."""
    numbers = (format.segment_number(name) for name in os.listdir(directory_fd))
    return sorted(number for number in numbers if number is not None)


def last_valid(index_fd: int, log_fd: int) -> tuple[int, format.Record | None]:
    """How many records there are up to the last valid one, and that record; (0, None) when none is valid."""
    size, log_size = format.RECORD.size, os.fstat(log_fd).st_size
    count = format.most_records(os.fstat(index_fd).st_size, log_size)
    while count:
        first = max(count - _BLOCK, 0)
        block = os.pread(index_fd, (count - first) * size, format.INDEX_HEADER.size + first * size)
        left = len(block) // size if block.count(0) < len(block) else 0  # a hole may be large
        for place in range((left - 1) * size, -1, -size):
            record = format.unpack_record(block[place : place + size], log_size)
            if record:
                frame = os.pread(log_fd, format.FRAME.size, record.offset)
                if frame == format.FRAME.pack(record.stream, record.length):
                    return first + place // size + 1, record
        count = first
    return 0, None


def _write_at(fd: int, parts: tuple[bytes | memoryview, ...], position: int) -> None:
    """Writes all the parts with pwritev(2), however often a full disk or a signal cuts a write short."""
    wanted = sum(map(len, parts))
    done = os.pwritev(fd, parts, position)
    while done < wanted:
        rest = memoryview(b"".join(parts))[done:]
        done += os.pwrite(fd, rest, position + done)
