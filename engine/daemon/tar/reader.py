"""Parsing tar streams into entries: ustar, PAX and GNU headers, long names, extended attributes and sparse files.

Runs in the daemon, on the thread that unpacks. It only parses bytes into entries and opens no file. What a header asks
for is bounded before memory is spent on it. Formats: POSIX pax(1); GNU tar's manual, "Basic Tar Format".

Python's `tarfile` is not used. It was measured on a Debian of 204 MB in 6,768 members (Python 3.11): listing takes it
0.17 s against 0.10 s here. Unpacking takes it 0.3 s of its own against 0.2 s here, and 0.55 s with the filter that
keeps members inside the target; the kernel's time for the files is the same for both. `tarfile` keeps an object for
each member while the archive is open, reads a header of any size into memory, makes files by path instead of beneath a
descriptor, does not know extended attributes, and costs an idle daemon 0.7 MB.
"""

import io
import struct
from collections.abc import Callable, Iterator

from engine.daemon.streams import Source
from engine.dataclass import dataclass, field
from engine.errors import Invalid

BLOCK = 512
# A PAX or GNU long-name header: names are at most 4 KiB, attributes 64 KiB each; a megabyte holds many of both.
_LONGEST_EXTENSION = 1 << 20
_MOST_FRAGMENTS = 1 << 20
# Bytes other than zeros that are allowed after an archive's end; with more the stream is no archive.
_MOST_TRAILING = 64 << 20
_PIECE = 256 * 1024
_LARGEST = 1 << 62

# name, mode, uid, gid, size, mtime, checksum, type, link, magic+version, user, group, major, minor, prefix
_HEADER = struct.Struct("100s8s8s8s12s12s8sc100s8s32s32s8s8s155s12x")
_ZEROS = bytes(BLOCK)
_USTAR = b"ustar\x0000"
_GNU = b"ustar  \x00"

FILE, LINK, SYMLINK, CHARACTER, BLOCK_DEVICE, DIRECTORY, FIFO = b"0", b"1", b"2", b"3", b"4", b"5", b"6"
_KINDS = {b"\0": FILE, b"7": FILE, b"S": FILE}
_KNOWN = {FILE, LINK, SYMLINK, CHARACTER, BLOCK_DEVICE, DIRECTORY, FIFO}
# No data follows the header of these kinds, whatever size it says (Go's archive/tar and GNU tar read them so too).
_WITHOUT_DATA = {LINK, SYMLINK, CHARACTER, BLOCK_DEVICE, DIRECTORY, FIFO}
_PAX_ATTRIBUTE = "SCHILY.xattr."


@dataclass(slots=True)
class Entry:
    """One member of an archive.

    kind: one of FILE, LINK, ... above; size: bytes of contents, including the holes of a sparse file
    stored: bytes of contents in the archive; mtime_ns: since the epoch; attributes: extended attributes, name → value
    fragments: of a sparse file, (offset, length) of each stored part, in order; None for a file without holes
    """

    name: str
    kind: bytes
    mode: int
    uid: int
    gid: int
    size: int
    mtime_ns: int
    link: str
    major: int
    minor: int
    stored: int
    attributes: dict[str, bytes] = field(default_factory=dict)
    fragments: list[tuple[int, int]] | None = None


class NotTar(Invalid):
    """The bytes where a header is expected are none, or its fields cannot be."""


class UnknownKind(Invalid):
    """A member is of a kind that no file is, such as a volume's label."""


