"""The writer of a log of JSON lines, byte for byte as docker's driver json-file writes it.

Run by the monitor, in its only thread (with the C pump the object only owns the descriptors); tests compare
`_muxer/log/jsonwriter.c` with it. A log is a file of lines `{"log":"...","stream":"stdout","time":"..."}`, and its
older parts `.1`, `.2`, ... beside it, perhaps compressed (`.1.gz`). It opens nothing but these.
"""

import os
import time
from collections.abc import Callable, Iterable

from engine.late import TYPE_CHECKING, late
from engine.logs import format, lasting, order
from engine.logs.openlog import IDLE, UNTOLD, OpenLog

if TYPE_CHECKING:  # the spawner keeps their code, and few monitors run it
    from engine.logs import compress, jsonfiles, jsonlines
else:
    compress = late("engine.logs.compress")
    jsonfiles = late("engine.logs.jsonfiles")
    jsonlines = late("engine.logs.jsonlines")

_OUT = 64 * 1024  # bytes of lines that are written at once
_SEARCHED = 256 * 1024  # bytes at the end of a file in which a torn line is looked for
_SUFFIXES = ("", ".gz")  # of an older file
_NAMES = {format.STDOUT: b"stdout", format.STDERR: b"stderr"}
# The escapes of Go's encoding/json, which also escapes what is special in HTML.
_ESCAPES = {code: f"\\u{code:04x}" for code in (*range(0x20), *b"<>&", 0x2028, 0x2029)}
_ESCAPES |= {ord('"'): '\\"', ord("\\"): "\\\\", ord("\n"): "\\n", ord("\r"): "\\r"}
_INVALID = dict.fromkeys(range(56448, 56576), "\\ufffd")  # what surrogateescape makes of one invalid byte
_TABLE = _ESCAPES | _INVALID
_OF_LINES = {code: said for code, said in _TABLE.items() if code != ord("\n")}  # for several lines at once
_SPECIAL = bytes(byte for byte in range(256) if byte != 0x0A and (byte in _ESCAPES or byte >= 0x80))
_BEGIN = b'{"log":"'


def escape(text: bytes) -> bytes:
    """The inside of a JSON string as Go writes it; each byte that is no UTF-8 becomes U+FFFD."""
    return text.decode("utf-8", "surrogateescape").translate(_TABLE).encode()


def rfc3339_nano(time_ns: int) -> bytes:
    """Go's RFC3339Nano: no zeros at the end of the fraction, and no fraction of zero."""
    return format.stamp(time_ns)[:-2].rstrip(b"0").rstrip(b".") + b"Z"


def line(stream: int, text: bytes, time_ns: int, attributes: bytes) -> bytes:
    """One line of the log. attributes: `"attrs":{...},` or empty."""
    return _BEGIN + escape(text) + _ending(stream, time_ns, attributes)


def lines(stream: int, text: bytes, time_ns: int, attributes: bytes) -> bytes:
    """Several lines of the same time. text: each has its newline."""
    if len(text.translate(None, _SPECIAL)) < len(text):
        text = text.decode("utf-8", "surrogateescape").translate(_OF_LINES).encode()
    ending = b"\\n" + _ending(stream, time_ns, attributes)
    return _BEGIN + text[:-1].replace(b"\n", ending + _BEGIN) + ending


def _ending(stream: int, time_ns: int, attributes: bytes) -> bytes:
    """What stands behind the text of a line."""
    return b'","stream":"%b",%b"time":"%b"}\n' % (_NAMES[stream], attributes, rfc3339_nano(time_ns))


class _Line:
    """The line in progress on one stream. partial: pieces of it are in the log already, with the time `first_ns`."""

    def __init__(self) -> None:
        self.held = b""
        self.partial = False
        self.first_ns = 0


