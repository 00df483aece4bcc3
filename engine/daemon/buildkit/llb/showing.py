"""What a frontend sees of a result's files: a file's bytes, a directory's entries, and what a path is.

Works beneath a descriptor of the result's root, on the thread that asks. The files are those of images and of clients:
links are followed inside the root alone, and nothing but a regular file is opened. Answers fit one message of gRPC.
"""

import contextlib
import errno
import os
import stat

from engine.daemon.builder.copying.wildcards import Pattern
from engine.daemon.buildkit.messages.fsutil import Stat
from engine.errors import EngineError, Invalid, NotFound
from engine.kernel import reasons
from engine.kernel.beneath import followed, open_beneath

LARGEST = (16 << 20) - 4096
"""Bytes of an answer: a message of gRPC, less what stands around them."""
_MOST_ENTRIES = 100_000
_ENTRY = 64  # bytes of one in a message, beside its name
_PLACE = os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW
_READABLE = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# Go's FileMode (pkg/io/fs), in which clients read a mode.
_GO_KINDS = {
    stat.S_IFREG: 0,
    stat.S_IFDIR: 1 << 31,
    stat.S_IFLNK: 1 << 27,
    stat.S_IFBLK: 1 << 26,
    stat.S_IFCHR: 1 << 26 | 1 << 21,
    stat.S_IFIFO: 1 << 25,
    stat.S_IFSOCK: 1 << 24,
}
_GO_BITS = ((stat.S_ISUID, 1 << 23), (stat.S_ISGID, 1 << 22), (stat.S_ISVTX, 1 << 20))


def file(root: int, path: str, offset: int = 0, length: int | None = None) -> bytes:
    """The bytes of a file from `offset` on, at most `length`. Raises NotFound, Invalid."""
    if offset < 0 or (length is not None and length < 0):
        raise Invalid(f"invalid range for {path}")
    place = _opened(root, path, _PLACE & ~os.O_NOFOLLOW)
    try:
        if not stat.S_ISREG(os.fstat(place).st_mode):
            raise Invalid(f"open {path}: not a regular file")
        source = os.open(f"/proc/self/fd/{place}", _READABLE)
    finally:
        os.close(place)
    with open(source, "rb") as opened:
        opened.seek(offset)
        data = opened.read(LARGEST + 1 if length is None else min(length, LARGEST + 1))
    if len(data) > LARGEST:
        raise Invalid(f"{path} exceeds maximum allowed size of {LARGEST} bytes")
    return data


def directory(root: int, path: str, include: str = "") -> list[Stat]:
    """The entries of a directory in the order of their names. include: only names that match this pattern, if there is
    one. Raises NotFound, Invalid.
    """
    pattern = Pattern(include.strip("/")) if include else None
    found: list[Stat] = []
    size = 0
    opened = _opened(root, path, _DIRECTORY)
    try:
        with os.scandir(opened) as entries:
            for entry in entries:
                if pattern is not None and not pattern.accepts(pattern.step(pattern.start, entry.name)):
                    continue
                with contextlib.suppress(FileNotFoundError):  # a whiteout of a directory that no lower layer has
                    found.append(_told(opened, entry.name))
                    size += len(entry.name) + len(found[-1]["linkname"]) + _ENTRY
                if len(found) > _MOST_ENTRIES or size > LARGEST:
                    raise Invalid(f"{path} has more entries than one answer may name")
    finally:
        os.close(opened)
    return sorted(found, key=lambda each: each["path"])


def one(root: int, path: str) -> Stat:
    """What is at the path, whose links are followed. Raises NotFound, Invalid."""
    try:
        whole = followed(_checked(path), lambda place: _link_at(root, place))
    except OSError as error:
        raise _failure("lstat", path, error) from error
    above, _, name = whole.rpartition("/")
    parent = _opened(root, above, _DIRECTORY, path)
    try:
        return _told(parent, name) if name else {**_told(parent, "."), "path": ""}
    except OSError as error:
        raise _failure("lstat", path, error) from error
    finally:
        os.close(parent)


def _told(parent: int, name: str) -> Stat:
    found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    kind = stat.S_IFMT(found.st_mode)
    if kind == stat.S_IFCHR and not found.st_rdev:  # a whiteout, which hides nothing where no layer is below
        raise FileNotFoundError(errno.ENOENT, "no such file or directory")
    device = kind in (stat.S_IFBLK, stat.S_IFCHR)
    return {
        "path": name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),
        "mode": found.st_mode & 0o777 | _GO_KINDS[kind] | sum(go for bit, go in _GO_BITS if found.st_mode & bit),
        "uid": found.st_uid,
        "gid": found.st_gid,
        "size": found.st_size if kind in (stat.S_IFREG, stat.S_IFLNK) else 0,
        "modTime": found.st_mtime_ns,
        "linkname": _link(parent, name) if kind == stat.S_IFLNK else "",
        "devmajor": os.major(found.st_rdev) if device else 0,
        "devminor": os.minor(found.st_rdev) if device else 0,
    }


def _link(parent: int, name: str) -> str:
    return os.readlink(name, dir_fd=parent).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _link_at(root: int, place: str) -> str | None:
    """The target of a symbolic link, None for anything else, also for nothing."""
    try:
        opened = open_beneath(root, place, _PLACE)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return os.readlink("", dir_fd=opened) if stat.S_ISLNK(os.fstat(opened).st_mode) else None
    finally:
        os.close(opened)


def _opened(root: int, path: str, flags: int, asked: str | None = None) -> int:
    try:
        return open_beneath(root, _checked(path), flags)
    except OSError as error:
        raise _failure("open", path if asked is None else asked, error) from error


def _checked(path: str) -> str:
    if "\0" in path:
        raise Invalid("invalid path: it has a NUL in it")
    return path


def _failure(verb: str, path: str, error: OSError) -> EngineError:
    kind = NotFound if isinstance(error, FileNotFoundError) else Invalid
    return kind(f"{verb} {path}: {reasons.of(error)}")