class TarReader:
    """The entries of a tar stream, one after another.

    stream: buffered, uncompressed bytes (read(n) gives n bytes or what is left). Raises Invalid for anything that is no
        tar.
    before: called before the header of a member is read from the stream; it may take whole members out of the stream
    Iterate over it. After an entry call `chunks` or `read` at most once, or nothing to skip the contents.
    """

    def __init__(self, stream: Source, before: Callable[[], None] = lambda: None):
        self._stream = stream
        self._before = before
        # Bytes that are left of the present entry's data, and bytes of padding after that.
        self._left = 0
        self._padding = 0

    def __iter__(self) -> Iterator[Entry]:
        while True:
            entry = self._next()
            if entry is None:
                return
            yield entry

    def chunks(self, most: int = 256 * 1024) -> Iterator[bytes]:
        """The stored bytes of the present entry, in pieces of at most `most` bytes."""
        while self._left:
            data = self._stream.read(min(most, self._left))
            if not data:
                raise Invalid("unexpected EOF")
            self._left -= len(data)
            yield data

    def read(self, limit: int) -> bytes:
        """All the stored bytes of the present entry; raises Invalid when there are more than `limit`."""
        if self._left > limit:
            raise Invalid(f"archive member of {self._left} bytes where {limit} are allowed")
        return b"".join(self.chunks())

    def _skip(self) -> None:
        for _ in self.chunks():
            pass
        # The padding of the last member may be missing: so ends an archive into which the docker CLI put a Dockerfile.
        self._stream.read(self._padding)
        self._padding = 0

    def _exactly(self, count: int) -> bytes:
        data = self._stream.read(count)
        if len(data) != count:
            raise Invalid("unexpected EOF")
        return data

    def _next(self) -> Entry | None:
        pax: dict[str, bytes] = {}
        long_name = long_link = None
        self._skip()
        self._before()
        while True:
            block = self._stream.read(BLOCK)
            # A stream may end without the two blocks of zeros: Go's reader accepts that, and images rely on it.
            if not block or block == _ZEROS:
                return None
            if len(block) != BLOCK:
                raise NotTar("unexpected EOF")
            entry, magic = _parse(block)
            if entry.kind == b"x":
                pax = _pax_records(self._extension(entry))
            elif entry.kind == b"g":
                # A header for the whole archive, with a comment at most; dockerd ignores it as well.
                self._extension(entry)
            elif entry.kind == b"L":
                long_name = self._extension(entry).rstrip(b"\0")
            elif entry.kind == b"K":
                long_link = self._extension(entry).rstrip(b"\0")
            else:
                break
            self._skip()
        if long_name is not None:
            entry.name = _text(long_name)
        if long_link is not None:
            entry.link = _text(long_link)
        self._settle(entry, block, magic, pax)
        return entry

    def _extension(self, entry: Entry) -> bytes:
        if entry.size > _LONGEST_EXTENSION:
            raise Invalid("archive/tar: header field too long")
        self._open(entry)
        return b"".join(self.chunks())

    def _open(self, entry: Entry) -> None:
        self._left = entry.stored
        self._padding = -entry.stored % BLOCK

    def _settle(self, entry: Entry, block: bytes, magic: bytes, pax: dict[str, bytes]) -> None:
        """Apply the PAX records, find the kind and the sparse map, and open the data."""
        for key, value in pax.items():
            _apply(entry, key, value)
        sparse = entry.kind == b"S"
        entry.kind = _KINDS.get(entry.kind, entry.kind)
        if entry.kind not in _KNOWN:
            raise UnknownKind(f"unhandled tar header type {entry.kind[0]}")
        if entry.kind == FILE and entry.name.endswith("/"):
            entry.kind = DIRECTORY
        if entry.kind in _WITHOUT_DATA:
            entry.size = entry.stored = 0
        self._open(entry)
        if sparse and magic == _GNU:
            self._old_sparse(entry, block)
        elif entry.kind == FILE and pax.get("GNU.sparse.major") == b"1":
            self._pax_sparse(entry, pax)
        elif entry.kind == FILE and "GNU.sparse.map" in pax:
            numbers = [_decimal(part) for part in pax["GNU.sparse.map"].split(b",")]
            _set_fragments(entry, _decimal(pax.get("GNU.sparse.size", b"")), numbers, entry.stored)
        # No system call takes a NUL byte; Python would raise a ValueError, which is no EngineError.
        if any("\0" in text for text in (entry.name, entry.link, *entry.attributes)):
            raise NotTar("archive/tar: invalid tar header")

    def _old_sparse(self, entry: Entry, block: bytes) -> None:
        """Read the sparse map of GNU's old format: four places in the header, and 21 in each further block."""
        real_size = _number(block[483:495])
        numbers = _old_numbers(block[386:482])
        more = block[482]
        while more:
            extension = self._exactly(BLOCK)
            numbers += _old_numbers(extension[:504])
            more = extension[504]
            if len(numbers) > 2 * _MOST_FRAGMENTS:
                raise Invalid("archive/tar: header field too long")
        _set_fragments(entry, real_size, numbers, entry.stored)

    def _pax_sparse(self, entry: Entry, pax: dict[str, bytes]) -> None:
        """Read the sparse map of PAX format 1.0: decimal lines at the start of the data, padded to a block."""
        if "GNU.sparse.name" in pax:
            entry.name = _text(pax["GNU.sparse.name"])
        lines: list[bytes] = []
        rest, wanted, taken = b"", 1, 0
        while len(lines) < wanted:
            if self._left < BLOCK or wanted > 2 * _MOST_FRAGMENTS + 1:
                raise NotTar("archive/tar: invalid tar header")
            block = self._exactly(BLOCK)
            self._left -= BLOCK
            taken += BLOCK
            *whole, rest = (rest + block).split(b"\n")
            lines += whole
            if lines:
                wanted = 1 + 2 * _decimal(lines[0])
        numbers = [_decimal(line) for line in lines[1:wanted]]
        _set_fragments(entry, _decimal(pax.get("GNU.sparse.realsize", b"")), numbers, entry.stored - taken)


