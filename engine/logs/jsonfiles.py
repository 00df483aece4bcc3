"""The files of a log of JSON lines (driver `json-file`): which there are, in which order, and where a reading begins.

Used by the daemon's threads and by a monitor; it writes no file. It finds what is new in a log by the files' inodes: a
rotation renames files, and a compression replaces one and names the inode in the new one. A place in a file is always
the beginning of a line.
"""

import binascii
import itertools
import os
from collections.abc import Callable, Iterable, Iterator

from engine.dataclass import dataclass
from engine.late import TYPE_CHECKING, late
from engine.logs import order
from engine.logs.jsonlines import LONGEST, parse

if TYPE_CHECKING:  # only a log whose options ask for it is compressed
    from engine.logs import compress
else:
    compress = late("engine.logs.compress")

_BLOCK = 1 << 16
_PROBE = 1 << 12  # bytes that most often hold two lines
_WHOLE = 1 << 62  # no file is so large
_TRIES = 5


@dataclass(slots=True)
class File:
    """One open file of a log, read from `offset` on. number: 0 for the one being written; offset: of a compressed file,
    in what was packed into it; end: what is behind it is not wanted
    """

    fd: int
    inode: int
    number: int
    compressed: bool
    offset: int = 0
    end: int = _WHOLE

    @property
    def in_order(self) -> bool:
        """Whether it is known that no time in it steps back."""
        return order.in_order(self.fd)

    def pass_over(self) -> None:
        """Want none of what it has at this moment."""
        self.offset = _WHOLE if self.compressed else os.fstat(self.fd).st_size

    def was(self, inode: int) -> bool:
        """Whether it had this inode when it was written; another program's compression does not tell."""
        return inode != 0 and inode == ((compress.origin(self.fd) or (0,))[0] if self.compressed else self.inode)

    def is_made_of(self, plain: "File", *, unnamed: bool = False) -> bool:
        """Whether a compression has made it of another file, which is still open. unnamed: also one that does not name
        what it was made of, because another program has compressed it; then all that is in it is compared.
        """
        if plain.compressed or not self.compressed:
            return False
        origin, found = compress.origin(self.fd), os.fstat(plain.fd)
        if origin is None:
            return unnamed and hashed(self) == hashed(plain)
        return origin == (found.st_ino, found.st_mtime_ns)


Read = Callable[[File], None]
"""Reads what a file has from its offset on, and moves that."""
_Enough = Callable[[File], bool]
"""Whether no file that is older than this one is wanted. It is asked of each file once, the newest first."""


