"""Compressing a stream in a format and with a level that somebody asks for: gzip, zstd, or none at all.

Runs in the daemon, on the thread that writes. The same bytes give the same result on one host: no format is given the
time or a name. `compression` reads what is made here.
"""

import importlib
import zlib
from collections.abc import Callable

from engine.annotating import Protocol
from engine.daemon.tar import compression
from engine.dataclass import dataclass
from engine.errors import Invalid, Unavailable
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded by the first layer in zstd
    from engine.daemon.tar import zstd as ours
else:
    ours = late("engine.daemon.tar.zstd")


class Compressor(Protocol):
    """A compressor of one stream, with the interface of zlib's."""

    def compress(self, data: bytes, /) -> bytes:
        """Compress more bytes; what is ready of the stream, perhaps nothing."""

    def flush(self) -> bytes:
        """The rest of the stream."""


class _Plain:
    """Leaves the bytes as they are."""

    def compress(self, data: bytes) -> bytes:
        """The same bytes."""
        return data

    def flush(self) -> bytes:
        """Nothing."""
        return b""


def _zstd(level: int) -> Compressor:
    if compression.python_has_zstd():
        theirs = importlib.import_module("compression.zstd")
        parameter = theirs.CompressionParameter
        options = {parameter.compression_level: level, parameter.checksum_flag: 1}
        made: Compressor = theirs.ZstdCompressor(options=options)
        return made
    library = ours.library()
    if library is None:
        raise Unavailable("compressing with zstd needs libzstd.so.1 on the host, or Python 3.14 or later")
    return ours.Zstd(library, level)


@dataclass(frozen=True, slots=True)
class Format:
    """One format. levels: lowest, highest, and the one that is taken where none is asked for"""

    levels: tuple[int, int, int]
    make: Callable[[int], Compressor]


FORMATS: dict[str, Format] = {
    "uncompressed": Format((0, 0, 0), lambda _: _Plain()),
    "gzip": Format((0, 9, 6), lambda level: zlib.compressobj(level, wbits=31)),
    "zstd": Format((0, 22, 3), _zstd),
}


def compressor(form: str, level: int | None) -> Compressor:
    """A compressor of that format. level: None for the format's own

    Raises Invalid for a level that the format does not have, Unavailable where the host lacks its library.
    """
    lowest, highest, usual = FORMATS[form].levels
    chosen = usual if level is None or not highest else level
    if not lowest <= chosen <= highest:
        raise Invalid(f"invalid compression level {level} for {form}: {lowest} to {highest} are allowed")
    return FORMATS[form].make(chosen)
