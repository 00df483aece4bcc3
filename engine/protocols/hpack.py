"""HPACK (RFC 7541): the header fields of HTTP/2 as bytes and back, with the tables that both ends keep in step.

Pure. A connection has one `Encoder` for what it sends and one `Decoder` for what it receives; each header block must
pass through it, in order, also one that nobody wants. Names and values are bytes. What a peer sends is hostile:
numbers, strings, tables and lists all have a bound, so that a few bytes cannot become many (CVE-2016-6581).
"""

import functools
from collections import deque
from collections.abc import Iterable

from engine.errors import Invalid
from engine.protocols import huffman

Field = tuple[bytes, bytes]
"""A name in lower case and a value."""

TABLE_SIZE = 4096
"""The size of a dynamic table until a setting says otherwise, in bytes as section 4.1 counts them."""
_OVERHEAD = 32  # of each field, section 4.1
_LONGEST_NUMBER = 5  # bytes after the prefix: more than any length here needs
# Appendix A: each line is a name, perhaps with a value.
_STATIC = """\
:authority
:method GET
:method POST
:path /
:path /index.html
:scheme http
:scheme https
:status 200
:status 204
:status 206
:status 304
:status 400
:status 404
:status 500
accept-charset
accept-encoding gzip, deflate
accept-language
accept-ranges
accept
access-control-allow-origin
age
allow
authorization
cache-control
content-disposition
content-encoding
content-language
content-length
content-location
content-range
content-type
cookie
date
etag
expect
expires
from
host
if-match
if-modified-since
if-none-match
if-range
if-unmodified-since
last-modified
link
location
max-forwards
proxy-authenticate
proxy-authorization
range
referer
refresh
retry-after
server
set-cookie
strict-transport-security
transfer-encoding
user-agent
vary
via
www-authenticate
"""
# The first bits of each representation (section 6), and the bits of its prefix.
_INDEXED, _INDEXED_BITS = 0x80, 7
_ADDED, _ADDED_BITS = 0x40, 6
_RESIZED, _RESIZED_BITS = 0x20, 5
_NEVER, _PLAIN, _PLAIN_BITS = 0x10, 0x00, 4
_HUFFMAN, _STRING_BITS = 0x80, 7
_SECRET = frozenset((b"authorization", b"cookie", b"proxy-authorization"))


class TooLarge(Invalid):
    """A list of fields is larger than this end takes."""


@functools.cache
def _static() -> tuple[Field, ...]:
    lines = (line.encode().partition(b" ") for line in _STATIC.splitlines())
    return tuple((name, value) for name, _, value in lines)


@functools.cache
def _static_places() -> dict[bytes | Field, int]:
    """The index of each field, and of the first field with each name."""
    places: dict[bytes | Field, int] = {}
    for index, field in enumerate(_static(), 1):
        places.setdefault(field[0], index)
        places[field] = index
    return places


