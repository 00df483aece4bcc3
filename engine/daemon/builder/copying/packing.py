"""Packs the layer of a COPY or an ADD as a tar: the copied files at their destination, and the directories above them.

Runs in the build's thread; it looks into the base through `merged`, which may use a separate thread. dockerd's rules
decide which directories are made and who owns them. For a file, all new directories belong to the owner that --chown
names; for a directory, only the last one does.
"""

import contextlib
import os
import posixpath
import stat
import time
from collections.abc import Iterator

from engine.daemon.builder.copying import archives, owners, permissions, places, sources
from engine.daemon.builder.copying.places import Place
from engine.daemon.builder.copying.request import Base, Request
from engine.daemon.builder.copying.sources import Source
from engine.daemon.images.layers import merged
from engine.daemon.tar.writer import Chunk, Packer
from engine.dataclass import dataclass
from engine.errors import Invalid, SystemFailure
from engine.kernel.beneath import open_beneath
from engine.sandbox.mounts import words

_DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_DIRECTORY_MODE = 0o40755
_INLINE_MODE = 0o100644
_ROOT = (0, 0)


@dataclass(frozen=True, slots=True)
class _Target:
    """The destination in the base, and the owner that --chown names (None without --chown)."""

    place: Place
    owner: tuple[int, int] | None


def chunks(root: int, request: Request, base: Base) -> Iterator[Chunk]:
    """The chunks of the uncompressed tar. Raises Invalid, SystemFailure in docker's words."""
    try:
        target = merged.within(base.layer_root, base.layers, lambda top: _look(top, request))
        yield from _Layer(root, request, base, target).chunks()
    except OSError as error:
        raise SystemFailure(f"failed to copy files: {words(error)}") from error


def _look(top: int, request: Request) -> _Target:
    where = request.destination
    if not where.startswith("/"):
        where = posixpath.join("/", request.workdir, where)
    # The path is cleaned before any link is followed, as in docker.
    place = places.destination(top, posixpath.normpath(where), follow=not request.link)
    owner = (owners.numbers(request.chown) or owners.look_up(top, request.chown)) if request.chown else None
    return _Target(place, owner)


