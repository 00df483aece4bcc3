"""Reads what a compiled C muxer runs on, and cuts off what only debuggers read.

Pure: bytes in, values out. The files are the compiler's own. Format: System V gABI, chapters 4 and 5; elf(5).
"""

import re
import struct

from engine.dataclass import dataclass
from engine.errors import Invalid

_MACHINES = {(2, 62): "x86_64", (2, 183): "aarch64", (2, 243): "riscv64", (1, 40): "armv7l"}
"""ELF's class and e_machine → the machine as uname(2) names it."""
_LOAD = 1


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where an ELF header of one class has what is read here, and how wide an offset is."""

    word: str
    headers: int
    sections: int
    counts: int
    segment: tuple[int, int]


_LAYOUTS = {1: _Layout("<I", 28, 32, 42, (4, 16)), 2: _Layout("<Q", 32, 40, 54, (8, 32))}


def machine(data: bytes) -> str:
    """The machine that a file is for. Raises Invalid for a file that is no ELF file of a known machine."""
    if data[:4] != b"\x7fELF" or len(data) < 64 or data[5] != 1:
        raise Invalid("not an ELF file of a little-endian machine")
    (number,) = struct.unpack_from("<H", data, 18)
    if (data[4], number) not in _MACHINES:
        raise Invalid(f"an ELF file of an unknown machine, {number}")
    return _MACHINES[data[4], number]


def target(data: bytes) -> str:
    """What a library is for, as `engine.onefile.fits` reads it: `x86_64-linux-gnu-2.33`, `aarch64-linux-musl-0`.

    The number is the oldest glibc that has all symbols of it. Raises Invalid.
    """
    versions = re.findall(rb"\0GLIBC_(\d+)\.(\d+)", loaded(data))
    if not versions:
        return f"{machine(data)}-linux-musl-0"
    least = max((int(one), int(two)) for one, two in versions)
    return f"{machine(data)}-linux-gnu-{least[0]}.{least[1]}"


def loaded(data: bytes) -> bytes:
    """The file without its symbols and debugging sections: what the kernel and the linker map. Raises Invalid."""
    machine(data)
    layout = _LAYOUTS[data[4]]
    try:
        (start,) = struct.unpack_from(layout.word, data, layout.headers)
        size, count = struct.unpack_from("<HH", data, layout.counts)
        end = start + size * count
        for place in range(start, end, size or 1):
            (kind,) = struct.unpack_from("<I", data, place)
            (offset,) = struct.unpack_from(layout.word, data, place + layout.segment[0])
            (length,) = struct.unpack_from(layout.word, data, place + layout.segment[1])
            if kind == _LOAD:
                end = max(end, offset + length)
    except struct.error as error:
        raise Invalid(f"damaged ELF file: {error}") from error
    kept = bytearray(data[:end])
    struct.pack_into(layout.word, kept, layout.sections, 0)
    struct.pack_into("<HHH", kept, layout.counts + 4, 0, 0, 0)
    return bytes(kept)
