"""The format on disk of a log of the engine's own form (driver `local`): frames, index records and their limits.

Pure: bytes in, values out; used by the monitor (which writes), by the daemon's threads (which read) and by the tests.
It never opens a file. `_muxer/log/format.h` says the same in C.

A log is a directory of numbered segments. Segment n is two files:

    %08d.log   frames, one per chunk read from the container: 1 byte stream (1 stdout, 2 stderr), 3 zero bytes,
               4 bytes big-endian payload length, payload; the frame of the API's attach stream
    %08d.idx   24 bytes of header, then one record of 24 bytes per frame, all little-endian

The frame is written before its record, and a reader uses only frames that a valid record points at, so no reader sees a
frame that a crash tore. Each record is judged by itself: a torn record is passed over, and its neighbours are still
read.
"""

import struct

from engine.dataclass import dataclass

STDOUT, STDERR = 1, 2
STREAMS = (STDOUT, STDERR)

FRAME = struct.Struct(">BxxxI")
"""Stream, three zero bytes, payload length."""

RECORD = struct.Struct("<QQIBBH")
"""Offset of the frame in the .log file, time in ns since the epoch, payload length, stream, open lines, zero."""

INDEX_HEADER = struct.Struct("<8sQQ")
"""Magic with the version in its last byte, the segment's number, its order mark (see `engine.logs.order`)."""

MAGIC = b"muxidx\x00\x01"

LARGEST_CHUNK = 65536
"""The longest payload of one frame; a record that claims more is not valid."""

LINE_LIMIT = 16384
"""A line is sent in pieces of this many bytes at most, as docker does."""

NEVER = (1 << 64) - 1
"""The latest time a record can hold."""


@dataclass(slots=True)
class Record:
    """One frame as its index record describes it. Not frozen, because frozen objects are slower to make.

    open_lines: which streams are in the middle of a line after this frame, the sum of `line_bit` of each; without it, a
        reader that begins here would have to search for the last frame of a stream with little output
    """

    offset: int
    time_ns: int
    length: int
    stream: int
    open_lines: int = 0

    @property
    def end(self) -> int:
        """The offset just after the frame."""
        return self.offset + FRAME.size + self.length


def line_bit(stream: int) -> int:
    """The bit of a stream in `Record.open_lines`."""
    return 1 << (stream - 1)


def open_after(open_lines: int, stream: int, payload: bytes | memoryview) -> int:
    """The value of `open_lines` after this chunk."""
    bit = line_bit(stream)
    return open_lines & ~bit if payload[-1] == 0x0A else open_lines | bit


def log_name(number: int) -> str:
    """The name of the file with the segment's frames."""
    return f"{number:08d}.log"


def index_name(number: int) -> str:
    """The name of the file with the segment's index."""
    return f"{number:08d}.idx"


def segment_number(name: str) -> int | None:
    """The number of the segment whose index has this file name; None when it is not the name of an index."""
    stem, dot, kind = name.partition(".")
    if not dot or kind != "idx" or len(stem) < 8 or not (stem.isascii() and stem.isdigit()):
        return None
    number = int(stem)
    return number if 0 < number < 1 << 32 and index_name(number) == name else None


def pack_index_header(number: int, mark: int = 0) -> bytes:
    """The first 24 bytes of the index of segment `number`. mark: its order mark"""
    return INDEX_HEADER.pack(MAGIC, number, mark)


def index_is_ours(header: bytes) -> bool:
    """True when these are the first bytes of an index of this version."""
    return len(header) == INDEX_HEADER.size and header.startswith(MAGIC)


def most_records(index_size: int, log_size: int) -> int:
    """How many records files of these sizes can have: each frame has a header and a byte at least, so that whatever an
    index has behind that is damage.
    """
    return min(max(index_size - INDEX_HEADER.size, 0) // RECORD.size, log_size // (FRAME.size + 1))


def pack_record(record: Record) -> bytes:
    """The 24 bytes of one record."""
    return RECORD.pack(record.offset, record.time_ns, record.length, record.stream, record.open_lines, 0)


def unpack_record(data: bytes | memoryview, log_size: int) -> Record | None:
    """The record in these 24 bytes, or None when it cannot be right for a .log file of `log_size` bytes."""
    *fields, _zero = RECORD.unpack(data)
    record = Record(*fields)
    if record.stream not in STREAMS or not 0 < record.length <= LARGEST_CHUNK or record.end > log_size:
        return None
    return record


def stamp(time_ns: int) -> bytes:
    """A time as docker writes it before a line: RFC 3339 in UTC with nine digits, and a space."""
    seconds, fraction = divmod(time_ns, 1_000_000_000)
    days, second = divmod(seconds, 86400)
    # Days to a date with March as the first month (Howard Hinnant's civil_from_days). Not gmtime(3): it is bound to the
    # platform's time_t, which ends in 2038 on some 32-bit systems.
    era, day = divmod(days + 719468, 146097)
    year = (day - day // 1460 + day // 36524 - day // 146096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    month += 3 if month < 10 else -9
    year += era * 400 + (month <= 2)
    hour, second = divmod(second, 3600)
    minute, second = divmod(second, 60)
    return b"%04d-%02d-%02dT%02d:%02d:%02d.%09dZ " % (year, month, day + 1, hour, minute, second, fraction)
