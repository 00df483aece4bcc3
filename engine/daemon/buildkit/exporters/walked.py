"""The files of trees that are exported, one after another in the order in which fsutil wants them.

Runs on the thread that exports. Trees are read beneath their descriptors, no symbolic link is followed, and nothing of
them changes meanwhile: layers are read-only. A tree may stand in a directory of its own, as those of several platforms
do; trees that stand in the same place must not have the same files.
"""

import heapq
import os
import stat
from collections.abc import Iterator, Sequence

from engine.daemon.buildkit.messages.fsutil import SentStat
from engine.daemon.tar.writer import attributes, open_file
from engine.dataclass import dataclass
from engine.errors import Invalid, SystemFailure
from engine.kernel import reasons
from engine.kernel.beneath import open_beneath

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DEEPEST = 2000  # no path of Linux has more levels: each takes two of its 4,096 bytes
_GO_KINDS = {
    stat.S_IFREG: 0,
    stat.S_IFDIR: 1 << 31,
    stat.S_IFLNK: 1 << 27,
    stat.S_IFBLK: 1 << 26,
    stat.S_IFCHR: 1 << 26 | 1 << 21,
    stat.S_IFIFO: 1 << 25,
}
_NO_FILE = 1 << 31 | 1 << 27 | 1 << 26 | 1 << 25 | 1 << 21
_GO_BITS = ((stat.S_ISUID, 1 << 23), (stat.S_ISGID, 1 << 22), (stat.S_ISVTX, 1 << 20))


@dataclass(frozen=True, slots=True)
class Top:
    """A tree. root: descriptor of its directory; below: name of the directory in which it stands, or empty

    name: of the tree in errors; beside: further files at its top, contents by name
    """

    root: int
    below: str
    name: str
    beside: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Found:
    """One entry. parts: of its path; top: the tree that it is of; said: as fsutil tells of it

    data: the contents of a file that is in no tree
    """

    parts: tuple[bytes, ...]
    top: Top
    said: SentStat
    data: bytes | None = None

    @property
    def has_data(self) -> bool:
        """Whether the other side may ask for its contents: not those of a further name of another file."""
        return not self.said["mode"] & _NO_FILE and "linkname" not in self.said

    def open(self) -> int:
        """A descriptor of the file, which the caller closes. Raises OSError."""
        inside = self.parts[1:] if self.top.below else self.parts
        parent = open_beneath(self.top.root, os.fsdecode(b"/".join(inside[:-1])), _DIRECTORY, no_symlinks=True)
        try:
            return open_file(parent, os.fsdecode(inside[-1]))[0]
        finally:
            os.close(parent)


def entries(tops: Sequence[Top], epoch: int | None, now_ns: int) -> Iterator[Found]:
    """All entries of the trees. Raises Invalid for a file that two of them have, SystemFailure.

    epoch: seconds since 1970 that all entries get as their time, or None; now_ns: the time of what is in no tree
    """
    before: Found | None = None
    try:
        for found in heapq.merge(*(_tree(top, epoch, now_ns) for top in tops), key=lambda each: each.parts):
            if before is not None and before.parts == found.parts:
                if not (_is_directory(before) and _is_directory(found)):
                    path = os.fsdecode(b"/".join(found.parts))
                    raise Invalid(
                        f"cannot overwrite {path} from {before.top.name} with {found.top.name} when split option is"
                        " disabled"
                    )
                continue
            before = found
            yield found
    except OSError as error:
        raise SystemFailure(f"the result's files cannot be read: {reasons.whole(error)}") from error


def _is_directory(found: Found) -> bool:
    return bool(found.said["mode"] & 1 << 31)


def _tree(top: Top, epoch: int | None, now_ns: int) -> Iterator[Found]:
    above = (top.below.encode(),) if top.below else ()
    when = now_ns if epoch is None else epoch * 10**9
    if above:
        yield Found(above, top, {"path": above[0], "mode": 1 << 31 | 0o755, "modTime": when})
    beside = [_beside(top, (*above, name), data, when) for name, data in sorted(_encoded(top.beside))]
    yield from heapq.merge(_Walk(top, epoch).all(above), beside, key=lambda each: each.parts)


