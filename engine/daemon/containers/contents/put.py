"""Unpack an untrusted tar archive into a directory of a container, for PUT /containers/{id}/archive.

Runs in the thread of `rootfs.visit`, after `archive` has found the directory. `tar.extract` makes the members. This
module reads a member's name in docker's way and finds its parent directories. They are looked up beneath the
container's root, whatever a program in the container puts in their place meanwhile.
"""

import errno
import io
import os
import posixpath
import stat
import time
from typing import Protocol

from engine.daemon.containers.contents.rootfs import View
from engine.daemon.tar import extract
from engine.daemon.tar import reader as tar
from engine.daemon.tar.compression import Unpacked
from engine.errors import Invalid, SystemFailure
from engine.kernel import filecaps
from engine.kernel.beneath import open_beneath

_BUFFER = 256 * 1024
_REMOVAL_SECONDS = 60


class Source(Protocol):
    """Where an archive is read from: the body of a request, or a file."""

    def read(self, count: int, /) -> bytes:
        """At most `count` bytes; none at the end."""


def unpack(seen: View, fd: int, place: str, source: Source, keep_kinds: bool, owner: tuple[int, int] | None) -> None:
    """Unpack into the directory `fd` of the view, whose path is `place`. Raises SystemFailure."""
    into = _Into(seen, fd, place, keep_kinds, owner)
    try:
        reader = tar.TarReader(io.BufferedReader(Unpacked(source), _BUFFER))
        for entry in reader:
            seen.check()
            try:
                into.add(entry, reader)
            except OSError as error:
                raise SystemFailure(str(extract.failure(entry.name, error))) from error
        into.settle_directories()
    except Invalid as error:
        # The request was valid and its archive was not: dockerd answers this with a 500.
        raise SystemFailure(str(error)) from error
    finally:
        into.close()


class _Into(extract.Extraction):
    """An extraction into a tree that is in use.

    A symbolic link in the archive may name any target, since none is followed out of the root. dockerd refuses a link
    that leads out of the directory, so its `cp` fails for trees that have such links.
    """

    what = "archive"

    def __init__(self, seen: View, fd: int, place: str, keep_kinds: bool, owner: tuple[int, int] | None):
        super().__init__(fd)
        self._container_root = seen.root
        self._check = seen.check
        self._removing_until = 0.0
        self._place = place
        self._keep_kinds = keep_kinds
        self._owner = owner
        self._ids = seen.ids
        self._mountinfo = seen.mountinfo

    def add(self, entry: tar.Entry, reader: tar.TarReader) -> None:
        """Make the file of one member of the archive."""
        parts = self.parts_of(entry.name)
        if self._owner is not None:
            entry.uid, entry.gid = self._owner
        self.check(entry)
        if self._ids is not None:
            entry.uid, entry.gid = self._ids.outside(entry.uid, entry.gid)
            if filecaps.NAME in entry.attributes:
                entry.attributes[filecaps.NAME] = filecaps.outside(entry.attributes[filecaps.NAME], self._ids)
        if not parts:
            if entry.kind == tar.DIRECTORY and entry.name.startswith("/"):
                self.attend_directory(entry, "", self.root, ".")
            return
        if entry.kind == tar.LINK and _leads_out(posixpath.normpath(entry.link)):
            target = posixpath.normpath(posixpath.join(self._place, entry.link))
            raise Invalid(f'invalid hardlink "{target}" -> "{entry.link}"')
        if self._keep_kinds:
            self._check_kind(entry, parts)
        self.make(entry, parts, reader)

    def parts_of(self, name: str) -> list[str]:
        """The parts of a name as docker reads it: cleaned first, so that only a name that leads out is Invalid."""
        clean = posixpath.normpath(name)
        if _leads_out(clean):
            raise Invalid(f'"{clean}" is outside of "{self._place}"')
        return [part for part in clean.split("/") if part not in ("", ".")]

    def open_directory(self, path: str) -> int:
        """Open a directory. A symbolic link on the way is followed anywhere in the container's root, never further."""
        try:
            return open_beneath(self.root, path, extract.DIRECTORY, no_symlinks=True)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
        return open_beneath(self._container_root, f"{self._place}/{path}", extract.DIRECTORY)

    def remove(self, parent: int, name: str) -> None:
        """Remove in bounded time (60 s), as a program in the container can make files as fast as they are removed.

        A tree in which something is mounted stays whole (EBUSY).
        """
        if _is_mounted_in(os.path.join(os.readlink(f"/proc/self/fd/{parent}"), name), self._mountinfo):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        self._removing_until = time.monotonic() + _REMOVAL_SECONDS
        super().remove(parent, name)

    def check_removal(self) -> None:
        """End a removal that takes too long (EBUSY), or whose container has ended."""
        self._check()
        if time.monotonic() > self._removing_until:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    def _check_kind(self, entry: tar.Entry, parts: list[str]) -> None:
        path = posixpath.join(self._place, *parts)
        try:
            parent = self.open_directory("/".join(parts[:-1]) or ".")
        except (FileNotFoundError, NotADirectoryError):
            return
        try:
            there = stat.S_ISDIR(os.stat(parts[-1], dir_fd=parent, follow_symlinks=False).st_mode)
        except FileNotFoundError:
            return
        finally:
            os.close(parent)
        if there and entry.kind != tar.DIRECTORY:
            raise SystemFailure(f'cannot overwrite directory "{path}" with non-directory "{self._place}"')
        if not there and entry.kind == tar.DIRECTORY:
            raise SystemFailure(f'cannot overwrite non-directory "{path}" with directory "{self._place}"')


def _is_mounted_in(path: str, mountinfo: bytes) -> bool:
    """Whether something is mounted at the path or below it, by the text of a mountinfo."""
    top = os.fsencode(path)
    for character in b"\\ \t\n":
        top = top.replace(bytes([character]), b"\\%03o" % character)
    points = (line.split(b" ", 5)[4] for line in mountinfo.splitlines())
    return any(point == top or point.startswith(top + b"/") for point in points)


def _leads_out(clean: str) -> bool:
    return clean == ".." or clean.startswith("../")
