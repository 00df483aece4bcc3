"""Compare a container's files with its image's, for GET /containers/{id}/changes and for the layer that a commit makes.

Runs in the request's thread. With overlayfs the upper directory lists the files that were touched, and each is compared
with the file below it: a file that was opened for writing and left unchanged is no change. Where images are copied, the
whole root is compared. The rules are dockerd's. Size, owner, mode, device number, capability and, but for directories,
time are compared; contents are compared where a time may have lost its fraction of a second. A directory with a change
below it is changed too. No symbolic link is followed, since the container may be running.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Collection, Generator, Iterator
from typing import Protocol, TypeVar

from engine.daemon.containers import paths
from engine.daemon.containers.contents import initlayer
from engine.daemon.containers.record import Container
from engine.daemon.images.layers import merged
from engine.daemon.images.layers.whiteouts import OPAQUE, WHITEOUT
from engine.daemon.jsontext import Object
from engine.daemon.measured import timed
from engine.daemon.parts import ContentParts
from engine.daemon.tar.writer import open_file
from engine.dataclass import dataclass
from engine.errors import NotFound, SystemFailure

T = TypeVar("T")

MODIFIED, ADDED, DELETED = range(3)

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CAPABILITY = "security.capability"
_SECOND = 1_000_000_000
_CHUNK = 1 << 20
# The deepest level of directories, which takes two descriptors a level.
_DEEPEST = 300
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ESTALE})


@dataclass(frozen=True, slots=True)
class Change:
    """One path that differs; kind is MODIFIED, ADDED or DELETED, with the numbers of the API."""

    path: str
    kind: int


@timed("container_actions", "changes")
def changes(engine: ContentParts, container: Container) -> list[Object]:
    """The FilesystemChange of each path that differs. A directory comes before the files in it."""
    return compare(engine, container, lambda _, found: [{"Path": change.path, "Kind": change.kind} for change in found])


def compare(
    engine: ContentParts,
    container: Container,
    use: Callable[[int, Iterator[Change]], T],
    own: frozenset[str] = initlayer.PATHS,
) -> T:
    """Return `use(top, changes)`, which may read the changes once.

    Raises SystemFailure, and NotFound when the container is removed meanwhile.
    top: a descriptor of the directory that holds the changed files at the same paths; -1 if the container never ran
    own: the places of `initlayer` that are no change while they are as the engine has made them
    """
    upper = paths.of(engine.settings.data_root, engine.settings.exec_root, container.id).upper
    try:
        top = os.open(upper, _DIRECTORY)
    except FileNotFoundError:
        _check_there(container)
        return use(-1, iter(()))  # it has never run
    try:
        if engine.storage == "overlayfs":
            return _use(use, top, _image(engine, container), engine.images.opaque, own)
        base = engine.images.layer_root
        layers = [os.open(os.path.join(base, layer), _DIRECTORY) for layer in reversed(container.layers)]
        return _use(use, top, _Layers(layers), "", own)
    finally:
        os.close(top)
        _check_there(container)


def between(below: int, top: int, use: Callable[[int, Iterator[Change]], T]) -> T:
    """Return `use(top, changes)` for the differences of two whole trees. Raises SystemFailure.

    below, top: descriptors of the roots of the tree as it was, and as it is
    """
    lower = _Plain(os.open(".", _DIRECTORY, dir_fd=below))
    with contextlib.closing(_walk(os.open(".", _DIRECTORY, dir_fd=top), lower, "", True, frozenset())) as found:
        return use(top, found)


def above(below: int | None, upper: int, opaque: str, use: Callable[[int, Iterator[Change]], T]) -> T:
    """Return `use(upper, changes)` for what an overlay's upper directory has made of a tree. Raises SystemFailure.

    below: descriptor of the root of the tree, None for an empty one, over which nothing was mounted
    opaque: the attribute of the overlay's opaque directories
    """
    lower = _Plain(os.open(".", _DIRECTORY, dir_fd=below)) if below is not None else None
    top = os.open(".", _DIRECTORY, dir_fd=upper)
    with contextlib.closing(_walk(top, lower, "" if lower is None else opaque, False, frozenset())) as found:
        return use(upper, found)


def _check_there(container: Container) -> None:
    # The remove verb sets `removed` before it deletes the container's first file.
    if container.removed:
        raise NotFound(f"No such container: {container.id}")


def _use(
    use: Callable[[int, Iterator[Change]], T], top: int, lower: "_Lower | None", overlay: str, own: frozenset[str]
) -> T:
    with contextlib.closing(_walk(os.dup(top), lower, overlay, not overlay, own)) as found:
        return use(top, found)


def _image(engine: ContentParts, container: Container) -> "_Plain | None":
    """The root of the container's image.

    The mount namespace in which it was mounted is gone when this returns; the descriptor keeps the mount alive.
    """
    if not container.layers:
        return None
    layer_root = engine.images.layer_root
    return _Plain(merged.within(layer_root, container.layers, lambda root: os.open(".", _DIRECTORY, dir_fd=root)))


class _Lower(Protocol):
    """A directory below the container's own files: one directory of its image."""

    def names(self) -> set[str]: ...

    def stat(self, name: str) -> os.stat_result | None: ...

    def place(self, name: str) -> str: ...

    def enter(self, name: str) -> "_Lower": ...

    def close(self) -> None: ...


