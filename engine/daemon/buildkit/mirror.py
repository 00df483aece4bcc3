"""A directory on this host that is made the same as one that another program lists, entry by entry.

Runs on the thread that receives the list. The list is not trusted: each path is clean, stands below directories that
were listed before it, and is opened beneath the directory without following a link. A file whose kind, mode, size and
time are those of the list is taken for the same, as in BuildKit; all others are asked for. Nothing of it is durable: a
mirror that a power cut has torn is seen to differ, or is removed whole.
"""

import contextlib
import functools
import os
import re
import stat
from array import array
from collections.abc import Iterator

from engine.daemon.buildkit.messages.fsutil import Stat
from engine.daemon.tar.space import check_space
from engine.daemon.tar.trees import remove_tree
from engine.dataclass import dataclass
from engine.errors import Invalid
from engine.kernel.beneath import open_beneath

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_ENTRIES = 2_000_000
_LONGEST_PATH = 4096
_PATH = re.compile(r"(?!\.\.?(?:/|\Z))[^/\0]{1,255}(?:/(?!\.\.?(?:/|\Z))[^/\0]{1,255})*")
_MOST_WORDS = 64 << 20  # bytes of all paths and links together
_BESIDE = 4096  # bytes that a file takes beside its contents
_LOOK_EACH = 500  # files that are made without a look at the room on the disk
# Go's FileMode (pkg/io/fs): the kinds of a file, and the bits that stand elsewhere than in stat(2).
_GO_DIRECTORY, _GO_LINK, _GO_DEVICE, _GO_PIPE, _GO_SOCKET = 1 << 31, 1 << 27, 1 << 26, 1 << 25, 1 << 24
_GO_CHARACTER, _GO_IRREGULAR = 1 << 21, 1 << 19
_GO_KINDS = _GO_DIRECTORY | _GO_LINK | _GO_DEVICE | _GO_PIPE | _GO_SOCKET | _GO_CHARACTER | _GO_IRREGULAR
_GO_BITS = ((1 << 23, stat.S_ISUID), (1 << 22, stat.S_ISGID), (1 << 20, stat.S_ISVTX))
_KINDS = {0: stat.S_IFREG, _GO_DIRECTORY: stat.S_IFDIR, _GO_LINK: stat.S_IFLNK, _GO_PIPE: stat.S_IFIFO}


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the list. number: its place there; mode: as of stat(2); link: target of a symbolic or a hard link"""

    number: int
    path: str
    mode: int
    size: int
    time_ns: int
    link: str

    @property
    def has_data(self) -> bool:
        """Whether the other side may be asked for its contents: not those of a further name of another file."""
        return stat.S_ISREG(self.mode) and not self.link


@functools.lru_cache(64)  # a context has few modes
def mode_of(go: int) -> int:
    """Go's FileMode as the mode of stat(2). Raises Invalid for a kind that no build context has."""
    kind = _KINDS.get(go & _GO_KINDS)
    if kind is None:
        raise Invalid("a device, a socket or an unknown kind of file cannot be part of a build context")
    return kind | go & 0o777 | sum(bit for theirs, bit in _GO_BITS if go & theirs)


class Listing:
    """The entries that the other side has named, in order. weight: about the bytes that they will take

    It is kept packed, because a context may have hundreds of thousands of entries. A path is kept as bytes: one odd
    character makes a text four times as large.
    """

    def __init__(self) -> None:
        self.weight = 0
        self._words = 0
        self._numbers: dict[bytes, int] = {}  # by path
        self._modes, self._sizes, self._times = array("I"), array("q"), array("q")
        self._links: dict[int, bytes] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, said: Stat) -> None:
        """Take the next entry. Raises Invalid."""
        path, number = said["path"], len(self._numbers)
        _check_path(path)
        key, link = path.encode(), said["linkname"].encode()
        self._words += len(key) + len(link)
        try:
            mode = mode_of(said["mode"])
        except Invalid as error:
            raise Invalid(f"{path}: {error}") from error
        above = key.rpartition(b"/")[0]
        if above and not stat.S_ISDIR(self._mode(above)):
            raise Invalid(f"{path}: it is in no directory that was listed")
        if key in self._numbers or number >= _MOST_ENTRIES or self._words > _MOST_WORDS:
            raise Invalid(f"{path}: it was listed before" if key in self._numbers else "too many files")
        if stat.S_ISREG(mode) and link and not stat.S_ISREG(self._mode(link)):
            raise Invalid(f"{path}: it is another name of {said['linkname']}, which is no file that was listed")
        if stat.S_ISLNK(mode) and (not link or b"\0" in link or len(said["linkname"]) >= _LONGEST_PATH):
            raise Invalid(f"{path}: a symbolic link to nowhere")
        if said["size"] < 0:
            raise Invalid(f"{path}: a size below zero")
        self._numbers[key] = number
        for column, value in ((self._modes, mode), (self._sizes, said["size"]), (self._times, said["modTime"])):
            column.append(value)
        if link:
            self._links[number] = link
        self.weight += _BESIDE + (said["size"] if stat.S_ISREG(mode) and not link else 0)

    def _mode(self, path: bytes) -> int:
        number = self._numbers.get(path)
        return 0 if number is None else self._modes[number]

    def find(self, path: str) -> Entry | None:
        """The entry of this path."""
        key = os.fsencode(path)
        number = self._numbers.get(key)
        return None if number is None else self._entry(key, number)

    def kind(self, kind: int, last_first: bool = False) -> Iterator[Entry]:
        """The entries of a kind (S_IFREG and so on)."""
        entries = reversed(self._numbers.items()) if last_first else iter(self._numbers.items())
        return (self._entry(*each) for each in entries if stat.S_IFMT(self._modes[each[1]]) == kind)

    def without(self, there: bytearray) -> Iterator[Entry]:
        """The entries, but those whose numbers are marked."""
        return (self._entry(*each) for each in self._numbers.items() if not there[each[1]])

    def _entry(self, path: bytes, number: int) -> Entry:
        link = self._links.get(number, b"").decode()
        return Entry(number, path.decode(), self._modes[number], self._sizes[number], self._times[number], link)


