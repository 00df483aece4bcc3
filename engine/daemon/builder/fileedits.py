"""Single changes of files beneath a root that nobody else changes: directories, files, links, and their removal.

Runs on the thread that has the root. The root is of images and clients: each link on a path is followed inside the root
as if the root were "/", and what is made or removed is named relative to its open parent directory. Rules and words are
BuildKit's (solver/llbsolver/file).
"""

import errno
import os
import posixpath
import stat
from collections.abc import Callable, Iterator

from engine.daemon.builder.copying import walking
from engine.daemon.builder.copying.wildcards import Pattern
from engine.daemon.builder.copying.wildcards import is_pattern as is_pattern
from engine.daemon.tar.trees import remove_tree
from engine.dataclass import dataclass
from engine.errors import Invalid, NotFound
from engine.kernel import reasons
from engine.kernel.beneath import followed, open_beneath

_PLACE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PERMISSIONS = 0o777


@dataclass(frozen=True, slots=True)
class Attributes:
    """What a new file gets. owner: uid and gid, None: as the kernel gives it; time_ns: its time, None for now"""

    owner: tuple[int, int] | None = None
    time_ns: int | None = None


def real(root: int, path: str) -> str:
    """The path without links, relative to the root; "" is the root. A part that is missing stays as it is named.

    Raises OSError.
    """
    return followed(path, lambda place: _link_at(root, place))


def real_place(root: int, path: str) -> str:
    """The same, but that a link at the path's very end is not followed."""
    above, _, name = posixpath.normpath(f"/{path}").rpartition("/")
    return f"{real(root, above)}/{name}".strip("/")


def _link_at(root: int, place: str) -> str | None:
    try:
        found = open_beneath(root, place, _PLACE)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return os.readlink("", dir_fd=found) if stat.S_ISLNK(os.fstat(found).st_mode) else None
    finally:
        os.close(found)


def parent(root: int, path: str) -> tuple[int, str]:
    """The open directory of a path without links, and the last name of the path. Raises OSError."""
    above, _, name = path.rpartition("/")
    return open_beneath(root, above or ".", _DIRECTORY, no_symlinks=True), name


