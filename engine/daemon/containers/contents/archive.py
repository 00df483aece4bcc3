"""Answer HEAD, GET and PUT /containers/{id}/archive, which copy files out of and into a container.

Runs in the request's thread, and in the thread of `rootfs.visit`. The client chooses the path, the container's programs
make the tree, and the archive is untrusted: every file is opened beneath the container's root, and the disk alone
limits how much is copied. A path is read in docker's way (what a trailing `/` or `/.` means, how members are named).
"""

import contextlib
import errno
import functools
import os
import posixpath
import stat
from collections.abc import Callable, Iterator
from typing import BinaryIO

from engine.daemon.clock import rfc3339
from engine.daemon.containers.announce import announce
from engine.daemon.containers.contents import put as unpacking
from engine.daemon.containers.contents import rootfs
from engine.daemon.containers.contents.put import Source
from engine.daemon.containers.contents.rootfs import View
from engine.daemon.containers.record import Container
from engine.daemon.jsontext import Object
from engine.daemon.parts import MountParts
from engine.daemon.tar import writer as tarwriter
from engine.daemon.tar.space import NoSpace
from engine.dataclass import dataclass
from engine.errors import Conflict, Invalid, NotFound, SystemFailure
from engine.kernel.beneath import followed, open_beneath
from engine.sandbox import users
from engine.sandbox.mounts import words

_PLACE = os.O_PATH | os.O_CLOEXEC
_BUFFER = 256 * 1024
_ATTEMPTS = 3
_EPOCH = "1970-01-01T00:00:00Z"
# Go's os.FileMode has bits of its own for set-user-ID, set-group-ID and sticky, which POSIX puts beside the
# permissions.
_MODE_BITS = ((stat.S_ISUID, 1 << 23), (stat.S_ISGID, 1 << 22), (stat.S_ISVTX, 1 << 20))
_MODE_KINDS = {
    stat.S_IFDIR: 1 << 31,
    stat.S_IFLNK: 1 << 27,
    stat.S_IFBLK: 1 << 26,
    stat.S_IFCHR: 1 << 26 | 1 << 21,
    stat.S_IFIFO: 1 << 25,
    stat.S_IFSOCK: 1 << 24,
}


@dataclass(frozen=True, slots=True)
class AskedCopy:
    """The parameters of a PUT archive request.

    path: the directory to unpack into; keep_kinds: the query's noOverwriteDirNonDir, which forbids that a directory
        replaces another file or the reverse; own: the query's copyUIDGID, which gives every file to the container's
        User
    """

    path: str
    keep_kinds: bool = False
    own: bool = False


Begin = Callable[[Object], Callable[[tarwriter.Chunk], None]]


def status(engine: MountParts, container: Container, reference: str, path: str) -> Object:
    """The ContainerPathStat of a path. reference: the client's name for the container. Raises NotFound."""

    def work(seen: View) -> Object:
        fd = _open_last(seen.root, path)
        try:
            return _shown(seen.root, path, os.fstat(fd))
        finally:
            os.close(fd)

    with _told(reference, path):
        return rootfs.visit(engine, container, work)


def send(engine: MountParts, container: Container, reference: str, path: str, begin: Begin) -> None:
    """Send the file or directory at the path as a tar archive.

    begin: called once, with the ContainerPathStat, when it is certain that an archive will follow; the function that it
        returns takes the archive's bytes. Raises NotFound, SystemFailure.
    """
    whole = keep_end(_cleaned(path), path)

    def work(seen: View) -> None:
        fd = _open_last(seen.root, whole)
        try:
            found = os.fstat(fd)
            if stat.S_ISREG(found.st_mode) and found.st_dev in seen.closed:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            shown = _shown(seen.root, whole, found)
            _pack(seen, fd, whole, found, lambda: _announced(engine, container, begin(shown)))
        finally:
            os.close(fd)

    with _told(reference, path):
        rootfs.visit(engine, container, work)


def _announced(
    engine: MountParts, container: Container, write: Callable[[tarwriter.Chunk], None]
) -> Callable[[tarwriter.Chunk], None]:
    announce(engine, container, "archive-path")
    return write


def _pack(
    seen: View, fd: int, path: str, found: os.stat_result, begin: Callable[[], Callable[[tarwriter.Chunk], None]]
) -> None:
    packer = tarwriter.Packer(seen.closed, seen.shown_as, seen.attributes_as)
    if stat.S_ISDIR(found.st_mode):
        top = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=fd)
        # Members of the root are named `/bin`, members of a directory `etc/passwd`, members of `/etc/.` `./passwd`.
        base = _base(path)
        shown = f"{base}/" if base != "/" else "/"
        chunks = packer.tree(top, shown, shown)
    else:
        above, _, name = path.rstrip("/").rpartition("/")
        top = open_beneath(seen.root, above or "/", _PLACE | os.O_DIRECTORY)
        chunks = packer.one(top, name, name)
    try:
        write = begin()
        for chunk in chunks:
            write(chunk)
        seen.check()
        write(packer.end())
    except OSError as error:
        raise SystemFailure(f"failed to read from the container: {words(error)}") from error
    finally:
        os.close(top)