def _parse(block: bytes) -> tuple[Entry, bytes]:
    """The entry that one header block describes by itself, its kind as in the header; and the magic."""
    name, mode, uid, gid, size, mtime, checksum, kind, link, magic, _, _, major, minor, prefix = _HEADER.unpack(block)
    # The checksum is computed with blanks in the place of the checksum itself.
    if sum(block) - sum(checksum) + 8 * 32 != _number(checksum):
        raise NotTar("archive/tar: invalid tar header")
    name = name.partition(b"\0")[0]
    if magic == _USTAR and prefix[0]:
        name = prefix.partition(b"\0")[0] + b"/" + name
    length = _number(size)
    if not 0 <= length < _LARGEST:
        raise NotTar("archive/tar: invalid tar header")
    device = kind in (CHARACTER, BLOCK_DEVICE)
    entry = Entry(
        name=_text(name),
        kind=kind,
        mode=_number(mode) & 0o7777,
        uid=_number(uid),
        gid=_number(gid),
        size=length,
        mtime_ns=_number(mtime) * 1_000_000_000,
        link=_text(link.partition(b"\0")[0]),
        major=_number(major) if device else 0,
        minor=_number(minor) if device else 0,
        stored=length,
    )
    return entry, magic


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


def _number(value: bytes) -> int:
    """The number in a header field: octal digits, or base 256 when the first bit is set. Raises Invalid."""
    if value[0] & 0x80:
        negative = value[0] & 0x40
        number = int.from_bytes(bytes((value[0] & 0x7F,)) + value[1:], "big")
        return number - (1 << (8 * len(value) - 1)) if negative else number
    digits = value.partition(b"\0")[0].strip(b" ")
    # Some writers leave the field empty, or fill it with blanks or a NUL.
    if not digits:
        return 0
    if digits.strip(b"01234567"):
        raise NotTar("archive/tar: invalid tar header")
    return int(digits, 8)


def _decimal(value: bytes) -> int:
    if not value.isdigit() or len(value) > 19 or int(value) >= _LARGEST:
        raise NotTar("archive/tar: invalid tar header")
    return int(value)