def _encoded(files: dict[str, bytes]) -> Iterator[tuple[bytes, bytes]]:
    return ((name.encode(), data) for name, data in files.items())


def _beside(top: Top, parts: tuple[bytes, ...], data: bytes, when: int) -> Found:
    said: SentStat = {"path": b"/".join(parts), "mode": 0o600, "size": len(data), "modTime": when}
    return Found(parts, top, said, data)


class _Walk:
    """One look at all of a tree; it remembers the files with several names."""

    def __init__(self, top: Top, epoch: int | None) -> None:
        self._top = top
        self._epoch = epoch
        self._names: dict[tuple[int, int], bytes] = {}

    def all(self, above: tuple[bytes, ...]) -> Iterator[Found]:
        """Every entry below the tree's root, a directory before what it holds."""
        skipped = len(above)
        levels = [(above, iter(self._listed(b"")))]
        while levels:
            parts, names = levels[-1]
            name = next(names, None)
            if name is None:
                levels.pop()
                continue
            path = (*parts, name)
            found = self._found(path, b"/".join(path[skipped:]))
            if found is None:
                continue
            yield found
            if _is_directory(found):
                if len(levels) > _DEEPEST:
                    raise SystemFailure("directories lie too deep in each other")
                levels.append((path, iter(self._listed(b"/".join(path[skipped:])))))

    def _listed(self, path: bytes) -> list[bytes]:
        fd = open_beneath(self._top.root, os.fsdecode(path), _DIRECTORY, no_symlinks=True)
        try:
            return sorted(os.fsencode(name) for name in os.listdir(fd))
        finally:
            os.close(fd)

    def _found(self, parts: tuple[bytes, ...], inside: bytes) -> Found | None:
        above, _, name = inside.rpartition(b"/")
        fd = open_beneath(self._top.root, os.fsdecode(above), _DIRECTORY, no_symlinks=True)
        try:
            try:
                seen = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:  # a whiteout of a directory that no lower layer has, of which overlayfs lists it
                return None
            kind = _GO_KINDS.get(stat.S_IFMT(seen.st_mode))
            # A socket cannot be sent. A device 0:0 is a whiteout, which hides nothing where no layer is below.
            if kind is None or (stat.S_ISCHR(seen.st_mode) and seen.st_rdev == 0):
                return None
            path = b"/".join(parts)
            said: SentStat = {
                "path": path,
                "mode": kind | _bits(seen.st_mode),
                "uid": seen.st_uid,
                "gid": seen.st_gid,
                "modTime": seen.st_mtime_ns if self._epoch is None else self._epoch * 10**9,
            }
            if not stat.S_ISDIR(seen.st_mode):
                self._no_directory(said, seen, fd, name, path)
            if stat.S_ISREG(seen.st_mode) or stat.S_ISDIR(seen.st_mode):
                said |= {"xattrs": _attributes(fd, name)}
            return Found(parts, self._top, said)
        finally:
            os.close(fd)

    def _no_directory(self, said: SentStat, seen: os.stat_result, fd: int, name: bytes, path: bytes) -> None:
        first = self._names.setdefault((seen.st_dev, seen.st_ino), path) if seen.st_nlink > 1 else path
        if stat.S_ISLNK(seen.st_mode):
            said["linkname"] = os.readlink(name, dir_fd=fd)
            said["size"] = seen.st_size
        elif first != path:
            said["linkname"] = first
        elif stat.S_ISREG(seen.st_mode):
            said["size"] = seen.st_size
        if stat.S_ISCHR(seen.st_mode) or stat.S_ISBLK(seen.st_mode):
            said["devmajor"], said["devminor"] = os.major(seen.st_rdev), os.minor(seen.st_rdev)


def _bits(mode: int) -> int:
    return mode & 0o777 | sum(go for bit, go in _GO_BITS if mode & bit)


def _attributes(parent: int, name: bytes) -> dict[str, bytes]:
    place = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        fd = os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            return attributes(fd) or {}
        finally:
            os.close(fd)
    finally:
        os.close(place)