def receive(engine: MountParts, container: Container, reference: str, asked: AskedCopy, body: Source) -> None:
    """Unpack the (compressed) tar `body` into a directory of the container.

    Raises NotFound; Invalid for a place where nothing can be unpacked; SystemFailure for a malformed archive; Conflict
    for a container that starts and ends all the time.
    """
    kept: BinaryIO | None = None
    with _told(reference, asked.path):
        for _ in range(_ATTEMPTS):
            # A write to a stopped container holds `container.operation`. So the body is read into a file before,
            # without any lock: a client that sends slowly must not keep the container from being started.
            if kept is None and not container.snapshot().alive:
                kept = _kept(engine, body)
            try:
                work = functools.partial(_receive, container, asked, kept or body, kept is not None)
                rootfs.visit(engine, container, work, writes=True)
            except _Stopped:
                continue
            finally:
                if kept is not None:
                    kept.close()
            announce(engine, container, "extract-to-dir")
            return
    raise Conflict(f"container {container.id} starts and ends too often to be written to")


class _Stopped(Exception):
    """The container has ended before the first byte of the body was read."""


def _kept(engine: MountParts, body: Source) -> BinaryIO:
    """Read the whole body into a file without a name (O_TMPFILE) on the data root's disk, and return that file."""
    place = os.path.join(engine.settings.data_root, "tmp")
    fd = os.open(place, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        while data := body.read(_BUFFER):
            left = memoryview(data)
            while left:
                left = left[os.write(fd, left) :]
        os.lseek(fd, 0, os.SEEK_SET)
        return os.fdopen(fd, "rb")
    except OSError as error:
        os.close(fd)
        raise NoSpace(f"cannot store the request body: {words(error)}") from error
    except BaseException:
        os.close(fd)
        raise


def _receive(container: Container, asked: AskedCopy, source: Source, kept: bool, seen: View) -> None:
    if not (kept or seen.live):
        raise _Stopped
    place = resolve(seen.root, _cleaned(asked.path), whole=True)
    fd = open_beneath(seen.root, place, _PLACE)
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            asked_for = keep_end(place, asked.path)
            if asked_for != place:  # the kernel looks for a directory there
                raise SystemFailure(f"lstat {asked_for}: not a directory")
            raise Invalid("extraction point is not a directory")
        _check_writable(container, place)
        user = container.config["User"]
        owner = users.identify(seen.root, user, ()) if asked.own and user else None
        unpacking.unpack(seen, fd, place, source, asked.keep_kinds, (owner.uid, owner.gid) if owner else None)
    finally:
        os.close(fd)


def _check_writable(container: Container, place: str) -> None:
    """Raise Invalid as docker does: for a read-only volume, and for a read-only root outside of the volumes."""
    for mount in sorted(container.mounts, key=lambda mount: len(mount["Destination"]), reverse=True):
        if place == mount["Destination"] or place.startswith(mount["Destination"].rstrip("/") + "/"):
            if not mount["RW"]:
                raise Invalid("mounted volume is marked read-only")
            return
    if container.host_config["ReadonlyRootfs"]:
        raise Invalid("container rootfs is marked read-only")


# Paths


@contextlib.contextmanager
def _told(reference: str, path: str) -> Iterator[None]:
    """Turn the errors that a path causes into docker's errors, in dockerd's words."""
    if "\0" in path:
        raise SystemFailure(f"lstat {path}: invalid argument")
    try:
        yield
    except FileNotFoundError as error:
        raise NotFound(f"Could not find the file {path} in container {reference}") from error
    except OSError as error:
        raise SystemFailure(f"lstat {path}: {words(error)}") from error


def _cleaned(path: str) -> str:
    """The path, absolute, and without `.`, `..` and double slashes."""
    return "/" + posixpath.normpath("/" + path).lstrip("/")


def keep_end(clean: str, original: str) -> str:
    """The cleaned path with the `/.` or the `/` that `original` ended in, which means the contents of the directory."""
    if _base(original) == "." and _base(clean) != ".":
        clean = clean.rstrip("/") + "/."
    if original.endswith("/") and not clean.endswith("/"):
        clean += "/"
    return clean


def _base(path: str) -> str:
    """The last part of a path, as Go's filepath.Base returns it."""
    if not path:
        return "."
    return path.rstrip("/").rpartition("/")[2] or "/"


def _open_last(root: int, path: str) -> int:
    """An O_PATH descriptor of the file at the path. A symbolic link is followed only when a slash ends the path."""
    follow = path.endswith("/")
    return open_beneath(root, path or ".", _PLACE | (0 if follow else os.O_NOFOLLOW))


def _shown(root: int, path: str, found: os.stat_result) -> Object:
    target = ""
    if stat.S_ISLNK(found.st_mode):
        target = resolve(root, path)
    return {
        "name": _base(path),
        "size": found.st_size,
        "mode": go_mode(found.st_mode),
        "mtime": rfc3339(found.st_mtime_ns) if found.st_mtime_ns else _EPOCH,
        "linkTarget": target,
    }


def go_mode(mode: int) -> int:
    """The bits of Go's os.FileMode for a POSIX mode."""
    shown = mode & 0o777 | _MODE_KINDS.get(stat.S_IFMT(mode), 0)
    for bit, go in _MODE_BITS:
        if mode & bit:
            shown |= go
    return shown


def resolve(root: int, path: str, whole: bool = False) -> str:
    """The path, absolute, with every symbolic link followed inside the root.

    A part that does not exist stays as it is named. whole: every part must exist. Raises OSError; with `whole`,
    FileNotFoundError for a missing part.
    """

    def link_at(place: str) -> str | None:
        try:
            fd = open_beneath(root, place, _PLACE | os.O_NOFOLLOW)
        except (FileNotFoundError, NotADirectoryError):
            if whole:
                raise
            return None
        try:
            return os.readlink("", dir_fd=fd) if stat.S_ISLNK(os.fstat(fd).st_mode) else None
        finally:
            os.close(fd)

    return "/" + followed(path, link_at)
