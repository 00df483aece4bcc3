"""What a container has changed of its image's files: GET /containers/{id}/changes, and what commit makes a layer of.

Runs in the request's thread. An overlay's upper directory says what was touched, and is compared with what is below
it: a file that was opened for writing and left as it was is no change. Where images are copied, the whole root is
compared. The rules are dockerd's: size, owner, mode, device, capability and, but for directories, time (and contents,
where times may have lost their fractions); a directory with a change below it is changed too. Nothing is followed: the
container may be running.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

from engine.daemon.containers import paths
from engine.daemon.containers.record import Container
from engine.daemon.images.layers import merged
from engine.daemon.images.layers.whiteouts import OPAQUE, OPAQUE_ATTRIBUTE, WHITEOUT
from engine.daemon.tar.writer import open_file
from engine.errors import NotFound, SystemFailure

T = TypeVar("T")

MODIFIED, ADDED, DELETED = range(3)

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CAPABILITY = "security.capability"
_SECOND = 1_000_000_000
_CHUNK = 1 << 20
# Two descriptors a level, and a generator.
_DEEPEST = 300
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ESTALE})
# The places for the engine's own mounts, made at the first start where the image has none; dockerd has them in a layer
# of their own below the container's.
_ENGINES_OWN = frozenset(
    {
        "/.dockerenv",
        "/dev",
        "/dev/console",
        "/dev/mqueue",
        "/dev/pts",
        "/dev/shm",
        "/etc",
        "/etc/hostname",
        "/etc/hosts",
        "/etc/mtab",
        "/etc/resolv.conf",
        "/proc",
        "/sys",
    }
)


@dataclass(frozen=True, slots=True)
class Change:
    """One path that differs; kind is MODIFIED, ADDED or DELETED, as the API numbers them."""

    path: str
    kind: int


def changes(engine: object, container: Container) -> list[dict]:
    """A FilesystemChange for each path, directories before what is in them."""
    return compare(engine, container, lambda _, found: [{"Path": change.path, "Kind": change.kind} for change in found])


def compare(engine: object, container: Container, use: Callable[[int, Iterator[Change]], T]) -> T:
    """`use(top, changes)`: a descriptor of where the changed files are, by the same paths, and the changes, read once.

    Raises SystemFailure, and NotFound when the container is removed meanwhile.
    """
    upper = paths.of(engine.settings.data_root, engine.settings.exec_root, container.id).upper
    try:
        top = os.open(upper, _DIRECTORY)
    except FileNotFoundError:
        return use(-1, iter(()))  # it has never run
    try:
        if engine.storage == "overlayfs":
            return _use(use, top, _image(engine, container), overlay=True)
        base = engine.images.layer_root
        layers = [os.open(os.path.join(base, layer), _DIRECTORY) for layer in reversed(container.layers)]
        return _use(use, top, _Layers(layers), overlay=False)
    finally:
        os.close(top)
        if container.removed:
            raise NotFound(f"No such container: {container.id}")


def _use(use: Callable[[int, Iterator[Change]], T], top: int, lower: "_Lower | None", overlay: bool) -> T:
    with contextlib.closing(_walk(os.dup(top), lower, "", overlay, not overlay, 0)) as found:
        return use(top, found)


def _image(engine: object, container: Container) -> "_Plain | None":
    """The root of the container's image. Its mount's namespace is gone by then; it lives with the descriptor."""
    if not container.layers:
        return None
    layer_root = engine.images.layer_root
    return _Plain(merged.within(layer_root, container.layers, lambda root: os.open(".", _DIRECTORY, dir_fd=root)))


class _Lower(Protocol):
    """A directory of what is below the container's own files."""

    def names(self) -> set[str]: ...

    def stat(self, name: str) -> os.stat_result | None: ...

    def place(self, name: str) -> str: ...

    def enter(self, name: str) -> "_Lower": ...

    def close(self) -> None: ...


class _Plain:
    """A directory of a mounted overlay of the layers."""

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
    """One directory in each of the layers that have it, uppermost first, with their whiteouts as files."""

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
        """The name in each layer, down to the one that hides what is below."""
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


def _walk(upper: int, lower: _Lower | None, path: str, overlay: bool, whole: bool, depth: int) -> Iterator[Change]:
    """The changes in one directory, whose descriptor and whose lower side are closed at the end.

    overlay: whiteouts and opaque directories are obeyed
    whole: what is not in the upper directory is deleted; else it is only not touched
    """
    try:
        if depth > _DEEPEST:
            raise SystemFailure(f"the container's directories go too deep: {path[:200]}...")
        listed = set(os.listdir(upper))
        for name in sorted(listed | lower.names() if whole and lower else listed):
            before = lower.stat(name) if lower else None
            found = _stat(upper, name)
            if found is None or (overlay and _is_whiteout(found)):
                if before is not None and (whole or found is not None):
                    yield Change(f"{path}/{name}", DELETED)
                continue
            yield from _one(upper, lower, path, name, before, found, overlay, whole, depth)
    finally:
        os.close(upper)
        if lower is not None:
            lower.close()


def _one(
    upper: int,
    lower: _Lower | None,
    path: str,
    name: str,
    before: os.stat_result | None,
    found: os.stat_result,
    overlay: bool,
    whole: bool,
    depth: int,
) -> Iterator[Change]:
    """A path that is there, and what is below it."""
    shown = f"{path}/{name}"
    kind = None
    if before is None:
        if not (shown in _ENGINES_OWN and _is_bare_place(found)):
            kind = ADDED
    elif _differ(before, found) or (
        stat.S_ISREG(found.st_mode)
        and _file_differs(lower.place(name), upper, name, _looks_doubtful(before, found, overlay))
    ):
        kind = MODIFIED
    if not stat.S_ISDIR(found.st_mode):
        if kind is not None:
            yield Change(shown, kind)
        return
    try:
        fd = os.open(name, _DIRECTORY, dir_fd=upper)
    except OSError as error:
        if error.errno in _GONE:  # taken away meanwhile
            return
        raise
    inner = lower.enter(name) if before is not None and stat.S_ISDIR(before.st_mode) else None
    opaque = whole or (overlay and _is_opaque(fd))
    with contextlib.closing(_walk(fd, inner, shown, overlay, opaque, depth + 1)) as children:
        first = next(children, None)
        if kind is not None or first is not None:
            yield Change(shown, MODIFIED if kind is None else kind)
        if first is not None:
            yield first
            yield from children


def _stat(directory: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _is_whiteout(found: os.stat_result) -> bool:
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == 0


def _is_opaque(fd: int) -> bool:
    try:
        return os.getxattr(fd, OPAQUE_ATTRIBUTE) == b"y"
    except OSError as error:
        if error.errno in (errno.ENODATA, errno.ENOTSUP):
            return False
        raise


def _is_bare_place(found: os.stat_result) -> bool:
    """Whether it may be a place that was made to be mounted on."""
    return stat.S_ISDIR(found.st_mode) or (stat.S_ISREG(found.st_mode) and found.st_size == 0)


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
    """Archives have whole seconds: a moment without a fraction may have lost it there."""
    if one % _SECOND and other % _SECOND:
        return one == other
    return one // _SECOND == other // _SECOND


def _looks_doubtful(before: os.stat_result, now: os.stat_result, touched: bool) -> bool:
    """Whether two files of one size and second may differ all the same, by a fraction that an archive has lost.

    touched: the file is in an upper directory, so somebody had a reason to copy it there
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
