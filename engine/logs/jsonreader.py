"""Reads a log of JSON lines (driver `json-file`), also one that dockerd has written, and sends it to a client.

Run by a thread of the daemon, which it blocks until the client has everything or is gone; it holds no lock and writes
no file. It finds what is new in a log by the files' inodes: a rotation renames files, and a compression replaces one.
"""

import os
from collections.abc import Iterable, Iterator

from engine.dataclass import dataclass
from engine.logs import format
from engine.logs.following import follow
from engine.logs.jsonlines import Message, parse
from engine.logs.query import Query
from engine.logs.sink import GONE, Sink

_BLOCK = 1 << 16
_MOST_FILES = 10_000  # no log has more; a bound for a directory that was filled on purpose
_TRIES = 5


@dataclass(slots=True)
class _File:
    """One open file of a log, read from `offset` on. number: 0 for the one being written; rest: the beginning of a
    line.
    """

    fd: int
    inode: int
    number: int
    compressed: bool
    offset: int = 0
    rest: bytes = b""


def send(
    directory: str,
    name: str,
    sink_fd: int,
    query: Query,
    *,
    details: bool = False,
    chunked: bool = False,
    ended_fd: int | None = None,
    after: tuple[int, int] | None = None,
) -> tuple[int, int] | None:
    """Write the wanted lines to `sink_fd`; the (inode, offset) up to which they were read, None when the client left.

    details: each line's own attributes stand before it, and `query.prefix` is not used. after: not the whole log, but
        what comes after this (inode, offset). The other arguments are those of `engine.logs.reader.send`. Raises
        OSError for anything but a client that has left.
    """
    sink = Sink(sink_fd, chunked)
    dress = _Dress(query, details)
    try:
        with _Log(directory, name) as log:
            if ended_fd is None:
                if after is None:
                    log.begin(query.tail)
                else:
                    log.begin_after(*after)
                for message in log.new():
                    if not dress.put(sink, message):
                        break
            elif not _follow(log, dress, sink, sink_fd, query, ended_fd):
                return None
            sink.finish()
            return log.position
    except OSError as error:
        if error.errno in GONE:
            return None
        raise


def later(directory_fd: int, name: str, after: tuple[int, int]) -> Iterator[tuple[int, bytes]]:
    """(stream, text) of every line after (inode, offset), of a log that is not being written at this moment."""
    with _Log(f"/proc/self/fd/{directory_fd}", name) as log:
        log.begin_after(*after)
        for message in log.new():
            yield message.stream, message.text


def _follow(log: "_Log", dress: "_Dress", sink: Sink, sink_fd: int, query: Query, ended_fd: int) -> bool:
    begun = False

    def advance(_last: bool) -> bool:
        nonlocal begun
        if not begun:
            begun = log.begin(query.tail)
        return not all(dress.put(sink, message) for message in log.new())

    return follow(log.directory, advance, sink, sink_fd, query, ended_fd)


def details_of(attributes: dict[str, str] | None) -> bytes:
    """The attributes as docker shows them with `details`, and the space after them."""
    from urllib.parse import quote_plus  # only the daemon shows them, and it needs more memory than all of this

    pairs = (
        f"{quote_plus(name, safe='~')}={quote_plus(value, safe='~')}"
        for name, value in sorted((attributes or {}).items())
    )
    return ",".join(pairs).encode() + b" "


class _Dress:
    """Decides which messages go out, and what stands before each."""

    def __init__(self, query: Query, details: bool) -> None:
        self._streams = query.streams
        self._first, self._last = query.first_ns, query.last_ns
        self._timestamps, self._tty, self._details = query.timestamps, query.tty, details

    def put(self, sink: Sink, message: Message) -> bool:
        """Put the message if it is wanted; False when no later message can be wanted."""
        if message.time_ns > self._last:
            return False
        if message.stream in self._streams and message.time_ns >= self._first:
            text = message.text
            if self._details:
                text = details_of(message.attributes) + text
            if self._timestamps:
                text = format.stamp(message.time_ns) + text
            sink.put(text if self._tty else format.FRAME.pack(message.stream, len(text)) + text)
        return True