def look(root: int, path: str) -> os.stat_result | None:
    """The status of a path without links; None where nothing is. Raises OSError."""
    if not path:
        return os.fstat(root)
    try:
        above, name = parent(root, path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return os.stat(name, dir_fd=above, follow_symlinks=False)
    except FileNotFoundError:
        return None
    finally:
        os.close(above)


def make_directory(root: int, path: str, mode: int, parents: bool, given: Attributes) -> None:
    """Make a directory; one that is there stays as it is. parents: also those above it. Raises OSError."""
    whole = real(root, path)
    if parents:
        make_directories(root, whole, mode & _PERMISSIONS, given)
        return
    if whole:
        _make_one(root, whole, mode & _PERMISSIONS, given)


def make_directories(root: int, whole: str, mode: int, given: Attributes) -> list[str]:
    """Make the directories that are missing on a path without links; those that were made. Raises OSError."""
    made: list[str] = []
    parts = [part for part in whole.split("/") if part]
    for count in range(1, len(parts) + 1):
        here = "/".join(parts[:count])
        found = look(root, here)
        if found is None:
            _make_one(root, here, mode, given)
            made.append(here)
        elif not stat.S_ISDIR(found.st_mode):
            below = parts[count : count + 1]
            raise Invalid(f"{'lstat' if below else 'mkdir'} /{'/'.join((here, *below))}: not a directory")
    return made


def _make_one(root: int, whole: str, mode: int, given: Attributes) -> None:
    above, name = parent(root, whole)
    try:
        try:
            os.mkdir(name, 0o700, dir_fd=above)
        except FileExistsError:
            return
        made = os.open(name, _DIRECTORY, dir_fd=above)
        try:
            if given.owner is not None:
                os.fchown(made, *given.owner)
            os.fchmod(made, mode | (os.fstat(made).st_mode & stat.S_ISGID))  # which comes from the directory above
            if given.time_ns is not None:
                os.utime(made, ns=(given.time_ns, given.time_ns))
        finally:
            os.close(made)
    finally:
        os.close(above)


def make_file(root: int, path: str, mode: int, data: bytes, given: Attributes) -> None:
    """Make a file, in the place of another one if there is one: that is never opened. Raises OSError."""
    whole = real(root, path)
    if not whole:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    above, name = parent(root, whole)
    try:
        new = f".tmp-{os.urandom(8).hex()}"
        made = os.open(new, _CREATE, 0o600, dir_fd=above)
        try:
            with open(made, "wb") as sink:
                sink.write(data)
                sink.flush()
                if given.owner is not None:
                    os.fchown(made, *given.owner)
                os.fchmod(made, mode & _PERMISSIONS)
                if given.time_ns is not None:
                    os.utime(made, ns=(given.time_ns, given.time_ns))
            os.rename(new, name, src_dir_fd=above, dst_dir_fd=above)
        except BaseException:
            os.unlink(new, dir_fd=above)
            raise
    finally:
        os.close(above)


def make_link(root: int, target: str, path: str, given: Attributes) -> None:
    """Make a symbolic link. target: what it says, which is not looked at. Raises OSError."""
    above, name = parent(root, real(root, path))
    try:
        os.symlink(target, name, dir_fd=above)
        if given.owner is not None:
            os.chown(name, *given.owner, dir_fd=above, follow_symlinks=False)
        if given.time_ns is not None:
            os.utime(name, ns=(given.time_ns, given.time_ns), dir_fd=above, follow_symlinks=False)
    finally:
        os.close(above)


def remove(root: int, path: str, missing: bool, wildcard: bool) -> None:
    """Remove what is at a path, a directory with all that is in it. Raises OSError, NotFound, Invalid.

    missing: that nothing is there is fine; wildcard: the path is a pattern, which may match nothing
    """
    if wildcard and is_pattern(path):
        for found in list(matches(root, path, False)):
            _remove_one(root, found, missing)
        return
    _remove_one(root, path, missing)


def _remove_one(root: int, path: str, missing: bool) -> None:
    whole = real_place(root, path)
    if not whole:
        raise Invalid("rmPath: invalid empty path")
    if look(root, whole) is None:
        if not missing:
            raise NotFound(f"lstat {path}: no such file or directory")
        return
    above, name = parent(root, whole)
    try:
        drop(above, name)
    finally:
        os.close(above)


def drop(above: int, name: str) -> None:
    """Remove one entry of an open directory, a directory with all that is in it. Raises OSError."""
    try:
        os.unlink(name, dir_fd=above)
    except IsADirectoryError:
        remove_tree(above, name)


def matches(root: int, pattern: str, follow: bool) -> Iterator[str]:
    """The paths that match the pattern, in order. follow: also a link at the end of the part without wildcards

    Raises OSError.
    """
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    fixed = next((place for place, part in enumerate(parts) if is_pattern(part)), len(parts))
    base = "/".join(parts[:fixed])
    start = real(root, base) if follow else real_place(root, base) if base else ""
    wanted = Pattern("/".join(parts[fixed:]))
    found = look(root, start)
    if found is None:
        raise NotFound(f"lstat /{base}: no such file or directory")
    if not stat.S_ISDIR(found.st_mode):
        return
    top = open_beneath(root, start or ".", _DIRECTORY, no_symlinks=True)

    def choose(path: str, _is_directory: bool) -> tuple[bool, bool]:
        state = wanted.start
        for name in path.split("/"):
            state = wanted.step(state, name)
        chosen = wanted.accepts(state)
        return chosen, not chosen and bool(state)

    try:
        for member in walking.members(top, choose):
            yield f"{start}/{member.path}" if start else member.path
    finally:
        os.close(top)


def explained(what: str, path: str, act: Callable[[], None]) -> None:
    """Do it; an OSError, which the path has brought about, becomes NotFound or Invalid in words."""
    try:
        act()
    except OSError as error:
        kind = NotFound if isinstance(error, FileNotFoundError) else Invalid
        raise kind(f"{what} {path}: {reasons.of(error)}") from error
