"""Has the C muxer make the plain members of a layer's tar (`_muxer/files/extract.c`); loaded only where that was
selected.

Run by the thread that unpacks. C reads the archive up to a member that is not plain, which is then read and made by
`tar.reader` and `tar.extract`, and goes on behind it. While C works, the interpreter's lock is free.
"""

import os
import struct

from _muxer._native import ffi, lib
from engine.annotating import Protocol
from engine.daemon.tar.extract import Extraction, failure
from engine.errors import Invalid

_PIECE = 256 * 1024
_SECONDS = struct.Struct("q")
_NS = 1_000_000_000


class Stream(Protocol):
    """A buffered stream, as of io.BufferedReader."""

    def read(self, count: int, /) -> bytes:
        """That many bytes, or what is left of them."""

    def read1(self, count: int, /) -> bytes:
        """At most so many bytes, which come at once; empty at the end."""


class PlainMembers:
    """The stream of an archive without its plain members; a context manager.

    work: gets what was made, and makes the members that are left
    """

    def __init__(self, stream: Stream, root: int, work: Extraction) -> None:
        self._stream = stream
        self._work = work
        self._held, self._at = b"", 0  # bytes of the stream, and how many of them were used
        self._told = ffi.new("struct mux_extracted *")
        self._extract = lib.mux_extract_new(root)
        if not self._extract:
            raise MemoryError

    def __enter__(self) -> "PlainMembers":
        return self

    def __exit__(self, *_: object) -> None:
        lib.mux_extract_free(self._extract)

    def forget(self) -> None:
        """Forget the directories that are open: something was removed, and their paths may lead elsewhere."""
        lib.mux_extract_forget(self._extract)

    def read(self, count: int) -> bytes:
        """That many bytes of the stream, or what is left of them."""
        start = self._at
        self._at = min(start + count, len(self._held))
        data = self._held[start : self._at]
        return data if len(data) == count else data + self._stream.read(count - len(data))

    def make(self) -> None:
        """Make members up to the next that is not plain, whose header is read next. Raises Invalid, SystemFailure."""
        while True:
            ended = self._feed()
            if ended == lib.MUX_EXTRACT_OTHER:
                return
            if ended == lib.MUX_EXTRACT_FULL:
                continue
            data = self._stream.read1(_PIECE)
            if not data and ended == lib.MUX_EXTRACT_DATA:
                raise Invalid("unexpected EOF")
            if not data:
                return
            self._held, self._at = self._held[self._at :] + data, 0

    def _feed(self) -> int:
        told = self._told
        data = ffi.cast("uint8_t *", ffi.from_buffer(self._held))
        ended = lib.mux_extract_feed(self._extract, data + self._at, len(self._held) - self._at, told)
        self._at += told.done
        directories = ffi.buffer(told.directories, told.directories_size)[:]
        try:
            self._work.made(told.size, told.counted, _directories(directories))
            if ended < 0:
                raise OSError(-ended, os.strerror(-ended))
        except OSError as error:
            name = ffi.string(lib.mux_extract_name(self._extract)).decode("utf-8", "surrogateescape")
            raise failure(name, error) from error
        return ended


def _directories(told: bytes) -> list[tuple[str, int]]:
    """The paths and times, in ns, in what C tells of the directories that it has made."""
    found, at = [], 0
    while at < len(told):
        (seconds,) = _SECONDS.unpack_from(told, at)
        end = told.index(b"\0", at + _SECONDS.size)
        found.append((told[at + _SECONDS.size : end].decode("utf-8", "surrogateescape"), seconds * _NS))
        at = end + 1
    return found