class Log:
    """The files of a log that are not read to their end yet, oldest first."""

    def __init__(self, directory: str, name: str) -> None:
        self.directory = directory
        self._name = name
        self._files: list[File] = []
        self._ends = False

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, *failure: object) -> None:
        self._close(self._files)

    @property
    def path(self) -> str:
        """The file that is being written."""
        return os.path.join(self.directory, self._name)

    @property
    def newest(self) -> File | None:
        """The file that is being written, as far as is known; None before there is a log."""
        return self._files[-1] if self._files else None

    @property
    def position(self) -> tuple[int, int]:
        """(inode, offset) of what was read; (0, 0) before there is a log."""
        return (self._files[-1].inode, self._files[-1].offset) if self._files else (0, 0)

    def begin(self, tail: int | None, first_ns: int = 0) -> bool:
        """Open the log, at its last `tail` lines or its beginning; False when there is no log yet.

        first_ns: older lines are not wanted, and are passed over where that is a seek
        """
        self._files = self._open_all(lambda: _begin(tail, first_ns))
        if self._files and first_ns > 0 and self._files[0].in_order:
            _seek_time(self._files[0], first_ns)
        return bool(self._files)

    def begin_after(self, inode: int, offset: int) -> None:
        """Open the log just after what was read of it."""

        def found(file: File) -> bool:
            return file.was(inode)

        self._files = self._open_all(lambda: found)
        if self._files and found(self._files[0]):
            self._files[0].offset = offset

    def end(self, inode: int, offset: int) -> None:
        """Of what is opened, want nothing that came behind this place; all of it did where its file is gone."""
        self._ends = True
        # The newest: of a file that was compressed and removed, a later one may have had the inode.
        count = max((place for place, file in enumerate(self._files, 1) if file.was(inode)), default=0)
        self._close(self._files[count:])
        del self._files[count:]
        if count:
            self._files[-1].end = offset

    def read_new(self, read: Read) -> None:
        """Have all read that is in the log and was not read yet."""
        while self._files:
            file = self._files[0]
            self._read(file, read)
            if len(self._files) == 1 and (self._ends or not self._go_on(file)):
                break
            if self._files[0] is file and len(self._files) > 1:
                # What was written between the last read and the rotation.
                if not file.compressed:
                    self._read(file, read)
                self._drop(1)

    @staticmethod
    def _read(file: File, read: Read) -> None:
        ends = file.end < _WHOLE
        if not file.compressed and os.fstat(file.fd).st_size < (file.end if ends else file.offset):
            if ends:
                return
            file.offset = 0  # the file was cut: by a rotation of a log with a single file, or by hand
        read(file)

    def _go_on(self, file: File) -> bool:
        """Open the files that are newer than the last one; False when the last one is still the one being written."""
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return False  # between two renames of a rotation, or removed
        if found.st_ino == file.inode:
            return False

        def same(each: File) -> bool:
            return each.inode == file.inode or each.is_made_of(file, unnamed=True)

        every = self._open_all(lambda: same)
        # Where it was removed meanwhile, all that are left are newer.
        known = 1 if every and same(every[0]) else 0
        newer = every[known:]
        self._close(every[:known])
        self._files += newer
        return bool(newer)

    def _open_all(self, search: Callable[[], _Enough]) -> list[File]:
        """Open every file that is wanted, oldest first, while no rotation renamed one (or so at the last of several
        tries). search: begins a try; a log may have hundreds of files, and most often its end is wanted
        """
        for _ in range(_TRIES):
            before = self._identity()
            found = self._open_each(search())
            if self._identity() == before:
                return found
            self._close(found)
        return self._open_each(search())

    def _identity(self) -> tuple[int, int]:
        def inode(name: str) -> int:
            try:
                return os.stat(os.path.join(self.directory, name)).st_ino
            except FileNotFoundError:
                return 0

        return inode(self._name), inode(f"{self._name}.1")

    def _open_each(self, enough: _Enough) -> list[File]:
        # The newest first: a rotation in between then shows a file twice, and hides none. A rotation that has not ended
        # leaves one number without a file, so that only two such numbers in a row are behind the oldest file.
        found: dict[int, File] = {}
        absent = 0
        for number in itertools.count():
            suffixes = ("",) if number == 0 else (f".{number}", f".{number}.gz")
            for suffix in suffixes:
                try:
                    fd = os.open(os.path.join(self.directory, self._name + suffix), os.O_RDONLY | os.O_CLOEXEC)
                except FileNotFoundError:
                    continue
                inode = os.fstat(fd).st_ino
                file = File(fd, inode, number, suffix.endswith(".gz"))
                if inode in found or (file.compressed and any(map(file.is_made_of, found.values()))):
                    os.close(fd)
                else:
                    found[inode] = file
                    if enough(file):
                        return list(reversed(found.values()))
                absent = 0
                break
            else:
                absent += 1
                if absent > 1:
                    break
        return list(reversed(found.values()))

    def _drop(self, count: int) -> None:
        self._close(self._files[:count])
        del self._files[:count]

    @staticmethod
    def _close(files: Iterable[File]) -> None:
        for file in files:
            os.close(file.fd)


def _begin(tail: int | None, first_ns: int) -> _Enough:
    """A search for the file in which the last `tail` lines begin, of both streams together, as dockerd counts them, or
    those that are not older than `first_ns`, whichever is newer. It moves each file to the first line that is wanted.
    """
    left = tail

    def enough(file: File) -> bool:
        nonlocal left
        if left is not None:
            file.offset, left = _start_of_tail(file, left)
            if left == 0:
                return True
        mark = order.read(file.fd) if first_ns > 0 else None
        return mark is not None and mark & order.LATEST < first_ns

    return enough


def _seek_time(file: File, first_ns: int) -> None:
    """Pass over the lines of a plain file that are all older, by a binary search: no time in it steps back."""
    if file.compressed:
        return
    low, high = file.offset, os.fstat(file.fd).st_size
    while high - low > _BLOCK:
        middle = (low + high) // 2
        found = _first_time(file, middle, high)
        if found is not None and found[1] < first_ns:
            low = found[0]
        else:
            high = middle
    file.offset = low


