"""Writing tar streams: the headers of members, and the walk that packs the tree beneath a directory descriptor.

Runs in the daemon, on the thread that answers a request or commits. Python's `tarfile` is not used: it takes ten times
as long for each member, and works with paths, which the processes of a running container may move under it. Here every
name is looked up in an open directory, and no symbolic link is followed. Only regular files are opened for reading,
even if a file is replaced meanwhile. At most one chunk of one file is in memory. Format: POSIX pax(1), as docker writes
it.
"""

import errno
import logging
import os
import posixpath
import stat
import struct
import zlib
from collections.abc import Callable, Container, Generator, Iterator

from engine.daemon.tar import noted
from engine.daemon.tar.reader import BLOCK
from engine.kernel.beneath import open_beneath

log = logging.getLogger(__name__)

END = bytes(2 * BLOCK)

_HEADER = struct.Struct("100s8s8s8s12s12s8sc100s8s32s32s8s8s155s12x")
_MAGIC = b"ustar\x0000"
_BLANK_SUM = b" " * 8
_SUM_AT = 148
_LONGEST_FIELD, _LONGEST_PREFIX = 100, 155
_FIRST_OTHER = 0x80
_LARGEST_ID = 0o7777777
_LARGEST_SIZE = 0o77777777777
_KINDS = {
    stat.S_IFREG: b"0",
    stat.S_IFLNK: b"2",
    stat.S_IFCHR: b"3",
    stat.S_IFBLK: b"4",
    stat.S_IFDIR: b"5",
    stat.S_IFIFO: b"6",
}
_LINK = b"1"

_CHUNK = 256 * 1024
Chunk = bytes | memoryview
_IS_FILE, _IS_DIRECTORY, _IS_OTHER = range(3)
_PLACE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A file may be a FIFO by the time it is opened. So `open_file` opens what it has checked, by /proc; that never blocks.
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_OPEN_LEVELS = 64
# Errors of a tree that changes meanwhile: the file is gone, or is of another kind now (EINVAL: no symbolic link).
GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ESTALE, errno.ENXIO, errno.EINVAL})
_LONGEST_PATH = 4095
# Only these extended attributes mean the same on another host; security labels and ACLs belong to this host.
_CAPABILITY = "security.capability"
_OWN_ATTRIBUTES = "user."
_OVERLAY_ATTRIBUTES = "user.overlay."


def header(
    name: bytes,
    found: os.stat_result,
    link: bytes = b"",
    hard: bool = False,
    attributes: dict[str, bytes] | None = None,
) -> bytes:
    """The header blocks of one member; the caller sends the contents after them, if any, padded to a block.

    name: as in the archive; a directory's gets a slash at its end; link: target of a symbolic link or, with `hard`,
    of a hard link; attributes: extended attributes. Times are whole seconds, as docker's are.
    """
    attributes = dict(attributes or {})
    owner = noted.of(found, attributes)
    size, seconds = found.st_size, int(found.st_mtime)
    kind = _LINK if hard else _KINDS[stat.S_IFMT(found.st_mode)]
    if kind != b"0":
        size = 0
    if kind == b"5" and not name.endswith(b"/"):
        name += b"/"
    uid, gid = owner.uid, owner.gid
    prefix, extended = b"", b""
    if (
        attributes
        or len(name) > _LONGEST_FIELD
        or len(link) > _LONGEST_FIELD
        or not (name.isascii() and link.isascii())
        or size > _LARGEST_SIZE
        or uid > _LARGEST_ID
        or gid > _LARGEST_ID
        or not 0 <= seconds <= _LARGEST_SIZE
    ):
        records = _records(name, link, size, uid, gid, seconds, attributes)
        prefix, rest = _halves(name)
        if prefix and records.keys() == {b"path"}:
            name = rest
        else:
            prefix, extended = b"", _extended(name, records)
            name, link = _ascii(name), _ascii(link)
        # Of a number that a field cannot hold the record alone tells.
        uid, gid = (each if each <= _LARGEST_ID else 0 for each in (uid, gid))
        size, seconds = (each if 0 <= each <= _LARGEST_SIZE else 0 for each in (size, seconds))
    major = minor = 0
    if kind in (b"3", b"4"):
        major, minor = os.major(found.st_rdev), os.minor(found.st_rdev)
    return extended + _block(name, owner.mode, uid, gid, size, seconds, kind, link, major, minor, prefix)