def _pax_records(data: bytes) -> dict[str, bytes]:
    """key → value of `LENGTH KEY=VALUE\\n` records; a repeated sparse offset or size becomes a comma-joined map."""
    records: dict[str, bytes] = {}
    pieces: list[bytes] = []
    place = 0
    while place < len(data) and data[place : place + 1] != b"\0":
        blank = data.find(b" ", place, place + 12)
        end = place + (_decimal(data[place:blank]) if blank > place else 0)
        # Without the first comparisons a record of length 0 would be read for ever.
        if not place < blank < end <= len(data) or data[end - 1 : end] != b"\n":
            raise NotTar("archive/tar: invalid tar header")
        key, equals, value = data[blank + 1 : end - 1].partition(b"=")
        if not equals:
            raise NotTar("archive/tar: invalid tar header")
        if key in (b"GNU.sparse.offset", b"GNU.sparse.numbytes"):
            pieces.append(value)
        else:
            records[_text(key)] = value
        place = end
    if pieces:
        records["GNU.sparse.map"] = b",".join(pieces)
    return records


def _apply(entry: Entry, key: str, value: bytes) -> None:
    if key.startswith(_PAX_ATTRIBUTE):
        entry.attributes[key.removeprefix(_PAX_ATTRIBUTE)] = value
        return
    setter = _PAX_FIELDS.get(key)
    # An empty value means that the header's own value counts (pax(1)).
    if setter and value:
        setter(entry, value)


def _set_size(entry: Entry, value: bytes) -> None:
    entry.size = entry.stored = _decimal(value)


def _set_mtime(entry: Entry, value: bytes) -> None:
    seconds, _, fraction = value.partition(b".")
    if not seconds.lstrip(b"-").isdigit() or len(seconds) > 15 or (fraction and not fraction.isdigit()):
        raise NotTar("archive/tar: invalid tar header")
    nanoseconds = int((fraction[:9] or b"0").ljust(9, b"0"))
    # The fraction has the sign of the seconds: -1.5 is a second and a half before the epoch.
    sign = -1 if seconds.startswith(b"-") else 1
    entry.mtime_ns = int(seconds) * 1_000_000_000 + sign * nanoseconds


def _set_text(name: str) -> Callable[[Entry, bytes], None]:
    return lambda entry, value: setattr(entry, name, _text(value))


def _set_number(name: str) -> Callable[[Entry, bytes], None]:
    return lambda entry, value: setattr(entry, name, _decimal(value))


_PAX_FIELDS = {
    "path": _set_text("name"),
    "linkpath": _set_text("link"),
    "size": _set_size,
    "uid": _set_number("uid"),
    "gid": _set_number("gid"),
    "mtime": _set_mtime,
    "GNU.sparse.name": _set_text("name"),
}


def _old_numbers(places: bytes) -> list[int]:
    """Offset and length, alternating, of the used places of an old GNU sparse map; a place has 24 bytes."""
    numbers = []
    for start in range(0, len(places), 24):
        if not places[start]:
            break
        numbers += [_number(places[start : start + 12]), _number(places[start + 12 : start + 24])]
    return numbers


def _set_fragments(entry: Entry, real_size: int, numbers: list[int], stored: int) -> None:
    """Check a sparse map (in order, inside the file, as many bytes as are stored) and put it into the entry.

    Raises Invalid.
    """
    fragments = list(zip(numbers[::2], numbers[1::2], strict=False))
    place = 0
    for offset, length in fragments:
        if offset < place or length < 0 or offset + length > real_size:
            raise NotTar("archive/tar: invalid tar header")
        place = offset + length
    if len(numbers) % 2 or real_size >= _LARGEST or sum(length for _, length in fragments) != stored:
        raise NotTar("archive/tar: invalid tar header")
    entry.size, entry.stored, entry.fragments = real_size, stored, fragments


def read_rest(stream: io.BufferedIOBase, what: str) -> None:
    """Read what follows an archive: a digest is of the whole stream, and a compressed one is verified only at its end.

    Zeros are padding, of a record of tar's or of the disk that the archive lay on. Raises Invalid, which begins with
    `what`, for much of anything else.
    """
    left = _MOST_TRAILING
    while data := stream.read1(_PIECE):
        if data != bytes(len(data)):
            left -= len(data)
        if left < 0:
            raise Invalid(f"{what} has data after the end of its archive")
