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
_MOST_WORDS = 64 << 20  # characters of all paths and links together
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
    """The entries that the other side has named, in order. weight: about the bytes that they will take"""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.weight = 0
        self._count = self._words = 0

    def add(self, said: Stat) -> Entry:
        """Take the next entry. Raises Invalid."""
        path, number = said["path"], self._count
        self._count += 1
        self._words += len(path) + len(said["linkname"])
        _check_path(path)
        try:
            mode = mode_of(said["mode"])
        except Invalid as error:
            raise Invalid(f"{path}: {error}") from error
        above = path.rpartition("/")[0]
        if above and not stat.S_ISDIR(self._mode(above)):
            raise Invalid(f"{path}: it is in no directory that was listed")
        if path in self.entries or self._count > _MOST_ENTRIES or self._words > _MOST_WORDS:
            raise Invalid(f"{path}: it was listed before" if path in self.entries else "too many files")
        link = said["linkname"]
        if stat.S_ISREG(mode) and link and not stat.S_ISREG(self._mode(link)):
            raise Invalid(f"{path}: it is another name of {link}, which is no file that was listed")
        if stat.S_ISLNK(mode) and (not link or "\0" in link or len(link) >= _LONGEST_PATH):
            raise Invalid(f"{path}: a symbolic link to nowhere")
        if said["size"] < 0:
            raise Invalid(f"{path}: a size below zero")
        found = Entry(number, path, mode, said["size"], said["modTime"], link)
        self.entries[path] = found
        self.weight += _BESIDE + (found.size if found.has_data else 0)
        return found

    def _mode(self, path: str) -> int:
        return self.entries[path].mode if path in self.entries else 0


def _check_path(path: str) -> None:
    if len(path) >= _LONGEST_PATH or not _PATH.fullmatch(path):
        raise Invalid(f"{path[:100]!r} is no path of a build context")


def settle(root: int, listing: Listing) -> list[Entry]:
    """Remove what the list does not have or has otherwise, make what needs no data; the files that are to be asked for.

    root: descriptor of the mirror. Raises OSError.
    """
    there = _remove(root, listing.entries)
    wanted, made = [], 0
    for path, entry in listing.entries.items():
        if path in there:
            continue
        if made % _LOOK_EACH == 0:
            check_space(root)
        made += 1
        if entry.has_data:
            wanted.append(entry)
        else:
            with _parent(root, path) as (above, name):
                _make(above, name, entry)
    return wanted


def _remove(root: int, entries: dict[str, Entry]) -> set[str]:
    """Remove what is there and is not to be; the paths that stay. No directory is entered that goes anyway."""
    waiting, there = [""], set[str]()
    while waiting:
        directory = waiting.pop()
        fd = open_beneath(root, directory, _DIRECTORY, no_symlinks=True)
        try:
            with os.scandir(fd) as found:
                names = [each.name for each in found]
            for name in names:
                path = f"{directory}/{name}" if directory else name
                seen = os.stat(name, dir_fd=fd, follow_symlinks=False)
                entry = entries.get(path)
                if entry is not None and _is_same(fd, name, seen, entry):
                    there.add(path)
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
    for path, entry in listing.entries.items():
        if stat.S_ISREG(entry.mode) and entry.link:
            with _parent(root, path) as (above, name), _parent(root, entry.link) as (other, first):
                os.link(first, name, src_dir_fd=other, dst_dir_fd=above, follow_symlinks=False)
    for path, entry in reversed(listing.entries.items()):
        if stat.S_ISDIR(entry.mode):
            with _parent(root, path) as (above, name):
                os.chmod(name, stat.S_IMODE(entry.mode), dir_fd=above)
                os.utime(name, ns=(entry.time_ns, entry.time_ns), dir_fd=above)
