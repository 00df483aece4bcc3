"""Makes a tar of files of this host, piece by piece, without holding more than a piece of a file in memory.

Runs in the client's one thread. Times, modes, symbolic links, pipes and devices are kept; a hard link becomes a file of
its own.
"""

import os
import stat
import tarfile
from collections.abc import Callable, Iterable, Iterator

from engine.errors import Invalid

_PIECE = 256 * 1024
_KINDS = {
    stat.S_IFDIR: tarfile.DIRTYPE,
    stat.S_IFLNK: tarfile.SYMTYPE,
    stat.S_IFREG: tarfile.REGTYPE,
    stat.S_IFIFO: tarfile.FIFOTYPE,
    stat.S_IFCHR: tarfile.CHRTYPE,
    stat.S_IFBLK: tarfile.BLKTYPE,
}

Entry = tuple[str, str]
"""A name in the archive, and the path of the file or directory that it is of."""


Choice = Callable[[str, bool], tuple[bool, bool]]
"""Called with a path below the directory that is walked, and whether that is a directory: whether it is taken, and
whether what is below it may be.
"""


def everything(inner: str, directory: bool) -> tuple[bool, bool]:
    """The choice that takes all."""
    return True, directory


def walked(path: str, name: str, choice: Choice = everything) -> Iterator[Entry]:
    """The entries of a directory and all below it, sorted, or of one file; no symbolic link is followed.

    name: of `path` itself in the archive; empty where its contents have no directory around them
    """
    if name:
        yield name, path
    if os.path.islink(path) or not os.path.isdir(path):
        return
    waiting = [""]
    while waiting:
        above = waiting.pop()
        with os.scandir(os.path.join(path, above)) as found:
            inside = sorted(found, key=lambda entry: entry.name)
        directories = []
        for entry in inside:
            inner = f"{above}/{entry.name}" if above else entry.name
            taken, entered = choice(inner, entry.is_dir(follow_symlinks=False))
            if taken:
                yield f"{name}/{inner}" if name else inner, entry.path
            if entered:
                directories.append(inner)
        waiting += reversed(directories)


def pieces(entries: Iterable[Entry], root_owns: bool = False) -> Iterator[bytes]:
    """The tar. Raises Invalid for a file that becomes shorter while it is read, and OSError.

    root_owns: user and group 0 own all of it, whoever owns it here
    """
    for name, path in entries:
        state = os.lstat(path)
        kind = _KINDS.get(stat.S_IFMT(state.st_mode))
        if kind == tarfile.REGTYPE:
            yield from _file(name, path, root_owns)
        elif kind is not None:  # a socket has no place in an archive
            yield _header(name, state, kind, root_owns, os.readlink(path) if kind == tarfile.SYMTYPE else "")
    yield bytes(2 * tarfile.BLOCKSIZE)


def one_file(name: str, data: bytes, mode: int = 0o644) -> bytes:
    """A member of an archive that is in memory, without the archive's end."""
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), mode
    return _bytes(member) + data + bytes(-len(data) % tarfile.BLOCKSIZE)


def _file(name: str, path: str, root_owns: bool) -> Iterator[bytes]:
    with open(path, "rb", buffering=0) as file:
        state = os.fstat(file.fileno())
        yield _header(name, state, tarfile.REGTYPE, root_owns)
        left = state.st_size
        while left:
            data = file.read(min(_PIECE, left))
            if not data:
                raise Invalid(f"{path} became shorter while it was read")
            left -= len(data)
            yield data
    yield bytes(-state.st_size % tarfile.BLOCKSIZE)


def _header(name: str, state: os.stat_result, kind: bytes, root_owns: bool, link: str = "") -> bytes:
    member = tarfile.TarInfo(name)
    member.type, member.mode, member.linkname = kind, stat.S_IMODE(state.st_mode), link
    member.mtime = int(state.st_mtime)
    member.size = state.st_size if kind == tarfile.REGTYPE else 0
    if not root_owns:
        member.uid, member.gid = state.st_uid, state.st_gid
    if kind in (tarfile.CHRTYPE, tarfile.BLKTYPE):
        member.devmajor, member.devminor = os.major(state.st_rdev), os.minor(state.st_rdev)
    return _bytes(member)


def _bytes(member: tarfile.TarInfo) -> bytes:
    return member.tobuf(tarfile.PAX_FORMAT, errors="surrogateescape")