class _Layer:
    """Packs one layer."""

    def __init__(self, root: int, request: Request, base: Base, target: _Target):
        self._root = root
        self._request = request
        self._base = base
        self._place = target.place
        # The owner of the files and of new directories; None: files keep their owners (COPY --from).
        self._owner = target.owner or (None if request.keep_owners else _ROOT)
        self._mode = permissions.parse(request.chmod) if request.chmod else None
        self._packer = Packer(shown_as=self._shown_as)
        self._made: set[str] = set()
        self._stack = contextlib.ExitStack()
        self._tree: archives.Tree | None = None
        self._unsent = False
        self._now = int(time.time())
        self._is_directory = self._place.is_directory or request.destination.endswith("/") or request.parents

    def chunks(self) -> Iterator[Chunk]:
        """All chunks of the tar, the end mark included."""
        with self._stack:
            parent = _Parent()
            self._stack.callback(parent.close)
            for source in sources.find(self._root, self._request):
                # Hard links are kept among the files of one source, and not across sources, as in docker's copies.
                self._packer.unlink()
                if not source.is_directory and self._is_unpacked(source, parent):
                    self._archive(source, parent)
                    continue
                yield from self._unpacked()
                if not source.is_directory:
                    yield from self._file(source, parent)
                elif source.name != "." and self._request.parents:
                    yield from self._kept(source, parent)
                else:
                    yield from self._contents(source)
            yield from self._unpacked()
        for name, data in self._request.inline:
            self._inline(name, data)
        yield self._packer.end()

    def _shown_as(self, found: os.stat_result) -> os.stat_result:
        mode = found.st_mode
        if self._mode is not None and not stat.S_ISLNK(mode):
            mode = self._mode(mode)
        return _changed(found, mode, self._owner or (found.st_uid, found.st_gid))

    # Kinds of sources

    def _contents(self, source: Source) -> Iterator[Chunk]:
        """Add a directory's contents to the destination. Mode and owner of the directory itself are not copied."""
        if not self._place.is_directory and self._place.found is not None:
            raise _refused(f"failed to copy directory: mkdir /{self._place.path}: not a directory")
        self._lead(self._place.path, _ROOT, last=self._owner or _ROOT)
        for member in sources.contents(source, self._request):
            self._request.check()
            yield from self._packer.one(member.parent, member.name, self._at(member.path))

    def _kept(self, source: Source, parent: "_Parent") -> Iterator[Chunk]:
        """Add a directory itself with its contents, as --parents wants it."""
        yield from self._file(source, parent)
        for member in sources.contents(source, self._request):
            self._request.check()
            yield from self._packer.one(member.parent, member.name, self._at(f"{source.name}/{member.path}"))

    def _file(self, source: Source, parent: "_Parent") -> Iterator[Chunk]:
        shown = self._name(source.name)
        for name, path in source.above:
            if self._at(name) not in self._made:
                self._made.add(self._at(name))
                directory, base = parent.of(source.root, path)
                yield from self._packer.one(directory, base, self._at(name))
        directory, base = parent.of(source.root, source.path)
        for chunk in self._packer.one(directory, base, shown):
            self._request.check()
            yield chunk

    def _inline(self, name: str, data: bytes) -> None:
        found = self._shown_as(_plain(_INLINE_MODE, _ROOT, self._now, len(data)))
        self._packer.blank(self._name(name), found, data)

    def _is_unpacked(self, source: Source, parent: "_Parent") -> bool:
        wanted = self._request.unpack_fetched if source.fetched else self._request.unpack
        is_file = stat.S_ISREG(source.found.st_mode)
        return wanted and is_file and archives.is_archive(*parent.of(source.root, source.path))

    def _archive(self, source: Source, parent: "_Parent") -> None:
        """Unpack an archive. Its members keep their modes and their owners."""
        if not self._place.is_directory and self._place.found is not None:
            raise _refused(f"mkdir /{self._place.path}: not a directory")
        self._lead(self._place.path, _ROOT)
        if self._tree is None:
            self._tree = self._stack.enter_context(archives.Tree(self._base, self._place.path, self._request.check))
        self._tree.unpack(*parent.of(source.root, source.path))
        self._unsent = True

    def _unpacked(self) -> Iterator[Chunk]:
        """Pack what the archives so far have unpacked, unless it is in the layer already."""
        if self._tree is not None and self._unsent:
            self._unsent = False
            yield from self._packer.flushed()
            # This packer is separate, so that no hard link joins the archives' files and other files of the layer.
            packer = Packer()
            yield from packer.contents(self._tree.top, f"{self._place.path}/" if self._place.path else "")
            yield from packer.flushed()

    # Places

    def _at(self, path: str) -> str:
        return f"{self._place.path}/{path}" if self._place.path else path

    def _name(self, name: str) -> str:
        """The path of a file in the layer. Adds the directories above it to the layer first."""
        owner = self._owner or _ROOT
        if self._is_directory:
            if not self._place.is_directory and self._place.found is not None:
                raise _refused(f"failed to create new directory: mkdir /{self._place.path}: not a directory")
            self._lead(self._place.path, owner)
            return self._at(name)
        self._lead(posixpath.dirname(self._place.path), owner)
        return self._place.path

    def _lead(self, path: str, owner: tuple[int, int], last: tuple[int, int] | None = None) -> None:
        """Add the directories down to `path`: those of the base as they are, new ones owned by `owner`.

        last: the owner of `path` itself, if it is new; with `last`, the mode of --chmod holds for `path` too
        """
        for name, found in self._place.above:
            if len(name) > len(path):
                return
            if name in self._made:
                continue
            self._made.add(name)
            if found is None:
                found = _plain(_DIRECTORY_MODE, owner, self._now)
                if last is not None and name == path:
                    mode = self._mode(_DIRECTORY_MODE) if self._mode is not None else _DIRECTORY_MODE
                    found = _plain(mode, last, self._now)
            self._packer.blank(name, found)


class _Parent:
    """The open directory of the file that is copied now, kept open for the next file of the same directory."""

    def __init__(self) -> None:
        self._key: tuple[int, str] | None = None
        self._fd = -1

    def of(self, root: int, path: str) -> tuple[int, str]:
        """An open directory, good until the next call, and the file's name in it. Raises OSError."""
        directory, _, name = path.rpartition("/")
        if self._key != (root, directory):
            self.close()
            self._fd = open_beneath(root, directory or ".", _DIRECTORY, no_symlinks=True)
            self._key = (root, directory)
        return self._fd, name

    def close(self) -> None:
        """Close the directory, if one is open."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._key = -1, None


def _refused(text: str) -> Exception:
    return Invalid(f"failed to copy files: {text}")


def _plain(mode: int, owner: tuple[int, int], seconds: int, size: int = 0) -> os.stat_result:
    return os.stat_result((mode, 0, 0, 1, *owner, size, seconds, seconds, seconds))


def _changed(found: os.stat_result, mode: int, owner: tuple[int, int]) -> os.stat_result:
    if mode == found.st_mode and owner == (found.st_uid, found.st_gid):
        return found
    values = (mode, found.st_ino, found.st_dev, found.st_nlink, *owner, found.st_size)
    times = (found.st_atime, found.st_mtime, found.st_ctime)
    return os.stat_result((*values, *map(int, times)), {"st_rdev": found.st_rdev, "st_mtime": found.st_mtime})
