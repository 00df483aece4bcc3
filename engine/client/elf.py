"""Parses ELF files: which loader, shared libraries and search paths a program names.

Pure; runs in the client. Bytes in, values out. Each offset is checked, since the file may hold anything.
Format: System V gABI, chapters 4 and 5; elf(5).
"""

import mmap
import struct

from engine.dataclass import dataclass
from engine.errors import Invalid

MAGIC = b"\x7fELF"
Data = bytes | mmap.mmap
# No real program has more program headers or dynamic entries than these.
_MOST_HEADERS = 512
_MOST_ENTRIES = 65536

_LOAD, _DYNAMIC, _INTERPRETER = 1, 2, 3
_NEEDED, _STRINGS, _STRINGS_SIZE, _RPATH, _RUNPATH, _END = 1, 5, 10, 15, 29, 0

# Class → the header from e_machine on (machine, version, entry, phoff, shoff, flags, ehsize, phentsize, phnum).
_HEADERS = {1: "HIIIIIHHH", 2: "HIQQQIHHH"}
# Class → a program header, and which of its fields are type, offset, address, size in the file.
_SEGMENTS = {1: ("IIIIIIII", (0, 1, 2, 4)), 2: ("IIQQQQQQ", (0, 2, 3, 5))}
_DYNAMICS = {1: "iI", 2: "qQ"}
_ORDERS = {1: "<", 2: ">"}


@dataclass(frozen=True, slots=True)
class Elf:
    """The parts of one ELF file that the loader uses.

    kind: (class, byte order, machine), equal for files that can be loaded together
    interpreter: path of the loader, empty in a library and in a static program
    needed: names of libraries; rpath, runpath: directories as the file has them, `$ORIGIN` not replaced
    """

    kind: tuple[int, int, int]
    interpreter: str
    needed: tuple[str, ...]
    rpath: tuple[str, ...]
    runpath: tuple[str, ...]


def parse(data: Data) -> Elf:
    """The ELF file whose bytes (or a mapping of them) are given. Raises Invalid for any other or a damaged file."""
    try:
        return _parse(data)
    except (struct.error, IndexError, OverflowError, UnicodeDecodeError) as error:
        raise Invalid(f"damaged ELF file: {error}") from error


def _parse(data: Data) -> Elf:
    if data[:4] != MAGIC or data[4] not in _HEADERS or data[5] not in _ORDERS:
        raise Invalid("not an ELF file")
    width, order = data[4], _ORDERS[data[5]]
    machine, _, _, start, _, _, _, size, count = struct.unpack_from(order + _HEADERS[width], data, 18)
    segments = _segments(data, order, width, start, size, min(count, _MOST_HEADERS))
    interpreter = ""
    dynamic: list[tuple[int, int]] = []
    for kind, offset, _, length in segments:
        if kind == _INTERPRETER:
            interpreter = _text(data, offset, length)
        elif kind == _DYNAMIC:
            dynamic = _dynamic(data, order, width, offset, length)
    tags = dict(reversed(dynamic))
    strings = _file_offset(segments, tags[_STRINGS]) if _STRINGS in tags else 0
    limit = tags.get(_STRINGS_SIZE, 0)

    def texts(tag: int) -> tuple[str, ...]:
        places = (value for known, value in dynamic if known == tag)
        return tuple(_text(data, strings + place, limit - place) for place in places)

    def directories(tag: int) -> tuple[str, ...]:
        return tuple(part for text in texts(tag) for part in text.split(":") if part)

    return Elf((width, data[5], machine), interpreter, texts(_NEEDED), directories(_RPATH), directories(_RUNPATH))


def _segments(data: Data, order: str, width: int, start: int, size: int, count: int) -> list[tuple[int, int, int, int]]:
    """(type, offset, address, size in the file) of each program header."""
    layout, places = _SEGMENTS[width]
    rows = (struct.unpack_from(order + layout, data, start + number * size) for number in range(count))
    return [tuple(row[place] for place in places) for row in rows]


def _dynamic(data: Data, order: str, width: int, offset: int, length: int) -> list[tuple[int, int]]:
    """(tag, value) of the dynamic section, up to its end."""
    layout = struct.Struct(order + _DYNAMICS[width])
    entries = []
    for number in range(min(length // layout.size, _MOST_ENTRIES)):
        tag, value = layout.unpack_from(data, offset + number * layout.size)
        if tag == _END:
            break
        entries.append((tag, value))
    return entries


def _file_offset(segments: list[tuple[int, int, int, int]], address: int) -> int:
    for kind, offset, start, length in segments:
        if kind == _LOAD and start <= address < start + length:
            return offset + address - start
    raise Invalid("damaged ELF file: an address outside of every segment")


def _text(data: Data, offset: int, most: int) -> str:
    """The text that ends with a NUL within `most` bytes of the offset."""
    piece = bytes(data[offset : offset + min(max(most, 0), 4096)])
    if b"\0" not in piece:
        raise Invalid("damaged ELF file: a string without an end")
    return piece.partition(b"\0")[0].decode()