def hashed(file: File) -> tuple[int, int]:
    """The size and the checksum of all that is in a file."""
    size = check = 0
    for block in blocks(file, 0):
        size, check = size + len(block), binascii.crc32(block, check)
    return size, check


def _first_time(file: File, start: int, end: int) -> tuple[int, int] | None:
    """(offset, time) of the first line behind `start` whose time is that of its writing; None: there is none near."""
    size = _PROBE
    while True:
        found = _written(os.pread(file.fd, size, start))
        if found is not None:
            return start + found[0], found[1]
        if size >= 2 * LONGEST or start + size >= end:
            return None
        size *= 4


def _written(data: bytes) -> tuple[int, int] | None:
    """(place, time) of the first whole line, behind the first newline, whose time is that of its writing.

    The later pieces of a long line have the time of the first one. So a line counts whose stream is known to be at the
    beginning of a line.
    """
    whole: set[int] = set()
    place = data.find(b"\n") + 1
    while place and (newline := data.find(b"\n", place)) >= 0:
        message = parse(data[place:newline])
        if message is not None:
            if message.stream in whole:
                return place, message.time_ns
            if message.text.endswith(b"\n"):
                whole.add(message.stream)
        place = newline + 1
    return None


def blocks(file: File, offset: int) -> Iterator[bytes]:
    """The file's bytes from `offset` on; for a compressed file, its uncompressed bytes."""
    if not file.compressed:
        while block := os.pread(file.fd, min(_BLOCK, max(file.end - offset, 0)), offset):
            offset += len(block)
            yield block
        return
    place = 0
    for block in compress.unpacked(file.fd):
        start, place = place, place + len(block)
        if wanted := block[max(offset - start, 0) : max(file.end - start, 0)]:
            yield wanted


def whole_lines(file: File) -> Iterator[bytes]:
    """What the file has from its offset on, in blocks of whole lines; the offset moves behind each once it is used.

    A line longer than LONGEST is none that docker writes. It is passed over in pieces of that size.
    """
    rest = b""
    for block in blocks(file, file.offset):
        rest += block
        while (newline := rest.find(b"\n")) >= LONGEST or (newline < 0 and len(rest) >= LONGEST):
            file.offset, rest = file.offset + LONGEST, rest[LONGEST:]
        if newline >= 0:
            end = rest.rfind(b"\n") + 1
            yield rest[:end]
            file.offset, rest = file.offset + end, rest[end:]


def later(directory_fd: int, name: str, after: tuple[int, int]) -> list[tuple[int, bytes]]:
    """(stream, text) of every line after (inode, offset), of a log that is not being written at this moment."""
    found: list[tuple[int, bytes]] = []

    def read(file: File) -> None:
        for block in whole_lines(file):
            messages = (parse(line) for line in block[:-1].split(b"\n"))
            found.extend((message.stream, message.text) for message in messages if message is not None)

    with Log(f"/proc/self/fd/{directory_fd}", name) as log:
        log.begin_after(*after)
        log.read_new(read)
    return found


def _start_of_tail(file: File, tail: int) -> tuple[int, int]:
    """Where the last `tail` whole lines of a file begin, and how many lines are missing in it."""
    if file.compressed:
        count = sum(block.count(b"\n") for block in blocks(file, 0))
        return (_skip(file, count - tail), 0) if count > tail else (0, tail - count)
    end, first = os.fstat(file.fd).st_size, True
    while end > 0:
        start = max(end - _BLOCK, 0)
        block = os.pread(file.fd, end - start, start)
        if first:
            whole = block.rfind(b"\n")
            if whole < 0:
                end = start
                continue
            if tail == 0:
                return start + whole + 1, 0
            block, first = block[: whole + 1], False
            tail += 1  # the newline at the end of the last line begins no line
        count = block.count(b"\n")
        if count >= tail:
            place = len(block)
            for _ in range(tail):
                place = block.rindex(b"\n", 0, place)
            return start + place + 1, 0
        tail -= count
        end = start
    return 0, tail if first else tail - 1


def _skip(file: File, lines: int) -> int:
    """The offset just after the first `lines` lines."""
    offset = 0
    for block in blocks(file, 0):
        count = block.count(b"\n")
        if count >= lines:
            place = -1
            for _ in range(lines):
                place = block.index(b"\n", place + 1)
            return offset + place + 1
        lines -= count
        offset += len(block)
    return offset
