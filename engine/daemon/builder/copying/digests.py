"""Digests of what COPY and ADD copy, over names, contents, kinds, modes, owners, attributes, link targets, never times.

Runs in the build's thread. Files are read through one buffer, so a large file needs no more memory. Two trees have the
same digest only if a copy of the one is a copy of the other: every part of a record is preceded by its length.
"""

import hashlib
import os
import stat
from collections.abc import Iterable
from typing import Protocol

from engine.daemon.builder.copying import sources
from engine.daemon.builder.copying.request import Request
from engine.daemon.builder.copying.sources import Source
from engine.daemon.tar.writer import attributes, open_file
from engine.kernel.beneath import open_beneath

_BUFFER = 1024 * 1024
_DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


class _Hash(Protocol):
    """The method of a hashlib object that is used here."""

    def update(self, data: bytes, /) -> None: ...


class Digester:
    """Digests the sources of one request."""

    def __init__(self, request: Request):
        self._request = request
        self._remembered = request.remembered
        self._buffer = memoryview(bytearray(_BUFFER))
        # (device, inode) of a file with several names → the first of them. The names that one source copies stay names
        # of one file.
        self._links: dict[tuple[int, int], bytes] = {}

    def source(self, source: Source) -> str:
        """The digest of one source: `file:HASH` or `dir:HASH`. Raises OSError."""
        self._links.clear()
        total = hashlib.sha256()
        self._field(total, b"fetched" if source.fetched else b"", os.fsencode(source.name))
        for shown, path in source.above:
            self._at(total, source.root, path, shown)
        if not source.is_directory:
            self._at(total, source.root, source.path, source.name)
            return f"file:{total.hexdigest()}"
        if self._request.parents:
            # Without --parents the directory itself is not copied, only its contents are.
            self._record(total, source.found, source.name, {}, b"")
        for member in sources.contents(source, self._request):
            self._request.check()
            self._member(total, member.parent, member.name, member.path)
        return f"dir:{total.hexdigest()}"

    def members(self, name: str, members: Iterable[tuple[int, str, str]]) -> str:
        """The digest of files in their order. name: of all; members: open directory, name there, and path of each"""
        self._links.clear()
        total = hashlib.sha256()
        self._field(total, os.fsencode(name))
        for parent, last, path in members:
            self._request.check()
            self._member(total, parent, last, path)
        return total.hexdigest()

    def inline(self, name: str, data: bytes) -> str:
        """`file:HASH` of a file whose contents are a here-document in the Dockerfile."""
        total = hashlib.sha256()
        self._field(total, b"inline", os.fsencode(name), data)
        return f"file:{total.hexdigest()}"

    def _at(self, total: _Hash, root: int, path: str, shown: str) -> None:
        directory, _, name = path.rpartition("/")
        parent = open_beneath(root, directory or ".", _DIRECTORY, no_symlinks=True)
        try:
            self._member(total, parent, name, shown)
        finally:
            os.close(parent)

    def _member(self, total: _Hash, parent: int, name: str, shown: str) -> None:
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if stat.S_ISREG(found.st_mode):
            known = self._remembered.find(found) if self._remembered is not None and found.st_nlink == 1 else None
            if known is None:
                self._file(total, parent, name, shown)
            else:
                self._record(total, found, shown, {}, os.fsencode(shown))
                total.update(known)
        elif stat.S_ISDIR(found.st_mode):
            fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
            try:
                self._record(total, found, shown, attributes(fd) or {}, b"")
            finally:
                os.close(fd)
        else:
            link = os.fsencode(os.readlink(name, dir_fd=parent)) if stat.S_ISLNK(found.st_mode) else b""
            self._record(total, found, shown, {}, link)

    def _file(self, total: _Hash, parent: int, name: str, shown: str) -> None:
        fd, found = open_file(parent, name)
        try:
            first = os.fsencode(shown)
            if found.st_nlink > 1:
                first = self._links.setdefault((found.st_dev, found.st_ino), first)
            attached = attributes(fd) or {}
            self._record(total, found, shown, attached, first)
            if first == os.fsencode(shown):
                contents = hashlib.sha256()
                while count := os.readv(fd, [self._buffer]):
                    contents.update(self._buffer[:count])
                    self._request.check()
                total.update(contents.digest())
                if self._remembered is not None and not attached and _same(found, os.fstat(fd)):
                    self._remembered.learn(found, contents.digest())
        finally:
            os.close(fd)

    def _record(self, total: _Hash, found: os.stat_result, shown: str, attached: dict[str, bytes], link: bytes) -> None:
        mode = found.st_mode if not stat.S_ISLNK(found.st_mode) else stat.S_IFLNK
        keeps = self._request.keep_owners and not self._request.chown
        owner = b"%d:%d" % (found.st_uid, found.st_gid) if keeps else b""
        device = b"%d" % found.st_rdev if stat.S_ISBLK(mode) or stat.S_ISCHR(mode) else b""
        self._field(total, os.fsencode(shown), b"%o" % mode, owner, device, link, b"%d" % len(attached))
        for key, value in sorted(attached.items()):
            self._field(total, os.fsencode(key), value)

    @staticmethod
    def _field(total: _Hash, *parts: bytes) -> None:
        total.update(b"".join(b"%d:%b," % (len(part), part) for part in parts))


def _same(before: os.stat_result, after: os.stat_result) -> bool:
    return (before.st_size, before.st_mtime_ns, before.st_ctime_ns) == (
        after.st_size,
        after.st_mtime_ns,
        after.st_ctime_ns,
    )


def combined(digests: list[str]) -> str:
    """`multi:HASH`, the one digest of several sources that docker's history shows."""
    total = hashlib.sha256()
    total.update(",".join(digests).encode())
    return f"multi:{total.hexdigest()}"