def _check_path(path: str) -> None:
    if len(path) >= _LONGEST_PATH or not _PATH.fullmatch(path):
        raise Invalid(f"{path[:100]!r} is no path of a build context")


@dataclass(frozen=True, slots=True)
class Missing:
    """The files that are to be asked for. count: how many; size: bytes in all; files: each, made when its turn comes"""

    count: int
    size: int
    files: Iterator[Entry]


def settle(root: int, listing: Listing) -> Missing:
    """Remove what the list does not have or has otherwise, make what needs no data; the files that are to be asked for.

    root: descriptor of the mirror. Raises OSError.
    """
    there = _remove(root, listing)
    count = size = 0
    for made, entry in enumerate(listing.without(there)):
        if made % _LOOK_EACH == 0:
            check_space(root)
        if entry.has_data:
            count, size = count + 1, size + entry.size
        else:
            there[entry.number] = True
            with _parent(root, entry.path) as (above, name):
                _make(above, name, entry)
    return Missing(count, size, listing.without(there))


def _remove(root: int, listing: Listing) -> bytearray:
    """Remove what is there and is not to be; a mark for each entry that stays. No directory is entered that goes."""
    waiting, there = [""], bytearray(len(listing))
    while waiting:
        directory = waiting.pop()
        fd = open_beneath(root, directory, _DIRECTORY, no_symlinks=True)
        try:
            with os.scandir(fd) as found:
                names = [each.name for each in found]
            for name in names:
                path = f"{directory}/{name}" if directory else name
                seen = os.stat(name, dir_fd=fd, follow_symlinks=False)
                entry = listing.find(path)
                if entry is not None and _is_same(fd, name, seen, entry):
                    there[entry.number] = True
                    if stat.S_ISDIR(seen.st_mode):
                        waiting.append(path)
                elif stat.S_ISDIR(seen.st_mode):
                    remove_tree(fd, name)
                else:
                    os.unlink(name, dir_fd=fd)
        finally:
            os.close(fd)
    return there


def _is_same(above: int, name: str, seen: os.stat_result, entry: Entry) -> bool:
    """Whether what is there may stay."""
    if stat.S_IFMT(seen.st_mode) != stat.S_IFMT(entry.mode):
        return False
    if stat.S_ISDIR(entry.mode):
        return True  # its mode and time are set at the end
    if stat.S_ISLNK(entry.mode):
        return seen.st_mtime_ns == entry.time_ns and os.readlink(name, dir_fd=above) == entry.link
    if entry.link:  # further names are made anew each time: nothing says cheaply which file an old one names
        return False
    size = entry.size if stat.S_ISREG(entry.mode) else 0
    return (seen.st_mode, seen.st_size, seen.st_mtime_ns) == (entry.mode, size, entry.time_ns)


def _make(above: int, name: str, entry: Entry) -> None:
    if stat.S_ISDIR(entry.mode):
        os.mkdir(name, 0o700, dir_fd=above)
    elif stat.S_ISLNK(entry.mode):
        os.symlink(entry.link, name, dir_fd=above)
        os.utime(name, ns=(entry.time_ns, entry.time_ns), dir_fd=above, follow_symlinks=False)
    elif stat.S_ISFIFO(entry.mode):
        os.mkfifo(name, 0o600, dir_fd=above)
        os.chmod(name, stat.S_IMODE(entry.mode), dir_fd=above)
        os.utime(name, ns=(entry.time_ns, entry.time_ns), dir_fd=above, follow_symlinks=False)


@contextlib.contextmanager
def _parent(root: int, path: str) -> Iterator[tuple[int, str]]:
    """The descriptor of the directory in which a path stands, and its name there."""
    above, _, name = path.rpartition("/")
    fd = open_beneath(root, above, _DIRECTORY, no_symlinks=True)
    try:
        yield fd, name
    finally:
        os.close(fd)


def create(root: int, entry: Entry) -> int:
    """A descriptor to which a file's data are written; `close` ends it. Raises OSError."""
    with _parent(root, entry.path) as (above, name):
        return os.open(name, _NEW, 0o600, dir_fd=above)


def close(fd: int, entry: Entry) -> os.stat_result:
    """End a file: only now has it the mode and time by which the next list takes it for the same; its status.

    Raises Invalid.
    """
    try:
        if os.fstat(fd).st_size != entry.size:
            raise Invalid(f"{entry.path}: it has changed while it was sent")
        os.fchmod(fd, stat.S_IMODE(entry.mode))
        os.utime(fd, ns=(entry.time_ns, entry.time_ns))
        return os.fstat(fd)
    finally:
        os.close(fd)


def finish(root: int, listing: Listing) -> None:
    """Make the further names of files, and give directories their modes and times, the deepest first. Raises OSError"""
    for entry in listing.kind(stat.S_IFREG):
        if entry.link:
            with _parent(root, entry.path) as (above, name), _parent(root, entry.link) as (other, first):
                os.link(first, name, src_dir_fd=other, dst_dir_fd=above, follow_symlinks=False)
    for entry in listing.kind(stat.S_IFDIR, last_first=True):
        with _parent(root, entry.path) as (above, name):
            os.chmod(name, stat.S_IMODE(entry.mode), dir_fd=above)
            os.utime(name, ns=(entry.time_ns, entry.time_ns), dir_fd=above)
