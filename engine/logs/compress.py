"""Compresses the older files of a log of JSON lines with gzip, as dockerd does.

Run by a child of the monitor that does nothing else and ends. Each file is replaced by its compressed form in one step,
so that a reader finds one or the other. The file that is being written is never touched.
"""

import os
import zlib
from io import BufferedReader

_BLOCK = 1 << 18
_HEADER = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff"  # RFC 1952: deflate, an extra field, no time, no system
_TAIL = 8192  # bytes at a file's end in which its last line's time is looked for


def compress_all(directory_fd: int, name: str, most: int) -> None:
    """Compress each of the log's older files (`name`.1 to `name`.`most`) that is not compressed yet. Raises OSError."""
    ends = (each.removeprefix(f"{name}.") for each in os.listdir(directory_fd))
    for number in sorted((int(end) for end in ends if end.isascii() and end.isdigit()), reverse=True):
        if number > most:
            continue
        old = f"{name}.{number}"
        try:
            source = os.open(old, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory_fd)
        except FileNotFoundError:
            continue  # it is compressed, or never existed
        with open(source, "rb") as file:
            _compress(file, directory_fd, f"{name}.gz.new")
        os.rename(f"{name}.gz.new", f"{old}.gz", src_dir_fd=directory_fd, dst_dir_fd=directory_fd)
        os.unlink(old, dir_fd=directory_fd)


def _compress(source: BufferedReader, directory_fd: int, to: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    with open(os.open(to, flags, 0o640, dir_fd=directory_fd), "wb") as made:
        extra = b'{"lastTime":"%b"}' % _last_time(source)  # by which dockerd passes over files that are too old
        made.write(_HEADER + len(extra).to_bytes(2, "little") + extra)
        deflate, check, size = zlib.compressobj(wbits=-15), 0, 0
        while block := source.read(_BLOCK):
            check, size = zlib.crc32(block, check), size + len(block)
            made.write(deflate.compress(block))
        made.write(deflate.flush() + check.to_bytes(4, "little") + (size & 0xFFFFFFFF).to_bytes(4, "little"))
        made.flush()
        os.fdatasync(made.fileno())  # before the uncompressed file is removed


def _last_time(source: BufferedReader) -> bytes:
    size = os.fstat(source.fileno()).st_size
    tail = os.pread(source.fileno(), _TAIL, max(size - _TAIL, 0))
    return tail.rpartition(b'"time":"')[2].partition(b'"')[0]