class _Plain:
    """A directory of the image in a mounted overlay of the image's layers."""

    def __init__(self, fd: int):
        self._fd = fd

    def names(self) -> set[str]:
        return set(os.listdir(self._fd))

    def stat(self, name: str) -> os.stat_result | None:
        return _stat(self._fd, name)

    def place(self, name: str) -> str:
        return f"/proc/self/fd/{self._fd}/{name}"

    def enter(self, name: str) -> "_Plain":
        return _Plain(os.open(name, _DIRECTORY, dir_fd=self._fd))

    def close(self) -> None:
        os.close(self._fd)


class _Layers:
    """A directory of the image as it stands in each layer that has it, uppermost first, with whiteouts as files."""

    def __init__(self, fds: list[int]):
        self._fds = fds

    def names(self) -> set[str]:
        shown: set[str] = set()
        hidden: set[str] = set()
        for fd in self._fds:
            listed = set(os.listdir(fd))
            whiteouts = {name for name in listed if name.startswith(WHITEOUT)}
            shown |= listed - whiteouts - hidden
            hidden |= {name.removeprefix(WHITEOUT) for name in whiteouts}
            if OPAQUE in listed:
                break
        return shown

    def _found(self, name: str) -> Iterator[tuple[int, os.stat_result]]:
        """The file of that name in each layer, uppermost first, down to the layer that hides those below."""
        for fd in self._fds:
            found = _stat(fd, name)
            if found is not None:
                yield fd, found
            if _stat(fd, WHITEOUT + name) is not None or _stat(fd, OPAQUE) is not None:
                return

    def stat(self, name: str) -> os.stat_result | None:
        return next((found for _, found in self._found(name)), None)

    def place(self, name: str) -> str:
        fd = next(fd for fd, _ in self._found(name))
        return f"/proc/self/fd/{fd}/{name}"

    def enter(self, name: str) -> "_Layers":
        fds = []
        for fd, found in self._found(name):
            if not stat.S_ISDIR(found.st_mode):
                break
            fds.append(os.open(name, _DIRECTORY, dir_fd=fd))
        return _Layers(fds)

    def close(self) -> None:
        for fd in self._fds:
            os.close(fd)


class _Level:
    """A directory that is being walked: its descriptor, the same directory of the image, and the names still to come.

    whole: a name that is missing in the upper directory was deleted; else it was only not touched
    untold: the directory becomes a change as soon as there is a change below it, and is then reported before that
        change
    """

    __slots__ = ("lower", "names", "path", "untold", "upper", "whole")

    def __init__(self, upper: int, lower: _Lower | None, path: str, whole: bool, untold: bool):
        self.upper = upper
        self.lower = lower
        self.path = path
        self.whole = whole
        self.untold = untold
        self.names: Iterator[str] = iter(())

    def begin(self, made: Collection[str]) -> None:
        """List the names to walk through. made: those of files that were made with the root, and may be gone"""
        listed = {*os.listdir(self.upper), *made}
        self.names = iter(sorted(listed | self.lower.names() if self.whole and self.lower else listed))

    def close(self) -> None:
        """Close the directory's descriptor and the image's side."""
        os.close(self.upper)
        if self.lower is not None:
            self.lower.close()


def _walk(
    upper: int, lower: _Lower | None, overlay: str, whole: bool, own: frozenset[str] = initlayer.PATHS
) -> Generator[Change, None, None]:
    """The changes below a directory, whose descriptor and whose side of the image are closed at the end.

    This is one loop over a list of levels, not a generator within a generator: each generator takes a part of the
    thread's stack, and a program in the container decides how deep its directories go.
    overlay: whiteouts are obeyed, and directories with this attribute are opaque; empty for neither
    whole: as in `_Level`
    own: those of `initlayer` that are no change while they are as the engine has made them
    """
    levels = [_Level(upper, lower, "", whole, False)]
    made = initlayer.NAMES if own and initlayer.is_filled(upper) else {}
    try:
        levels[-1].begin(made.get("", ()))
        while levels:
            level = levels[-1]
            name = next(level.names, None)
            if name is None:
                levels.pop().close()
                continue
            shown = f"{level.path}/{name}"
            before = level.lower.stat(name) if level.lower else None
            found = _stat(level.upper, name)
            inner = None
            if found is None or (overlay and _is_whiteout(found)):
                gone = before is not None and (level.whole or found is not None)
                kind = DELETED if gone or (before is None and name in made.get(level.path, ())) else None
            else:
                kind = _kind(level, name, shown, before, found, overlay, own)
                if stat.S_ISDIR(found.st_mode):
                    inner = _entered(level, name, shown, before, overlay, kind is None)
                    if inner is None:  # taken away meanwhile
                        continue
                    levels.append(inner)
            if kind is not None:
                for above in levels:
                    if above.untold:
                        above.untold = False
                        yield Change(above.path, MODIFIED)
                yield Change(shown, kind)
            if inner is not None:
                if len(levels) > _DEEPEST:
                    raise SystemFailure(f"the container's directories are nested too deeply: {shown[:200]}...")
                inner.begin(made.get(shown, ()))
    finally:
        for level in levels:
            level.close()