class _Table:
    """The dynamic table (section 2.3.2), newest field first; limit: its present size at most."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.fields: deque[Field] = deque()
        self._size = 0

    def add(self, field: Field) -> None:
        self._size += _cost(field)
        self.fields.appendleft(field)
        self._evict()

    def resize(self, limit: int) -> None:
        self.limit = limit
        self._evict()

    def _evict(self) -> None:
        while self._size > self.limit:
            self._size -= _cost(self.fields.pop())

    def at(self, index: int) -> Field:
        """The field with this index of the whole address space (section 2.3.3). Raises Invalid."""
        static = _static()
        if 1 <= index <= len(static):
            return static[index - 1]
        if index < 1 or index - len(static) > len(self.fields):
            raise Invalid(f"hpack: there is no field {index}")
        return self.fields[index - len(static) - 1]


def _cost(field: Field) -> int:
    return len(field[0]) + len(field[1]) + _OVERHEAD


class Decoder:
    """Turns header blocks into fields.

    table_size: what this end has told the peer (SETTINGS_HEADER_TABLE_SIZE)
    largest: the most that the fields of one block may count together, each with its overhead of 32 bytes
    """

    def __init__(self, largest: int, table_size: int = TABLE_SIZE) -> None:
        self._largest = largest
        self._allowed = table_size
        self._table = _Table(table_size)

    def decode(self, block: bytes) -> list[Field]:
        """The fields of one block. After an error the tables differ, so the connection must end.

        Raises Invalid, TooLarge.
        """
        fields: list[Field] = []
        place = total = 0
        while place < len(block):
            first = block[place]
            if first & 0xE0 == _RESIZED:
                if fields:
                    raise Invalid("hpack: the table changes its size within a block")
                size, place = _number(block, place, _RESIZED_BITS)
                if size > self._allowed:
                    raise Invalid(f"hpack: a table of {size} bytes, where {self._allowed} are allowed")
                self._table.resize(size)
                continue
            field, place = self._field(block, place)
            total += _cost(field)
            if total > self._largest:
                raise TooLarge(f"hpack: more than {self._largest} bytes of fields")
            fields.append(field)
        return fields

    def _field(self, block: bytes, place: int) -> tuple[Field, int]:
        first = block[place]
        if first & _INDEXED:
            index, place = _number(block, place, _INDEXED_BITS)
            return self._table.at(index), place
        index, place = _number(block, place, _ADDED_BITS if first & _ADDED else _PLAIN_BITS)
        name, place = (self._table.at(index)[0], place) if index else self._string(block, place)
        value, place = self._string(block, place)
        if first & _ADDED:
            self._table.add((name, value))
        return (name, value), place

    def _string(self, block: bytes, place: int) -> tuple[bytes, int]:
        if place >= len(block):
            raise Invalid("hpack: a block ends within a field")
        coded = block[place] & _HUFFMAN
        length, place = _number(block, place, _STRING_BITS)
        data, place = block[place : place + length], place + length
        if place > len(block):
            raise Invalid("hpack: a block ends within a string")
        return (huffman.decode(data) if coded else data), place


class Encoder:
    """Turns fields into header blocks."""

    def __init__(self) -> None:
        self._table = _Table(TABLE_SIZE)
        self._sizes: list[int] = []  # of which the peer is to be told at the start of the next block

    def allow(self, size: int) -> None:
        """Keep within a table of this size, which the peer has set; a larger one than the usual is not made use of."""
        size = min(size, TABLE_SIZE)
        if size != self._table.limit:
            self._table.resize(size)
            # Section 4.2: the smallest size since the last block is told, and then the present one.
            self._sizes = [*dict.fromkeys((min([size, *self._sizes]), size))]

    def encode(self, fields: Iterable[Field]) -> bytes:
        """One block. Values that are secrets never enter a table, here or at a proxy (section 7.1.3)."""
        made = bytearray()
        for size in self._sizes:
            made += _encoded(size, _RESIZED, _RESIZED_BITS)
        self._sizes = []
        for field in fields:
            made += self._field(field)
        return bytes(made)

    def _field(self, field: Field) -> bytes:
        name, value = field
        index = self._index(field)
        if index and name not in _SECRET:
            return _encoded(index, _INDEXED, _INDEXED_BITS)
        named = _static_places().get(name, 0)
        if name in _SECRET:
            head = _encoded(named, _NEVER, _PLAIN_BITS)
        elif _cost(field) > self._table.limit // 2:  # it would push out what is of use
            head = _encoded(named, _PLAIN, _PLAIN_BITS)
        else:
            head = _encoded(named, _ADDED, _ADDED_BITS)
            self._table.add(field)
        return head + (b"" if named else _text(name)) + _text(value)

    def _index(self, field: Field) -> int:
        static = _static_places().get(field, 0)
        if static:
            return static
        for index, known in enumerate(self._table.fields, len(_static()) + 1):
            if known == field:
                return index
        return 0


def _number(block: bytes, place: int, bits: int) -> tuple[int, int]:
    """A number in the last bits of the byte at `place` and those after it (section 5.1), and the place behind it."""
    most = (1 << bits) - 1
    number = block[place] & most
    place += 1
    if number < most:
        return number, place
    for shift in range(0, 7 * _LONGEST_NUMBER, 7):
        if place >= len(block):
            raise Invalid("hpack: a block ends within a number")
        byte = block[place]
        place += 1
        number += (byte & 0x7F) << shift
        if not byte & 0x80:
            return number, place
    raise Invalid("hpack: a number has no end")


def _encoded(number: int, mark: int, bits: int) -> bytes:
    most = (1 << bits) - 1
    if number < most:
        return bytes((mark | number,))
    made = bytearray((mark | most,))
    number -= most
    while number >= 0x80:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def _text(data: bytes) -> bytes:
    """A string, in the Huffman code where that is shorter (section 5.2)."""
    size = huffman.size(data)
    if size < len(data):
        return _encoded(size, _HUFFMAN, _STRING_BITS) + huffman.encode(data)
    return _encoded(len(data), 0, _STRING_BITS) + data