class JsonWriter(OpenLog):
    """The open end of a log of JSON lines.

    name: the file's name in the directory; index_fd: a memory file with the attributes that every line has
    compress: whether each rotation makes the log busy: UNTOLD, then TOLD. It is not rotated again until it is IDLE
    """

    readable = False  # the pump can send only frames again, and this log has none
    json = True

    @property
    def due(self) -> bool:
        """Never: it rotates by itself, between any two lines."""
        return False

    def __init__(
        self,
        directory: str,
        name: str,
        max_size: int = 0,
        max_files: int = 1,
        attributes: bytes = b"",
        compress: bool = False,
    ) -> None:
        """Opens or creates the file; a line that a power cut has torn is cut off. Raises OSError."""
        super().__init__(max_size, max_files)
        self.name = name.encode()
        self.compress, self.busy = compress, IDLE
        self.directory_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.log_fd = self._open(name, os.O_RDWR)
            self.index_fd = os.memfd_create("attributes", os.MFD_CLOEXEC)
            os.write(self.index_fd, attributes)
            self.position = self._cut()
        except BaseException:
            self.close()
            raise
        self._begin(attributes)

    def _begin(self, attributes: bytes) -> None:
        self._attributes = attributes
        self._lines = {stream: _Line() for stream in format.STREAMS}
        self._out: list[bytes] = []
        self._out_size = 0

    def append(self, stream: int, payload: bytes | memoryview) -> None:
        """Writes the lines that the chunk completes, and keeps the rest of it.

        Raises OSError when something is lost.
        """
        now = self.clock(time.time_ns())
        data, place, failed = bytes(payload), 0, None
        progress = self._lines[stream]
        while place < len(data):
            if not progress.held and not progress.partial and (end := _whole_lines(data, place)) > place:
                failed = self._add_lines(stream, data[place:end], now) or failed
                place = end
                continue
            end = min(len(data), place + format.LINE_LIMIT - len(progress.held))
            newline = data.find(b"\n", place, end)
            end = newline if newline >= 0 else end
            progress.held += data[place:end]
            place = end + (newline >= 0)
            if newline < 0 and len(progress.held) < format.LINE_LIMIT:
                break
            failed = self._add(stream, progress, b"\n" if newline >= 0 else b"", now) or failed
            progress.partial = newline < 0
        self._flush()
        if failed:
            raise failed

    def end(self, stream: int) -> None:
        """Write what is left of the stream's unfinished line. Raises OSError."""
        progress = self._lines[stream]
        if progress.held:
            failed = self._add(stream, progress, b"", self.clock(time.time_ns()))
            self._flush()
            if failed:
                raise failed
        progress.partial = False

    def unfinished(self, stream: int) -> bytes:
        return self._lines[stream].held

    def later(self, place: tuple[int, int]) -> Iterable[tuple[int, bytes]]:
        return jsonfiles.later(self.directory_fd, self.name.decode(), place)

    def mark(self, mark: int) -> None:
        order.write(self.log_fd, mark, anew=False)

    def compress_older(self) -> None:
        compress.compress_all(self.directory_fd, self.name.decode(), self.max_files - 1)

    def compressed(self, unwanted: bool) -> None:
        self.busy = IDLE
        if unwanted:
            _unless_missing(os.unlink, f"{self.name.decode()}.gz.new", dir_fd=self.directory_fd)

    def _add(self, stream: int, progress: _Line, ending: bytes, now: int) -> OSError | None:
        """Makes a line of the held bytes.

        Returns the error of a rotation that has failed, because the line is kept all the same.
        """
        failed = None
        if not progress.partial:
            progress.first_ns = now
        text, progress.held = progress.held + ending, b""
        full = 0 < self.limit <= self.position + self._out_size
        try:
            if full or self._out_size > _OUT:
                self._flush()
            if full and not self.busy:
                self.rotate()
        except OSError as error:
            failed = error
        self._out.append(line(stream, text, progress.first_ns, self._attributes))
        self._out_size += len(self._out[-1])
        return failed

    def _add_lines(self, stream: int, text: bytes, now: int) -> OSError | None:
        """Make lines of the text, each of which has its end. Returns the error of a rotation, as `_add` does."""
        made, failed = lines(stream, text, now, self._attributes), None
        while made:
            left, end = self.limit - self.position - self._out_size, len(made)
            if self.limit > 0 and not self.busy and left <= end:
                # A line goes into the file in which it begins.
                try:
                    if left <= 0:
                        self._flush()
                        self.rotate()
                except OSError as error:
                    failed = error
                left = max(self.limit - self.position - self._out_size, 1)
                end = made.find(b"\n", left - 1) + 1 or end
            self._out.append(made[:end])
            self._out_size += end
            made = made[end:]
        return failed

    def _flush(self) -> None:
        """Writes the waiting lines to the file's end, also when somebody has moved that end with truncate(1)."""
        data, done = b"".join(self._out), 0
        self._out, self._out_size = [], 0
        try:
            while done < len(data):
                done += os.write(self.log_fd, data[done:])
        except OSError:
            if done:  # the next line must not follow directly after a torn one
                os.ftruncate(self.log_fd, max(os.fstat(self.log_fd).st_size - done, 0))
            raise
        self.position += len(data)

    def rotate(self) -> None:
        """Goes on in a new file (see `OpenLog.rotate`)."""
        try:
            if self.max_files < 2:
                os.ftruncate(self.log_fd, 0)
                order.write(self.log_fd, self.last_ns, anew=True)
            else:
                self._push_back()
        except OSError:
            if self.full:
                self.limit = self.position + self.max_size
            raise
        self.position, self.limit, self.late = 0, self.max_size, False

    def _push_back(self) -> None:
        name = self.name.decode()
        fresh = self._open(f"{name}.new", os.O_WRONLY | os.O_TRUNC)  # first: a host without room leaves all as it is
        try:
            last = self._first_free(name)
            olds = [f"{name}.{last}{suffix}" for suffix in _SUFFIXES]
            if any(lasting.is_old(self.directory_fd, old, time.time_ns()) for old in olds):
                self._sync(name, last)
            for old in olds:
                _unless_missing(os.unlink, old, dir_fd=self.directory_fd)
            for number in range(last, 1, -1):
                for suffix in _SUFFIXES:
                    self._rename(f"{name}.{number - 1}{suffix}", f"{name}.{number}{suffix}")
            order.write(fresh, self.last_ns, anew=True)
            self._rename(name, f"{name}.1")
            self._rename(f"{name}.new", name)
        except OSError:
            os.close(fresh)
            raise
        os.close(self.log_fd)
        self.log_fd, self.busy = fresh, UNTOLD if self.compress else IDLE

    def _first_free(self, name: str) -> int:
        """The first number that no older file has, or else the last one, whose file is removed.

        Up to there the files are renamed: the number of files that a client asked for may be a billion.
        """
        number = 1
        while number < self.max_files - 1 and any(self._exists(f"{name}.{number}{suffix}") for suffix in _SUFFIXES):
            number += 1
        return number

    def _exists(self, name: str) -> bool:
        try:
            os.stat(name, dir_fd=self.directory_fd, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def _sync(self, name: str, last: int) -> None:
        """Write the files that stay, those before number `last`, to the disk."""
        for number in range(last - 1, 0, -1):
            for suffix in _SUFFIXES:
                lasting.sync(self.directory_fd, f"{name}.{number}{suffix}")
        os.fdatasync(self.log_fd)
        os.fsync(self.directory_fd)

    def _open(self, name: str, flags: int) -> int:
        return os.open(name, flags | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640, dir_fd=self.directory_fd)

    def _rename(self, old: str, new: str) -> None:
        _unless_missing(os.rename, old, new, src_dir_fd=self.directory_fd, dst_dir_fd=self.directory_fd)

    def _cut(self) -> int:
        """Cuts a torn line off the file's end; returns the size of the file. It also finds the latest time so far."""
        size = os.fstat(self.log_fd).st_size
        start = max(size - _SEARCHED, 0)
        tail = os.pread(self.log_fd, size - start, start)
        self.last_ns = (order.read(self.log_fd) or 0) & order.LATEST
        if tail:
            said = tail.rpartition(b'"}\n')[0].rpartition(b'"time":"')[2]
            self.last_ns = max(self.last_ns, jsonlines.parse_time(said) or 0)
        elif self._first_free(self.name.decode()) == 1 and not self.last_ns:
            order.write(self.log_fd, 0, anew=True)
        if not tail or tail.endswith(b"\n"):
            return size
        whole = tail.rfind(b"\n") + 1
        if whole == 0 and start > 0:
            return size + os.write(self.log_fd, b"\n")  # no line of this engine: it is ended where it stands
        os.ftruncate(self.log_fd, start + whole)
        return start + whole


def _whole_lines(data: bytes, place: int) -> int:
    """The end of the whole lines from a place on, if none is so long that it is cut; else the place."""
    end = data.rfind(b"\n", place) + 1
    long = end - place > format.LINE_LIMIT and max(map(len, data[place:end].split(b"\n"))) >= format.LINE_LIMIT
    return place if end <= place or long else end


def _unless_missing(call: Callable[..., None], *arguments: str, **directories: int) -> None:
    try:
        call(*arguments, **directories)
    except FileNotFoundError:
        pass  # there are not so many files yet, or the file exists only in the other form, plain or compressed
