"""Compresses the older files of a log of JSON lines with gzip, as dockerd does.

Run by a child of the monitor that does nothing else and ends; a monitor in C has such a child unpack a file, too. Each
file is replaced by its compressed form in one step,
so that a reader finds one or the other. The file that is being written is never touched.
"""

import os
import re
import zlib
from collections.abc import Iterator
from io import BufferedReader

from engine.logs import order

_BLOCK = 1 << 18
# RFC 1952: deflate, an extra field and a comment, no time, no system.
_HEADER = b"\x1f\x8b\x08\x14\0\0\0\0\0\xff"
_COMMENT = b"inode %d written %d"
_ORIGIN = re.compile(rb"inode (\d{1,20}) written (\d{1,20})\0")
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
        old = os.fstat(source.fileno())
        extra = b'{"lastTime":"%b"}' % _last_time(source)  # by which dockerd passes over files that are too old
        comment = _COMMENT % (old.st_ino, old.st_mtime_ns)
        made.write(_HEADER + len(extra).to_bytes(2, "little") + extra + comment + b"\0")
        mark = order.read(source.fileno())
        if mark is not None:
            order.write(made.fileno(), mark, anew=True)
        deflate, check, size = zlib.compressobj(wbits=-15), 0, 0
        while block := source.read(_BLOCK):
            check, size = zlib.crc32(block, check), size + len(block)
            made.write(deflate.compress(block))
        made.write(deflate.flush() + check.to_bytes(4, "little") + (size & 0xFFFFFFFF).to_bytes(4, "little"))
        made.flush()
        os.fdatasync(made.fileno())  # before the uncompressed file is removed


def origin(fd: int) -> tuple[int, int] | None:
    """(inode, time of the last write) of the file of which this one was made; None where it does not say so."""
    head = os.pread(fd, 1024, 0)
    if not head.startswith(_HEADER):
        return None
    found = _ORIGIN.match(head, len(_HEADER) + 2 + int.from_bytes(head[len(_HEADER) : len(_HEADER) + 2], "little"))
    return (int(found[1]), int(found[2])) if found else None


def unpacked(fd: int) -> Iterator[bytes]:
    """What was packed into a file. Damage ends it, behind all that came before."""
    inflate, place = zlib.decompressobj(wbits=31), 0
    while packed := os.pread(fd, _BLOCK, place):
        place += len(packed)
        try:
            yield inflate.decompress(packed)
        except zlib.error:
            return


def _last_time(source: BufferedReader) -> bytes:
    size = os.fstat(source.fileno()).st_size
    tail = os.pread(source.fileno(), _TAIL, max(size - _TAIL, 0))
    return tail.rpartition(b'"time":"')[2].partition(b'"')[0]