def _halves(name: bytes) -> tuple[bytes, bytes]:
    """A long name as the two fields for it; nothing as the first one where it does not fit in them."""
    if len(name) <= _LONGEST_FIELD or not name.isascii():
        return b"", name
    place = name.rstrip(b"/").rfind(b"/", 0, _LONGEST_PREFIX + 1)
    fits = place > 0 and len(name) - place - 1 <= _LONGEST_FIELD
    return (name[:place], name[place + 1 :]) if fits else (b"", name)


def _ascii(text: bytes) -> bytes:
    """The text without what a field may not hold, as a reader sees it that knows no records."""
    return bytes(each for each in text if each < _FIRST_OTHER)


def _block(
    name: bytes,
    mode: int,
    uid: int,
    gid: int,
    size: int,
    seconds: int,
    kind: bytes,
    link: bytes,
    major: int,
    minor: int,
    prefix: bytes = b"",
) -> bytes:
    block = _HEADER.pack(
        name[:_LONGEST_FIELD],
        b"%07o" % mode,
        b"%07o" % uid,
        b"%07o" % gid,
        b"%011o" % size,
        b"%011o" % seconds,
        _BLANK_SUM,
        kind,
        link[:_LONGEST_FIELD],
        _MAGIC,
        b"",
        b"",
        *((b"", b"") if kind == b"x" else (b"%07o" % major, b"%07o" % minor)),
        prefix,
    )
    # The low half of Adler-32 is 1 + the sum of the bytes modulo 65521; even names of only 0xFF do not reach that.
    total = (zlib.adler32(block) & 0xFFFF) - 1
    return b"%b%06o\0 %b" % (block[:_SUM_AT], total, block[_SUM_AT + 8 :])


def _records(
    name: bytes, link: bytes, size: int, uid: int, gid: int, seconds: int, attributes: dict[str, bytes]
) -> dict[bytes, bytes]:
    """What a PAX header has to tell, because the ordinary one cannot hold it."""
    found = {b"SCHILY.xattr." + os.fsencode(key): value for key, value in attributes.items()}
    for key, text in ((b"path", name), (b"linkpath", link)):
        if len(text) > _LONGEST_FIELD or not text.isascii():
            found[key] = text
    limits = ((b"size", size, _LARGEST_SIZE), (b"uid", uid, _LARGEST_ID), (b"gid", gid, _LARGEST_ID))
    for key, number, largest in (*limits, (b"mtime", seconds, _LARGEST_SIZE)):
        if not 0 <= number <= largest:
            found[key] = b"%d" % number
    return found


def _extended(name: bytes, records: dict[bytes, bytes]) -> bytes:
    """A PAX header of these records, in the order and under the name that Go gives it."""
    data = b"".join(record(key, value) for key, value in sorted(records.items()))
    above, _, last = name.rpartition(b"/")
    shown = posixpath.normpath(b"/".join(filter(None, (above, b"PaxHeaders.0", last))))
    shown = _ascii(shown)[:_LONGEST_FIELD].rstrip(b"/")
    return _block(shown, 0, 0, 0, len(data), 0, b"x", b"", 0, 0) + data + bytes(-len(data) % BLOCK)


def record(key: bytes, value: bytes) -> bytes:
    """One record of a PAX header: `LENGTH KEY=VALUE\\n`, where the length counts its own digits too."""
    rest = len(key) + len(value) + 3
    length = rest + len(str(rest))
    if len(str(length)) > len(str(rest)):
        length += 1
    return b"%d %b=%b\n" % (length, key, value)


