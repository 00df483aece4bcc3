"""Unpacks a tar that came out of a container onto this host's disk, beneath one directory, whatever its names say.

Runs in the client's one thread. The container may have written the names and the links: each path is opened beneath the
directory's descriptor, so that nothing is written elsewhere. As with docker, the user owns what is copied. A device is
left out, and no copy is setuid.
"""

import os
import stat
import sys
import tarfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from engine.errors import Invalid
from engine.kernel.beneath import make_directories, open_beneath

_PIECE = 256 * 1024
_MODES = 0o1777


class Pieces:
    """The file that tarfile reads: the pieces of an answer, one after the other. read: how many bytes it has given."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces: Iterator[bytes] = iter(pieces)
        self._rest = b""
        self.given = 0

    def read(self, size: int) -> bytes:
        """At most so many bytes; fewer at the end alone."""
        found = []
        while size:
            if not self._rest:
                self._rest = next(self._pieces, b"")
                if not self._rest:
                    break
            piece, self._rest = self._rest[:size], self._rest[size:]
            found.append(piece)
            size -= len(piece)
        data = b"".join(found)
        self.given += len(data)
        return data


def unpack(archive: Pieces, directory: str, base: str) -> None:
    """Unpack below a directory of this host. Raises Invalid, and OSError.

    base: what the first part of each name becomes; empty takes it away, so that what was in that directory is put into
    this one. An archive whose first name is `.` has no such part.
    """
    root = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    late: list[tuple[str, int, float]] = []
    try:
        with tarfile.open(fileobj=archive, mode="r|") as tar:  # type: ignore[call-overload]
            place: Callable[[str], str] | None = None
            for member in tar:
                if place is None:
                    place = partial(_path, base, min(1, len(_parts(member.name))))
                path = place(member.name)
                if path:
                    _one(root, tar, member, path, place)
                if member.isdir():
                    late.append((path, member.mode & _MODES, member.mtime))
        # A directory may be read-only, and its time changes with what is put into it.
        for path, mode, time in reversed(late):
            if path or base:
                _finish(root, path, mode, time)
    except tarfile.TarError as error:
        raise Invalid(f"what came is no whole archive: {error}") from error
    finally:
        os.close(root)


def _parts(name: str) -> list[str]:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise Invalid(f"the archive has a name with '..' in it: {name!r}")
    return parts


def _path(base: str, first: int, name: str) -> str:
    """Where a name goes; first: how many of its parts `base` takes the place of."""
    return "/".join([*([base] if base else []), *_parts(name)[first:]])


def _one(root: int, tar: tarfile.TarFile, member: tarfile.TarInfo, path: str, placed: Callable[[str], str]) -> None:
    above, _, name = path.rpartition("/")
    parent = make_directories(root, above)
    try:
        _make_room(parent, name, member.isdir(), path)
        if member.isdir():
            if not _is_directory(parent, name):
                os.mkdir(name, 0o700, dir_fd=parent)
            return
        if member.isreg():
            _file(parent, name, tar, member)
        elif member.issym():
            os.symlink(member.linkname, name, dir_fd=parent)
        elif member.islnk():
            _hard_link(root, parent, name, placed(member.linkname))
        elif member.isfifo():
            os.mkfifo(name, member.mode & 0o777, dir_fd=parent)
        else:
            print(f"engine: {member.name} is a device, which is not copied", file=sys.stderr)
            return
        os.utime(name, (member.mtime, member.mtime), dir_fd=parent, follow_symlinks=False)
    finally:
        os.close(parent)


def _make_room(parent: int, name: str, directory: bool, path: str) -> None:
    """Remove what is in the way; a directory and what is none never take each other's place."""
    try:
        state = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return
    if stat.S_ISDIR(state.st_mode) and not directory:
        raise Invalid(f'cannot overwrite directory "{path}" with non-directory')
    if directory and not _is_directory(parent, name):
        raise Invalid(f'cannot overwrite non-directory "{path}" with directory')
    if not directory:
        os.unlink(name, dir_fd=parent)


def _is_directory(parent: int, name: str) -> bool:
    """Whether there is a directory of this name, or a link to one beneath the root."""
    try:
        os.close(open_beneath(parent, name, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _file(parent: int, name: str, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
    data = tar.extractfile(member)
    made = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=parent)
    with os.fdopen(made, "wb", buffering=0) as file:
        while data is not None and (piece := data.read(_PIECE)):
            file.write(piece)
        os.fchmod(made, member.mode & _MODES)


def _hard_link(root: int, parent: int, name: str, target: str) -> None:
    above, _, last = target.rpartition("/")
    place = open_beneath(root, above, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.link(last, name, src_dir_fd=place, dst_dir_fd=parent, follow_symlinks=False)
    finally:
        os.close(place)


def _finish(root: int, path: str, mode: int, time: float) -> None:
    made = open_beneath(root, path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fchmod(made, mode)
        os.utime(made, (time, time))
    finally:
        os.close(made)
