"""Compressed streams: which of the known forms a stream is in, and its bytes unpacked, never many at a time.

Runs in the daemon, on the thread that reads. Never holds more than one window of either side in memory, so a bomb costs
time and is stopped by whoever counts the bytes, not by the memory running out.
"""

import importlib
import importlib.util
import io
import zlib
from collections.abc import Callable
from typing import Protocol

from engine.daemon.streams import Buffer, Source
from engine.errors import Invalid, Unavailable
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded by the first layer in zstd
    from engine.daemon.tar import zstd as ours
else:
    ours = late("engine.daemon.tar.zstd")

_INPUT = 128 * 1024
# Long enough for the longest magic number.
_HEAD = 6
# What a stream may unpack to: anything up to the first, beyond it so many times what came in. Files of zeros (a disk
# image, a database made to its size) pack a thousand to one and are honest; a program's files hardly pack ten to one.
FAIR_BYTES = 10 << 30
FAIR_RATIO = 200


class Decompressor(Protocol):
    """What unpacks one member of a stream, as bz2, lzma and zstd have it."""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """At most max_length bytes; what was given and not used is kept for the next call."""

    @property
    def needs_input(self) -> bool:
        """True when nothing more comes out without more going in."""

    @property
    def eof(self) -> bool:
        """True at the end of the member."""

    @property
    def unused_data(self) -> bytes:
        """What stands after the member's end."""


class Gunzip:
    """zlib's decompressor as a `Decompressor`."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=31)

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """At most max_length bytes; what was given and not used is kept for the next call."""
        return self._stream.decompress(self._stream.unconsumed_tail + data, max_length)

    @property
    def needs_input(self) -> bool:
        """True when nothing more comes out without more going in."""
        return not self._stream.unconsumed_tail

    @property
    def eof(self) -> bool:
        """True at the end of one member."""
        return self._stream.eof

    @property
    def unused_data(self) -> bytes:
        """What stands after the member's end."""
        return self._stream.unused_data


# A late import each: an idle daemon carries none of these modules.
def _bunzip() -> Decompressor:
    import bz2

    return bz2.BZ2Decompressor()


def _unxz() -> Decompressor:
    import lzma

    # A hostile header may ask for gigabytes of dictionary.
    return lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=96 * 1024 * 1024)


def _unzstd() -> Decompressor:
    if _python_has_zstd():
        theirs = importlib.import_module("compression.zstd")
        options = {theirs.DecompressionParameter.window_log_max: ours.WINDOW_LOG}
        made: Decompressor = theirs.ZstdDecompressor(options=options)
        return made
    library = ours.library()
    if library is None:
        raise Unavailable("zstd-compressed content needs libzstd.so.1 on the host, or Python 3.14 or later")
    return ours.Unzstd(library)


# Name → magic number and what makes a decompressor.
FORMATS: dict[str, tuple[bytes, Callable[[], Decompressor]]] = {
    "gzip": (b"\x1f\x8b\x08", Gunzip),
    "bzip2": (b"BZh", _bunzip),
    "xz": (b"\xfd7zXZ\x00", _unxz),
    "zstd": (b"\x28\xb5\x2f\xfd", _unzstd),
}
# A zstd stream may begin with a frame to be skipped: sixteen magic numbers (RFC 8878, 3.1.2).
_SKIPPABLE = tuple(bytes((number,)) + b"\x2a\x4d\x18" for number in range(0x50, 0x60))


def _python_has_zstd() -> bool:
    # find_spec of a dotted name imports the parent, so the parent is asked for first.
    return importlib.util.find_spec("compression") is not None and (
        importlib.util.find_spec("compression.zstd") is not None
    )


def detect(head: bytes) -> str:
    """The name in FORMATS whose magic number `head` starts with, or empty for none of them."""
    if head.startswith(_SKIPPABLE):
        return "zstd"
    return next((name for name, (magic, _) in FORMATS.items() if head.startswith(magic)), "")


class Peeked:
    """A source whose first bytes were looked at and are still to be read; `form` is the name in FORMATS, or empty."""

    def __init__(self, source: Source):
        self._source = source
        self._head = _read_up_to(source, _HEAD)
        self.form = detect(self._head)

    def read(self, count: int) -> bytes:
        """Up to count bytes, none at the end."""
        if self._head:
            data, self._head = self._head[:count], self._head[count:]
            return data
        return self._source.read(count)


class Unpacked(io.RawIOBase):
    """The unpacked bytes of a stream in any of FORMATS, or of a plain one, as they are read.

    Members that follow one another are one stream, as for `gzip -d`.
    `form` is the name of the compression, empty for none. Raises Invalid for damage.
    """

    def __init__(self, source: Source):
        self._source = Peeked(source)
        self.form = self._source.form
        # Bytes of the next member that came along with the last one's.
        self._rest = b""
        self._in = self._out = 0
        self._member = FORMATS[self.form][1]() if self.form else None

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Buffer) -> int:
        """Fill the buffer as far as bytes come at once; 0 is the end, and the end is where the last member ends."""
        view = memoryview(buffer)
        return self._plain(view) if self._member is None else self._unpack(self._member, view)

    def _plain(self, buffer: memoryview) -> int:
        data = self._source.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _unpack(self, member: Decompressor, buffer: memoryview) -> int:
        while True:
            if member.eof:
                following = self._next_member(member)
                if following is None:
                    return 0
                self._member = member = following
            given = self._input() if member.needs_input else b""
            if member.needs_input and not given:
                raise Invalid("unexpected EOF")
            data = self._decompress(member, given, len(buffer))
            if data:
                self._out += len(data)
                if self._out > FAIR_BYTES and self._out > FAIR_RATIO * self._in:
                    raise Invalid(f"{self.form} stream: {self._in} bytes unpack to over {FAIR_RATIO} times as many")
                buffer[: len(data)] = data
                return len(data)

    def _decompress(self, member: Decompressor, given: bytes, most: int) -> bytes:
        try:
            return member.decompress(given, most)
        except (zlib.error, OSError, EOFError, ValueError) as error:
            raise Invalid(f"damaged {self.form} stream: {error}") from error
        except Exception as error:
            # lzma and zstd have error classes of their own; naming them here would import them.
            if type(error).__name__ not in ("LZMAError", "ZstdError"):
                raise
            raise Invalid(f"damaged {self.form} stream: {error}") from error

    def _input(self) -> bytes:
        rest, self._rest = self._rest, b""
        if rest:
            return rest
        data = self._source.read(_INPUT)
        self._in += len(data)
        return data

    def _next_member(self, ended: Decompressor) -> Decompressor | None:
        """Start on what follows a member; zeros that pad the end of a gzip file are no member (gzip(1))."""
        rest = ended.unused_data or self._input()
        while rest and not rest.strip(b"\0"):
            rest = self._input()
        if not rest:
            return None
        member, self._rest = FORMATS[self.form][1](), rest
        return member


def _read_up_to(source: Source, count: int) -> bytes:
    """count bytes, or fewer at the stream's end: a socket may give them one by one."""
    head = b""
    while len(head) < count:
        more = source.read(count - len(head))
        if not more:
            break
        head += more
    return head