class Packer:
    """Packs the members of one archive, as chunks of it; remembers hard links, so that they stay one file.

    The next chunk may overwrite the last one: a caller that keeps a chunk copies it.

    closed: device numbers whose directories get a member but are not entered (/proc, /sys, ... of a running container)
    shown_as: turns the status of a file into the one for its header, to show another owner or mode; attributes_as: the
        same for its extended attributes
    """

    def __init__(
        self,
        closed: Container[int] = (),
        shown_as: Callable[[os.stat_result], os.stat_result] | None = None,
        attributes_as: Callable[[dict[str, bytes] | None], dict[str, bytes] | None] | None = None,
    ):
        self._closed = closed
        self._shown_as = shown_as or (lambda found: found)
        self._attributes_as = attributes_as or (lambda found: found)
        self._buffer = bytearray()
        self._links: dict[tuple[int, int], bytes] = {}

    def end(self) -> bytes:
        """The last bytes of the archive: what is still in the buffer, and the two blocks that end an archive."""
        self._buffer += END
        return self._flush()

    def unlink(self) -> None:
        """Forget the hard links seen so far, so that the next members are files of their own."""
        self._links.clear()

    def flushed(self) -> Iterator[Chunk]:
        """What is in the buffer, so that the caller can send something else after it."""
        if self._buffer:
            yield self._flush()

    def blank(self, name: str, found: os.stat_result, data: bytes = b"") -> None:
        """Add a member that no tree has: a whiteout, a directory, or a file with `data`, of `found.st_size` bytes."""
        self._buffer += header(os.fsencode(name), found)
        self._buffer += data + bytes(-len(data) % BLOCK)

    def tree(self, directory: int, shown: str, below: str) -> Iterator[Chunk]:
        """Pack the open directory as the member `shown`, and all that is in it, named `below` + its path.

        Members are in the order of their names, a directory before what it holds. Raises OSError.
        """
        self._directory(directory, shown)
        yield from self.contents(directory, below)

    def one(self, parent: int, name: str, shown: str) -> Generator[Chunk, None, bool]:
        """Pack the entry `name` of the open directory `parent`; of a directory only itself. Skips a missing one.

        Returns whether it is in the archive as a directory.
        """
        try:
            mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                fd = os.open(name, _DIRECTORY, dir_fd=parent)
                try:
                    self._directory(fd, shown)
                finally:
                    os.close(fd)
                return True
        except OSError as error:
            self._pass_over(shown, error)
            return False
        yield from self._member(parent, name, shown, stat.S_ISREG(mode))
        return False

    def contents(self, top: int, below: str) -> Iterator[Chunk]:
        """Pack all that is in the open directory, named `below` + its path, without the directory itself."""
        # Only the deepest levels stay open, because a hostile tree may have more levels than there are descriptors.
        levels = [_Level(top, "", _entries(top))]
        try:
            while levels:
                level = levels[-1]
                if level.fd < 0 and not self._reopen(top, level):
                    levels.pop()
                    continue
                entered = None
                for name, kind in level.entries:
                    path = f"{level.path}{name}"
                    if kind != _IS_DIRECTORY:
                        yield from self._member(level.fd, name, below + path, kind == _IS_FILE)
                        continue
                    entered = self._enter(level.fd, name, path, below)
                    if entered is not None:
                        break
                if entered is None:
                    level.close(top)
                    levels.pop()
                    continue
                levels.append(entered)
                if len(levels) > _OPEN_LEVELS:
                    levels[-_OPEN_LEVELS].close(top)
        finally:
            for level in levels:
                level.close(top)

    def _enter(self, parent: int, name: str, path: str, below: str) -> "_Level | None":
        """Add the directory's member, and open it; None if it is not to be entered or is gone."""
        if len(path) >= _LONGEST_PATH:
            log.warning("%.80r... is left out: its path is too long for an archive", path)
            return None
        fd = -1
        try:
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if found.st_dev in self._closed:
                self._buffer += header(os.fsencode(f"{below}{path}/"), found)
                return None
            fd = os.open(name, _DIRECTORY, dir_fd=parent)
            self._directory(fd, f"{below}{path}/")
            return _Level(fd, f"{path}/", _entries(fd))
        except OSError as error:
            if fd >= 0:
                os.close(fd)
            self._pass_over(below + path, error)
            return None

    def _reopen(self, top: int, level: "_Level") -> bool:
        try:
            level.fd = open_beneath(top, level.path.rstrip("/"), _DIRECTORY, no_symlinks=True)
        except OSError as error:
            self._pass_over(level.path, error)
            return False
        return True

    def _directory(self, fd: int, shown: str) -> None:
        self._buffer += header(
            os.fsencode(shown), self._shown_as(os.fstat(fd)), attributes=self._attributes_as(attributes(fd))
        )

    def _member(self, parent: int, name: str, shown: str, is_file: bool) -> Iterator[Chunk]:
        """Add a member that is no directory; one that is gone or unreadable is skipped."""
        try:
            if is_file:
                fd, size = self._file(parent, name, os.fsencode(shown))
                if fd >= 0:
                    yield from self._large(fd, size)
            else:
                self._other(parent, name, shown)
        except OSError as error:
            self._pass_over(shown, error)
        if len(self._buffer) >= _CHUNK:
            yield self._flush()

    def _other(self, parent: int, name: str, shown: str) -> None:
        """Add a member without contents: a symbolic link, a device or a FIFO."""
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        shown_name = os.fsencode(shown)
        kind = stat.S_IFMT(found.st_mode)
        if kind == stat.S_IFCHR and not found.st_rdev:
            log.debug("%r is left out: it is a whiteout of a layer, which hides nothing where no layer is below", shown)
        elif kind not in _KINDS or kind in (stat.S_IFREG, stat.S_IFDIR):
            log.debug("%r is left out: it is a socket, which an archive cannot hold, or was replaced meanwhile", shown)
        elif not self._is_link(found, shown_name):
            link = os.fsencode(os.readlink(name, dir_fd=parent)) if kind == stat.S_IFLNK else b""
            self._buffer += header(shown_name, self._shown_as(found), link)

    def _is_link(self, found: os.stat_result, shown: bytes) -> bool:
        """Add a hard link, if another name of the same file is in the archive; else remember this one."""
        if found.st_nlink < 2:
            return False
        known = self._links.setdefault((found.st_dev, found.st_ino), shown)
        if known is shown:
            return False
        self._buffer += header(shown, self._shown_as(found), known, hard=True)
        return True

    def _file(self, parent: int, name: str, shown: bytes) -> tuple[int, int]:
        """Add a file whole and return -1; of a large one add the header and return its descriptor and size to read."""
        fd, found = open_file(parent, name)
        try:
            if self._is_link(found, shown):
                return -1, 0
            self._buffer += header(shown, self._shown_as(found), attributes=self._attributes_as(attributes(fd)))
            size = found.st_size
            if size > _CHUNK:
                large, fd = fd, -1
                return large, size
            data = os.read(fd, size) if size else b""
            # A file that has become shorter since its header was made is padded with zeros, as GNU tar does.
            self._buffer += data
            self._buffer += bytes(size - len(data) + -size % BLOCK)
            return -1, 0
        finally:
            if fd >= 0:
                os.close(fd)

    def _large(self, fd: int, size: int) -> Iterator[Chunk]:
        try:
            yield self._flush()
            # One buffer for the whole file: new memory for each chunk takes several times as long.
            whole = memoryview(bytearray(_CHUNK))
            left = size
            while left:
                part = whole[:left] if left < _CHUNK else whole
                count = os.readv(fd, [part])
                if not count:
                    count = len(part)
                    part[:] = bytes(count)
                left -= count
                yield part[:count]
            self._buffer += bytes(-size % BLOCK)
        finally:
            os.close(fd)

    def _flush(self) -> bytes:
        data = bytes(self._buffer)
        self._buffer.clear()
        return data

    def _pass_over(self, shown: str, error: OSError) -> None:
        """Skip a file that is gone or may not be read, as docker does; raise any other error, such as of a disk."""
        if error.errno not in GONE and error.errno != errno.EACCES:
            raise error
        log.debug("%r is left out of the archive: %s", shown, error.strerror)


