"""Detecting the compression format of a stream (gzip, bzip2, xz, zstd) and decompressing the stream while it is read.

Runs in the daemon, on the thread that reads. It never holds more than one window of input and output in memory. So a
decompression bomb takes time but not memory, and the caller that counts the bytes stops it.
"""

import importlib
import importlib.util
import io
import zlib
from collections.abc import Callable
from types import ModuleType

from engine.annotating import Protocol
from engine.daemon.streams import Buffer, Source
from engine.errors import Invalid, Unavailable
from engine.kernel import reasons
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded by the first layer in zstd
    from engine.daemon.tar import zstd as ours
else:
    ours = late("engine.daemon.tar.zstd")

_INPUT = 128 * 1024
# Long enough for the longest magic number.
_HEAD = 6
# The limit of decompressed bytes: any stream may have FAIR_BYTES, and beyond that FAIR_RATIO times its compressed
# bytes. Honest files of zeros (a disk image, a preallocated database) compress a thousand to one. A program's files
# hardly compress ten to one.
FAIR_BYTES = 10 << 30
FAIR_RATIO = 200


class Decompressor(Protocol):
    """A decompressor of one member of a stream, with the interface of those in bz2, lzma and zstd."""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """At most max_length decompressed bytes; input that is not used is kept for the next call."""

    @property
    def needs_input(self) -> bool:
        """True when no more output comes without more input."""

    @property
    def eof(self) -> bool:
        """True at the end of the member."""

    @property
    def unused_data(self) -> bytes:
        """The input after the member's end."""


class Gunzip:
    """zlib's decompressor for gzip, with the interface of `Decompressor`."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=31)

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """At most max_length decompressed bytes; input that is not used is kept for the next call."""
        return self._stream.decompress(self._stream.unconsumed_tail + data, max_length)

    @property
    def needs_input(self) -> bool:
        """True when no more output comes without more input."""
        return not self._stream.unconsumed_tail

    @property
    def eof(self) -> bool:
        """True at the end of the member."""
        return self._stream.eof

    @property
    def unused_data(self) -> bytes:
        """The input after the member's end."""
        return self._stream.unused_data


# Each of these functions imports its module late, so that an idle daemon has none of them in memory.
def _bunzip() -> Decompressor:
    made: Decompressor = _module("bz2").BZ2Decompressor()
    return made


def _unxz() -> Decompressor:
    lzma = _module("lzma")
    # The limit is for hostile headers, which may ask for gigabytes of dictionary.
    made: Decompressor = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=96 * 1024 * 1024)
    return made


def _module(name: str) -> ModuleType:
    """A module of the standard library that a small host's Python may lack; Unavailable where it does."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise Unavailable(f"content that is compressed so needs the module {name}, which this Python lacks") from error


def _unzstd() -> Decompressor:
    if python_has_zstd():
        theirs = importlib.import_module("compression.zstd")
        options = {theirs.DecompressionParameter.window_log_max: ours.WINDOW_LOG}
        made: Decompressor = theirs.ZstdDecompressor(options=options)
        return made
    library = ours.library()
    if library is None:
        raise Unavailable("zstd-compressed content needs libzstd.so.1 on the host, or Python 3.14 or later")
    return ours.Unzstd(library)


# Name of a format → its magic number and the function that makes a decompressor.
FORMATS: dict[str, tuple[bytes, Callable[[], Decompressor]]] = {
    "gzip": (b"\x1f\x8b\x08", Gunzip),
    "bzip2": (b"BZh", _bunzip),
    "xz": (b"\xfd7zXZ\x00", _unxz),
    "zstd": (b"\x28\xb5\x2f\xfd", _unzstd),
}
# A zstd stream may begin with a skippable frame, which has one of sixteen magic numbers (RFC 8878, 3.1.2).
_SKIPPABLE = tuple(bytes((number,)) + b"\x2a\x4d\x18" for number in range(0x50, 0x60))


def python_has_zstd() -> bool:
    """Whether this Python has zstd itself (3.14 and later)."""
    # find_spec of a dotted name imports the parent, and raises where there is none, so the parent is looked up first.
    return importlib.util.find_spec("compression") is not None and (
        importlib.util.find_spec("compression.zstd") is not None
    )


def detect(head: bytes) -> str:
    """The name in FORMATS of the format whose magic number `head` starts with, or empty for none of them."""
    if head.startswith(_SKIPPABLE):
        return "zstd"
    return next((name for name, (magic, _) in FORMATS.items() if head.startswith(magic)), "")


class Peeked:
    """A source with its compression detected from its first bytes, which `read` still returns.

    form: name of the format in FORMATS, empty for none
    """

    def __init__(self, source: Source):
        self._source = source
        self._into: Callable[[Buffer], int] | None = getattr(source, "readinto", None)
        self._head = _read_up_to(source, _HEAD)
        self.form = detect(self._head)

    def read(self, count: int) -> bytes:
        """Up to count bytes, as they stand in the source; none at the end."""
        if self._head:
            data, self._head = self._head[:count], self._head[count:]
            return data
        return self._source.read(count)

    def readinto(self, buffer: Buffer) -> int:
        """Fill the buffer with bytes that come at once, as they stand in the source; returns their number."""
        if self._into is not None and not self._head:
            return self._into(buffer)
        view = memoryview(buffer)
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)


class Unpacked(io.RawIOBase):
    """A raw stream of the decompressed bytes of a source in any of FORMATS, or of an uncompressed one.

    Several members after each other are one stream, as for `gzip -d`.
    form: name of the format in FORMATS, empty for none. Reading raises Invalid for damage.
    """

    def __init__(self, source: Source):
        self._source = Peeked(source)
        self.form = self._source.form
        # Bytes of the next member that were read together with the end of the last one.
        self._rest = b""
        self._in = self._out = 0
        self._member = FORMATS[self.form][1]() if self.form else None

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Buffer) -> int:
        """Fill the buffer with bytes that come at once; returns their number, 0 after the end of the last member."""
        if self._member is None:
            return self._source.readinto(buffer)
        return self._unpack(self._member, memoryview(buffer))

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
            raise Invalid(f"damaged {self.form} stream: {reasons.whole(error)}") from error
        except Exception as error:
            # lzma and zstd have error classes of their own. An except clause for those would import the modules.
            if type(error).__name__ not in ("LZMAError", "ZstdError"):
                raise
            raise Invalid(f"damaged {self.form} stream: {reasons.whole(error)}") from error

    def _input(self) -> bytes:
        rest, self._rest = self._rest, b""
        if rest:
            return rest
        data = self._source.read(_INPUT)
        self._in += len(data)
        return data

    def _next_member(self, ended: Decompressor) -> Decompressor | None:
        """Begin the member that follows an ended one; None at the stream's end. Zeros may pad a gzip file (gzip(1))."""
        rest = ended.unused_data or self._input()
        while rest and not rest.strip(b"\0"):
            rest = self._input()
        if not rest:
            return None
        member, self._rest = FORMATS[self.form][1](), rest
        return member


def _read_up_to(source: Source, count: int) -> bytes:
    """count bytes, or fewer at the stream's end. It reads until then, because a socket may give them one by one."""
    head = b""
    while len(head) < count:
        more = source.read(count - len(head))
        if not more:
            break
        head += more
    return head