class _Log:
    """The files of a log that are not read to their end yet, oldest first."""

    def __init__(self, directory: str, name: str) -> None:
        self.directory = directory
        self._name = name
        self._files: list[_File] = []
        self._begun = False
        self._last_ns = 0

    def __enter__(self) -> "_Log":
        return self

    def __exit__(self, *failure: object) -> None:
        self._close(self._files)

    @property
    def position(self) -> tuple[int, int]:
        """(inode, offset) of what was read; (0, 0) before there is a log."""
        return (self._files[-1].inode, self._files[-1].offset - len(self._files[-1].rest)) if self._files else (0, 0)

    def begin(self, tail: int | None) -> bool:
        """Open the log, at its last `tail` lines or its beginning; False when there is no log yet."""
        self._files = self._open_all()
        self._begun = bool(self._files)
        if tail is not None and self._files:
            self._seek(tail)
        return self._begun

    def begin_after(self, inode: int, offset: int) -> None:
        """Open the log just after what was read of it."""
        self._files = self._open_all()
        for place, file in enumerate(self._files):
            if file.inode == inode and not file.compressed:
                self._close(self._files[:place])
                del self._files[:place]
                file.offset = offset
        self._begun = True

    def new(self) -> Iterator[Message]:
        """Every message that is in the log and was not read yet."""
        while self._files:
            file = self._files[0]
            yield from self._read(file)
            if len(self._files) == 1 and not self._go_on(file):
                return
            if self._files[0] is file and len(self._files) > 1:
                yield from self._read(file)  # what was written between the last read and the rotation
                self._close([self._files.pop(0)])

    def _go_on(self, file: _File) -> bool:
        """Open the files that are newer than the last one; False when the last one is still the one being written."""
        try:
            found = os.stat(os.path.join(self.directory, self._name))
        except FileNotFoundError:
            return False  # between two renames of a rotation, or removed
        if found.st_ino == file.inode:
            return False
        every = self._open_all()
        place = next((place for place, each in enumerate(every) if each.inode == file.inode), None)
        if place is None:
            # The last file was compressed or removed meanwhile. The newer files are those that begin after its last
            # message.
            place = (
                next((place for place, each in enumerate(every) if self._begins(each) >= self._last_ns), len(every)) - 1
            )
        newer = every[place + 1 :]
        self._close(every[: place + 1])
        self._files += newer
        return bool(newer)

    def _begins(self, file: _File) -> int:
        """The time of a file's first message; for the file being written, a time that is never too early."""
        if file.number == 0:
            return format.NEVER
        for block in _blocks(file, 0):
            message = parse(block.partition(b"\n")[0])
            return message.time_ns if message else 0
        return 0

    def _read(self, file: _File) -> Iterator[Message]:
        if not file.compressed and os.fstat(file.fd).st_size < file.offset:
            file.offset, file.rest = 0, b""  # the file was cut: by a rotation of a log with a single file, or by hand
        for block in _blocks(file, file.offset):
            file.offset += len(block)
            block = file.rest + block
            # One line at a time: a client that takes nothing then holds a block, and not an object for each of its
            # lines.
            start = 0
            while (end := block.find(b"\n", start)) >= 0:
                message = parse(block[start:end])
                start = end + 1
                if message is not None:
                    self._last_ns = message.time_ns
                    yield message
            file.rest = block[start:]

    def _open_all(self) -> list[_File]:
        """Open every file, oldest first, while no rotation renamed one (or so at the last of several tries)."""
        for _ in range(_TRIES):
            before = self._identity()
            found = self._open_each()
            if self._identity() == before:
                return found
            self._close(found)
        return self._open_each()

    def _identity(self) -> tuple[int, int]:
        def inode(name: str) -> int:
            try:
                return os.stat(os.path.join(self.directory, name)).st_ino
            except FileNotFoundError:
                return 0

        return inode(self._name), inode(f"{self._name}.1")

    def _open_each(self) -> list[_File]:
        # The newest first: a rotation in between then shows a file twice, and hides none. A rotation that has not ended
        # leaves one number without a file, so that only two such numbers in a row are behind the oldest file.
        found: dict[int, _File] = {}
        absent = 0
        for number in range(_MOST_FILES):
            suffixes = ("",) if number == 0 else (f".{number}", f".{number}.gz")
            for suffix in suffixes:
                try:
                    fd = os.open(os.path.join(self.directory, self._name + suffix), os.O_RDONLY | os.O_CLOEXEC)
                except FileNotFoundError:
                    continue
                inode = os.fstat(fd).st_ino
                if inode in found:
                    os.close(fd)
                else:
                    found[inode] = _File(fd, inode, number, suffix.endswith(".gz"))
                absent = 0
                break
            else:
                absent += 1
                if absent > 1:
                    break
        return list(reversed(found.values()))

    def _seek(self, tail: int) -> None:
        """Go to the last `tail` lines, of both streams together, as dockerd counts them."""
        for place in range(len(self._files) - 1, -1, -1):
            file = self._files[place]
            count = sum(block.count(b"\n") for block in _blocks(file, 0)) if file.compressed else None
            if count is None:
                start, tail = _start_of_tail(file, tail)
            else:
                start, tail = (_skip(file, count - tail), 0) if count > tail else (0, tail - count)
            file.offset = start
            if tail == 0:
                self._close(self._files[:place])
                del self._files[:place]
                return

    @staticmethod
    def _close(files: Iterable[_File]) -> None:
        for file in files:
            os.close(file.fd)


def _blocks(file: _File, offset: int) -> Iterator[bytes]:
    """The file's bytes from `offset` on; for a compressed file, its uncompressed bytes."""
    if not file.compressed:
        while block := os.pread(file.fd, _BLOCK, offset):
            offset += len(block)
            yield block
        return
    import zlib  # only a log whose options ask for it is compressed

    inflate, place = zlib.decompressobj(wbits=31), 0
    while packed := os.pread(file.fd, _BLOCK, place):
        place += len(packed)
        try:
            block = inflate.decompress(packed)
        except zlib.error:
            return  # damaged: what came before is used
        skipped = min(offset, len(block))
        offset -= skipped
        if len(block) > skipped:
            yield block[skipped:]


def _start_of_tail(file: _File, tail: int) -> tuple[int, int]:
    """Where the last `tail` whole lines of a plain file begin, and how many lines are missing in it."""
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


def _skip(file: _File, lines: int) -> int:
    """The offset just after the first `lines` lines."""
    offset = 0
    for block in _blocks(file, 0):
        count = block.count(b"\n")
        if count >= lines:
            place = -1
            for _ in range(lines):
                place = block.index(b"\n", place + 1)
            return offset + place + 1
        lines -= count
        offset += len(block)
    return offset