def _kind(
    level: _Level,
    name: str,
    shown: str,
    before: os.stat_result | None,
    found: os.stat_result,
    overlay: str,
    own: frozenset[str],
) -> int | None:
    """The kind of change of a path that exists; None where it has not changed."""
    if before is not None and level.lower is not None:
        if not _differ(before, found) and not (
            stat.S_ISREG(found.st_mode)
            and _file_differs(
                level.lower.place(name), level.upper, name, _looks_doubtful(before, found, bool(overlay) or not own)
            )
        ):
            return None
        if shown not in own or stat.S_ISDIR(before.st_mode):
            return MODIFIED
    elif shown not in own:
        return ADDED
    return None if initlayer.is_as_made(shown, level.upper, name, found) else MODIFIED


def _entered(
    level: _Level, name: str, shown: str, before: os.stat_result | None, overlay: str, untold: bool
) -> _Level | None:
    """The level for the directory of that name; None when the directory does not exist any more."""
    try:
        fd = os.open(name, _DIRECTORY, dir_fd=level.upper)
    except OSError as error:
        if error.errno in _GONE:
            return None
        raise
    inner = _Level(fd, None, shown, level.whole, untold)
    try:
        if level.lower is not None and before is not None and stat.S_ISDIR(before.st_mode):
            inner.lower = level.lower.enter(name)
        inner.whole = level.whole or bool(overlay and _is_opaque(fd, overlay))
    except BaseException:
        inner.close()
        raise
    return inner


def _stat(directory: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _is_whiteout(found: os.stat_result) -> bool:
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == 0


def _is_opaque(fd: int, attribute: str) -> bool:
    try:
        return os.getxattr(fd, attribute) == b"y"
    except OSError as error:
        if error.errno in (errno.ENODATA, errno.ENOTSUP):
            return False
        raise


def _differ(before: os.stat_result, now: os.stat_result) -> bool:
    if (before.st_mode, before.st_uid, before.st_gid, before.st_rdev) != (
        now.st_mode,
        now.st_uid,
        now.st_gid,
        now.st_rdev,
    ):
        return True
    if stat.S_ISDIR(now.st_mode):
        return False
    return before.st_size != now.st_size or not _same_moment(before.st_mtime_ns, now.st_mtime_ns)


def _same_moment(one: int, other: int) -> bool:
    """Whether two times (ns) are equal. A time without a fraction may have lost it in an archive's whole seconds."""
    if one % _SECOND and other % _SECOND:
        return one == other
    return one // _SECOND == other // _SECOND


def _looks_doubtful(before: os.stat_result, now: os.stat_result, touched: bool) -> bool:
    """Whether two files of the same size and second may differ all the same, by a fraction that an archive has lost.

    touched: the file is in an upper directory, so some program had a reason to have it copied there; or the two trees
        have nothing to do with each other
    """
    if before.st_mtime_ns != now.st_mtime_ns:
        return True
    return touched and not now.st_mtime_ns % _SECOND


def _file_differs(old: str, upper: int, name: str, contents: bool) -> bool:
    if _capability(old) != _capability(f"/proc/self/fd/{upper}/{name}"):
        return True
    return contents and not _same_contents(old, upper, name)


def _same_contents(old: str, upper: int, name: str) -> bool:
    with contextlib.ExitStack() as stack:
        before = os.open(old, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        stack.callback(os.close, before)
        try:
            now, _ = open_file(upper, name)
        except OSError as error:
            if error.errno in _GONE:
                return False
            raise
        stack.callback(os.close, now)
        while True:
            chunk = os.read(before, _CHUNK)
            if chunk != os.read(now, _CHUNK):
                return False
            if not chunk:
                return True


def _capability(place: str) -> bytes | None:
    try:
        return os.getxattr(place, _CAPABILITY, follow_symlinks=False)
    except OSError as error:
        if error.errno in (errno.ENODATA, errno.ENOTSUP) or error.errno in _GONE:
            return None
        raise
