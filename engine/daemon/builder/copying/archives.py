"""Unpacks the local archives of an ADD into a scratch directory that stands for the destination in the base image.

Runs in the build's thread; it looks into the base through `merged`, which may use a separate thread. The base is never
written to: the layer is packed from the scratch directory. The result is the same as if the archive were unpacked in
the base. A symbolic link of the base, or of the archive, on the way to a member is followed within the destination and
never further, as docker unpacks in a chroot there. Names that look like whiteouts are ordinary names here, and become
whiteouts when the layer is unpacked: docker does the same.
"""

import contextlib
import errno
import io
import os
import posixpath
import stat
import time
from collections.abc import Callable

from engine.daemon.builder.copying.request import Base
from engine.daemon.images.layers import merged
from engine.daemon.tar import extract
from engine.daemon.tar import reader as tar
from engine.daemon.tar.compression import Unpacked
from engine.daemon.tar.space import check_room
from engine.daemon.tar.trees import remove_tree
from engine.daemon.tar.writer import open_file
from engine.errors import Invalid
from engine.kernel.beneath import followed, open_beneath

_BUFFER = 256 * 1024
_FAILED = "failed to copy files: "


def is_archive(directory: int, name: str) -> bool:
    """Whether the file's contents, plain or compressed, begin like a tar; its name does not count. Raises OSError."""
    fd, _ = open_file(directory, name)
    with os.fdopen(fd, "rb") as file:
        try:
            for _ in tar.TarReader(io.BufferedReader(Unpacked(file), _BUFFER)):
                return True
        except tar.UnknownKind:  # which it is told of when it is unpacked
            return True
        except Invalid:
            return False
    return False


class Tree:
    """A context manager for the scratch directory with what the archives of one instruction bring to `place`.

    place: a real path of the base, without symbolic links
    top: a descriptor of the scratch directory; the archives are unpacked there one over the other
    """

    def __init__(self, base: Base, place: str, check: Callable[[], None]):
        self._base = base
        self._place = place
        self._check = check
        self._name = f"add-{time.monotonic_ns()}"
        os.mkdir(self._name, 0o755, dir_fd=base.scratch)
        self.top = os.open(self._name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=base.scratch)

    def __enter__(self) -> "Tree":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.top)
        remove_tree(self._base.scratch, self._name)

    def unpack(self, directory: int, name: str) -> None:
        """Unpack one more archive. Raises Invalid, SystemFailure."""
        fd, _ = open_file(directory, name)
        with os.fdopen(fd, "rb") as file:
            merged.within(
                self._base.layer_root,
                self._base.layers,
                lambda root: _unpack(root, self._place, self.top, file, self._check),
            )


def _unpack(root: int, place: str, top: int, file: io.BufferedReader, check: Callable[[], None]) -> None:
    below = -1
    # Where the base has no directory at this place, or has something else there (with --link), nothing lies below.
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        below = open_beneath(root, place or ".", extract.DIRECTORY)
    try:
        with contextlib.closing(_Over(top, below)) as into:
            into.every(tar.TarReader(io.BufferedReader(Unpacked(file), _BUFFER)), check)
    except Invalid as error:
        raise Invalid(f"{_FAILED}{error}") from error
    finally:
        if below >= 0:
            os.close(below)


class Members(extract.Extraction):
    """Unpacks an archive for a build. outside: of what a member is whose path leads out, which is refused"""

    what, outside = "archive", "destination"

    def __init__(self, root: int):
        super().__init__(root)
        self._holes = 0

    def every(self, reader: tar.TarReader, check: Callable[[], object] = lambda: None) -> None:
        """Make all members. check: called before each. Raises EngineErrors."""
        for entry in reader:
            check()
            try:
                self.add(entry, reader)
            except OSError as error:
                raise extract.failure(entry.name, error) from error
        self.settle_directories()

    def add(self, entry: tar.Entry, reader: tar.TarReader) -> None:
        """Make one member of the archive; none may change the directory that it is unpacked into."""
        parts = self.parts_of(entry.name)
        self.check(entry)
        if entry.fragments is not None:
            # The holes of a sparse file take no space in this directory, but a layer, a copy or a digest reads them as
            # bytes like all others.
            self._holes += entry.size - entry.stored
            check_room(self.root, self._holes)
        if parts:
            self.make(entry, parts, reader)

    def parts_of(self, name: str) -> list[str]:
        """The parts of a member's path.

        The path is cleaned first, as docker does: only one that leads out is refused.
        """
        clean = posixpath.normpath(name)
        if clean == ".." or clean.startswith("../"):
            raise Invalid(f'"{name}" is outside of the {self.outside}')
        return [part for part in clean.split("/") if part not in ("", ".")]


class _Over(Members):
    """Unpacks an archive into a tree that lies over a directory of the base.

    below: descriptor of the directory of the base, -1 for none
    """

    def __init__(self, top: int, below: int):
        super().__init__(top)
        self._below = below

    def add(self, entry: tar.Entry, reader: tar.TarReader) -> None:
        """Make one member of the archive."""
        super().add(entry, reader)
        if entry.kind != tar.FILE and self._below >= 0:
            # The member may replace a symbolic link of the base. Directories that were opened through that link are no
            # longer what their paths mean.
            self._forget_open_except(-1)

    def open_directory(self, path: str) -> int:
        """Open the directory of the tree. It is made where only the base has it, or where neither has it yet."""
        return open_beneath(self.root, self._real(path) or ".", extract.DIRECTORY, no_symlinks=True)

    def _real(self, path: str) -> str:
        """The path with its symbolic links followed. Every directory on it is made in the tree."""
        return followed(path, self._enter)

    def _enter(self, path: str) -> str | None:
        """Make sure that the directory is in the tree.

        Where a symbolic link stands at the path, return its target instead.
        """
        found, link = _seen(self.root, path)
        if found is not None:
            return link
        below, link = _seen(self._below, path) if self._below >= 0 else (None, None)
        if link is not None:
            return link
        directory, _, name = path.rpartition("/")
        parent = open_beneath(self.root, directory or ".", extract.DIRECTORY, no_symlinks=True)
        try:
            os.mkdir(name, 0o755, dir_fd=parent)
            fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
            try:
                if below is not None:
                    os.fchown(fd, below.st_uid, below.st_gid)
                os.fchmod(fd, stat.S_IMODE(below.st_mode) if below is not None else 0o755)
            finally:
                os.close(fd)
        finally:
            os.close(parent)
        return None


def _seen(root: int, path: str) -> tuple[os.stat_result | None, str | None]:
    """What stands at the path, no link followed: its status, and its target if it is a link; (None, None) for nothing.

    Raises NotADirectoryError where it is neither a directory nor a link.
    """
    directory, _, name = path.rpartition("/")
    try:
        parent = open_beneath(root, directory or ".", extract.DIRECTORY, no_symlinks=True)
    except OSError as error:
        # A directory above this path may be a link or a file in the base, where a directory of the archive hides it.
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            raise
        return None, None
    try:
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            return found, os.readlink(name, dir_fd=parent)
    except FileNotFoundError:
        return None, None
    finally:
        os.close(parent)
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    return found, None
