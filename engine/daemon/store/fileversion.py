"""Reading the schema version from a SQLite file and its write-ahead log, without SQLite.

SQLite itself writes as soon as it opens a database. The daemon runs this once, before it opens its database. The layout
is that of sqlite.org/fileformat2.html: 1.3 (the database header) and 4 (the write-ahead log). A daemon that was killed
leaves its last changes in the log, and the changes of a newer engine are to stay as they are.
"""

import os
import struct

_MAGIC = b"SQLite format 3\0"
_VERSION = struct.Struct(">i")
_VERSION_AT = 60
_LOG = struct.Struct(">4xI I 4x 8s 8x")  # magic, format version, page size, number of checkpoints, salts, checksum
_LOG_FORM = 3_007_000
_FRAME = struct.Struct(">I I 8s 8x")  # page number, pages in the database after a commit (else 0), salts, checksum


def of(path: str) -> int:
    """The number that `PRAGMA user_version` would return; 0 for a file that does not exist or is no database.

    Checksums are not verified, so a frame that a loss of power has torn counts too. Raises OSError.
    """
    return max(_in_file(path), _in_log(f"{path}-wal"))


def _in_file(path: str) -> int:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    try:
        head = os.pread(descriptor, _VERSION_AT + _VERSION.size, 0)
    finally:
        os.close(descriptor)
    if not head.startswith(_MAGIC) or len(head) < _VERSION_AT + _VERSION.size:
        return 0
    version: int = _VERSION.unpack_from(head, _VERSION_AT)[0]
    return version


def _in_log(path: str) -> int:
    """The version in the newest committed copy of page 1 in the log; 0 where the log has none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    try:
        head = os.pread(descriptor, _LOG.size, 0)
        if len(head) < _LOG.size:
            return 0
        form, page_size, salts = _LOG.unpack(head)
        if form != _LOG_FORM or not 512 <= page_size <= 65536:
            return 0
        return _last(descriptor, page_size, salts)
    finally:
        os.close(descriptor)


def _last(log: int, page_size: int, salts: bytes) -> int:
    """Read the frames that were written since the log was last begun anew; only those bear the salts of its header."""
    committed = written = 0
    place = _LOG.size
    while len(head := os.pread(log, _FRAME.size, place)) == _FRAME.size:
        page, pages, of_frame = _FRAME.unpack(head)
        if of_frame != salts:
            break
        if page == 1:
            version = os.pread(log, _VERSION.size, place + _FRAME.size + _VERSION_AT)
            if len(version) == _VERSION.size:
                written = _VERSION.unpack(version)[0]
        if pages:
            committed = written
        place += _FRAME.size + page_size
    return committed