def open_file(parent: int, name: str) -> tuple[int, os.stat_result]:
    """Open a regular file: checked by an O_PATH descriptor, then opened through it. Raises OSError, ENOENT if none."""
    place = os.open(name, _PLACE, dir_fd=parent)
    try:
        found = os.fstat(place)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.ENOENT, "it is no longer a regular file")
        return os.open(f"/proc/self/fd/{place}", _FILE), found
    finally:
        os.close(place)


class _Level:
    """One directory in the walk: its descriptor (-1 while it is closed), its path, and the entries still to come."""

    __slots__ = ("entries", "fd", "path")

    def __init__(self, fd: int, path: str, entries: Iterator[tuple[str, int]]):
        self.fd = fd
        self.path = path
        self.entries = entries

    def close(self, keep: int) -> None:
        """Close the descriptor, unless it is `keep`."""
        if self.fd >= 0 and self.fd != keep:
            os.close(self.fd)
            self.fd = -1


def _entries(directory: int) -> Iterator[tuple[str, int]]:
    """The names of a directory in order, each with the kind of file that the directory entry says."""
    with os.scandir(directory) as found:
        return iter(sorted([(entry.name, _kind(entry)) for entry in found]))


def _kind(entry: os.DirEntry[str]) -> int:
    if entry.is_file(follow_symlinks=False):
        return _IS_FILE
    return _IS_DIRECTORY if entry.is_dir(follow_symlinks=False) else _IS_OTHER


def attributes(fd: int) -> dict[str, bytes] | None:
    """The extended attributes of an open file that an archive keeps; None where it has none. Raises OSError."""
    try:
        names = os.listxattr(fd)
    except OSError as error:
        if error.errno == errno.ENOTSUP:  # the file system has no extended attributes
            return None
        raise
    if not names:
        return None
    kept = {}
    for name in names:
        if name == _CAPABILITY or (name.startswith(_OWN_ATTRIBUTES) and not name.startswith(_OVERLAY_ATTRIBUTES)):
            try:
                kept[name] = os.getxattr(fd, name)
            except OSError as error:
                if error.errno != errno.ENODATA:  # ENODATA: removed meanwhile
                    raise
    return kept
