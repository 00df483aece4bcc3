"""Rewrites the times in a tar stream so that no member is younger than a given moment; all else stays as it is.

Runs in the daemon, on the thread that reads. SOURCE_DATE_EPOCH asks for it: a build that is done again tomorrow then
gives the same layers. Format: POSIX pax(1); GNU tar's manual, "Basic Tar Format". What a header says is bounded before
memory is spent on it.
"""

import io

from engine.daemon.streams import Buffer, Source
from engine.daemon.tar.reader import BLOCK
from engine.daemon.tar.writer import record
from engine.errors import Invalid

_ZEROS = bytes(BLOCK)
_LARGEST_EXTENSION = 1 << 20
_PIECE = 256 * 1024
_SIZE, _TIME, _SUM, _KIND, _SPARSE_MORE, _SPARSE_NEXT = slice(124, 136), slice(136, 148), slice(148, 156), 156, 482, 504
_EXTENDED, _GLOBAL, _OLD_SPARSE = ord("x"), ord("g"), ord("S")
_WITHOUT_DATA = frozenset(b"123456")
_TIMES = (b"mtime", b"atime", b"ctime")
_GNU_TIMES = (slice(345, 357), slice(357, 369))  # atime and ctime of GNU's own headers
_GNU_MAGIC = b"ustar  \0"
_MAGIC = slice(257, 265)
_LARGEST = 1 << 62


class Retimed(io.RawIOBase):
    """A raw stream of the rewritten tar.

    source: buffered, uncompressed bytes (read(n) gives n bytes or what is left); seconds: since 1970. Raises Invalid
    """

    def __init__(self, source: Source, seconds: int):
        self._source = source
        self._seconds = seconds
        self._ready = b""
        self._data = 0  # bytes of the present member's data and padding that are passed on as they are
        self._size: int | None = None  # what an extended header says of the next member
        self._over = False

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Buffer) -> int:
        """Fill the buffer with what is ready, and make more ready where nothing is."""
        view = memoryview(buffer)
        if not self._ready:
            self._ready = self._next()
        data, self._ready = self._ready[: len(view)], self._ready[len(view) :]
        view[: len(data)] = data
        return len(data)

    def _next(self) -> bytes:
        if self._data or self._over:
            data = self._source.read(min(_PIECE, self._data) if self._data else _PIECE)
            if not data and self._data and not self._over:
                self._data = 0
            self._data = max(0, self._data - len(data))
            return data
        block = self._source.read(BLOCK)
        if len(block) < BLOCK or block == _ZEROS:
            self._over = True
            return block
        return self._member(bytearray(block))

    def _member(self, block: bytearray) -> bytes:
        kind, size = block[_KIND], _number(bytes(block[_SIZE]))
        if kind in (_EXTENDED, _GLOBAL):
            return self._extension(block, size)
        if self._size is not None and kind not in b"LK":
            size, self._size = self._size, None
        self._clamp(block, _TIME)
        if bytes(block[_MAGIC]) == _GNU_MAGIC:
            for place in _GNU_TIMES:
                if block[place.start]:
                    self._clamp(block, place)
        made = _summed(block)
        if kind == _OLD_SPARSE and block[_SPARSE_MORE]:
            more = True
            while more:
                following = self._source.read(BLOCK)
                if len(following) < BLOCK or len(made) > _LARGEST_EXTENSION:
                    raise Invalid("unexpected EOF")
                made += following
                more = bool(following[_SPARSE_NEXT])
        self._data = 0 if kind in _WITHOUT_DATA else size + -size % BLOCK
        return made

    def _clamp(self, block: bytearray, place: slice) -> None:
        if _number(bytes(block[place])) > self._seconds:
            block[place] = b"%011o\0" % max(0, self._seconds)

    def _extension(self, block: bytearray, size: int) -> bytes:
        """An extended header: its records keep their order, times are set back, its own header gets the new size."""
        if size > _LARGEST_EXTENSION:
            raise Invalid("a tar header is too large")
        data = self._source.read(size + -size % BLOCK)
        if len(data) < size:
            raise Invalid("unexpected EOF")
        made = bytearray()
        place = 0
        while place < size:
            length_text, _, _ = data[place:size].partition(b" ")
            if not length_text.isdigit() or len(length_text) > 8:
                raise Invalid("invalid tar header")
            length = int(length_text)
            given = data[place : place + length]
            if len(given) != length or length <= len(length_text) + 2 or place + length > size:
                raise Invalid("invalid tar header")
            key, _, value = given[len(length_text) + 1 : -1].partition(b"=")
            if key == b"size" and block[_KIND] == _EXTENDED:
                self._size = _decimal(value)
            made += record(key, b"%d" % self._seconds) if key in _TIMES and self._is_later(value) else given
            place += length
        self._clamp(block, _TIME)
        block[_SIZE] = b"%011o\0" % len(made)
        return _summed(block) + bytes(made) + bytes(-len(made) % BLOCK)

    def _is_later(self, value: bytes) -> bool:
        whole, _, fraction = value.partition(b".")
        if not whole.lstrip(b"-").isdigit() or len(whole) > 20:
            raise Invalid("invalid tar header")
        return int(whole) > self._seconds or (int(whole) == self._seconds and bool(fraction.strip(b"0")))


def _summed(block: bytearray) -> bytes:
    block[_SUM] = b" " * 8
    block[_SUM] = b"%06o\0 " % sum(block)
    return bytes(block)


def _number(field: bytes) -> int:
    """A number of a header, in octal digits or, with the highest bit set, in base 256."""
    if field[0] & 0x80:
        value = int.from_bytes(bytes((field[0] & 0x7F,)) + field[1:], "big")
        if field[0] & 0x40:
            return -1  # below zero: long before any moment that is asked for
    else:
        text = field.strip(b" \0")
        if text.strip(b"01234567"):
            raise Invalid("invalid tar header")
        value = int(text or b"0", 8)
    if value > _LARGEST:
        raise Invalid("invalid tar header")
    return value


def _decimal(value: bytes) -> int:
    if not value.isdigit() or len(value) > 18:
        raise Invalid("invalid tar header")
    return int(value)
