"""RUN --mount: turns the mounts that a Dockerfile asks for into the container's, and removes leftover mount points.

Runs on the thread that builds. What is mounted is no part of the layer, and neither are the mount points that were made
for it. A bind mount that may be written to shows a copy, which is removed with the step, so the sources are never
changed.
"""

import contextlib
import errno
import os
import posixpath
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from engine.daemon.build import directories, giving
from engine.daemon.build.context import Context
from engine.daemon.build.copying import prepare
from engine.daemon.build.copying.request import Base, Request
from engine.daemon.build.graph.work import Giver
from engine.daemon.build.state import State
from engine.daemon.dockerfile import commands
from engine.daemon.images.image import Image
from engine.daemon.images.layers import merged, storage
from engine.daemon.jsontext import Object
from engine.daemon.parts import ContainerParts
from engine.daemon.tar.space import check_space
from engine.daemon.tar.trees import remove_tree
from engine.dataclass import dataclass, replace
from engine.errors import Invalid, NotFound, SystemFailure
from engine.kernel.beneath import open_beneath

_PLACE = os.O_PATH | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_CHUNK = 8 * 1024 * 1024
_NO_CLIENT = "the classic builder cannot ask the client for it: build with `docker buildx`"


class Build(Protocol):
    """The part of `building.Build` that mounts need."""

    engine: ContainerParts
    context: Context
    number: int
    giver: Giver | None

    def check(self) -> None: ...

    def source(self, name: str) -> Image | None: ...


@dataclass(frozen=True, slots=True)
class Wanted:
    """One mount of a step, resolved before the cache is asked.

    target: absolute; image: the image that the files come from, None for the context
    digest: of the files that a bind mount shows of the context, else empty
    """

    mount: commands.Mount
    target: str
    image: Image | None = None
    digest: str = ""

    def decides(self) -> list[object]:
        """The parts of the mount that decide the step's outcome; the contents of a cache mount never do."""
        mount = self.mount
        where = [mount.type, self.target, mount.source, mount.readonly]
        if mount.type == "bind":
            return [*where, self.image.id if self.image else "", self.digest]
        return [*where, mount.id] if mount.type == "cache" else where


def wanted(build: Build, state: State, mount: commands.Mount) -> Wanted | None:
    """The mount with its source found; None for a secret or ssh mount that is not required, where no client gives any.

    Raises Invalid, NotFound.
    """
    given = mount.type in ("secret", "ssh")
    if given and build.giver is None:
        if mount.required:
            name = mount.id or posixpath.basename(mount.source or mount.target) or mount.type
            raise Invalid(f"{mount.type} {name} is required, and {_NO_CLIENT}")
        return None
    if given:
        mount = replace(mount, target=giving.target_of(mount))
    if not mount.target:
        raise Invalid(f"invalid mount type {mount.type}: target is required")
    target = posixpath.normpath(posixpath.join(state.config.get("WorkingDir") or "/", mount.target))
    target = "/" + target.lstrip("/")
    if target == "/":
        raise Invalid(f"invalid mount target {mount.target}: it is the root")
    if given or mount.type == "tmpfs":
        return Wanted(mount, target)
    image = build.source(mount.from_) if mount.from_ else None
    if mount.from_ and image is None:
        if mount.type == "cache":  # FROM scratch is empty, and so is a new cache
            return Wanted(replace(mount, from_="", source=""), target)
        raise Invalid(f"nothing can be mounted from {mount.from_}: it is empty")
    if mount.type == "cache" or image is not None:
        return Wanted(mount, target, image)
    return Wanted(mount, target, None, _digest(build, mount))


def _digest(build: Build, mount: commands.Mount) -> str:
    """The digest of the files that a bind mount shows of the context. It is COPY's digest, so times do not count."""
    request = Request((mount.source or ".",), "/", keep_owners=True, shown="RUN --mount", check=build.check)
    base = Base((), build.engine.images.layer_root, build.context.scratch)
    return prepare.prepare(build.context.root, request, base).digest


@contextlib.contextmanager
def mounted(build: Build, asked: tuple[Wanted, ...]) -> Iterator[list[Object]]:
    """The mounts in the form of HostConfig.Mounts. When the context ends, copies are removed and locks released."""
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(_KINDS[each.mount.type](build, each)) for each in asked]
        yield [mount for mount in made if mount is not None]


@contextlib.contextmanager
def _tmpfs(_build: Build, wanted: Wanted) -> Iterator[Object]:
    options = {"SizeBytes": wanted.mount.size} if wanted.mount.size else {}
    yield {"Type": "tmpfs", "Target": wanted.target, "TmpfsOptions": options}


@contextlib.contextmanager
def _cache(build: Build, wanted: Wanted) -> Iterator[Object]:
    mount = wanted.mount

    def fill(sink: int) -> None:
        if wanted.image is not None:
            _copied(build, wanted.image, mount.source, sink)

    name = mount.id or wanted.target
    owner = (mount.uid or 0, mount.gid or 0, 0o755 if mount.mode is None else mount.mode)
    with directories.taken(build.engine, name, mount.sharing or "shared", owner, fill, build.check) as path:
        yield {"Type": "bind", "Source": path, "Target": wanted.target, "ReadOnly": mount.readonly}


@contextlib.contextmanager
def _bind(build: Build, wanted: Wanted) -> Iterator[Object]:
    mount, image = wanted.mount, wanted.image
    if mount.readonly and image is not None:
        subpath = mount.source.strip("/")
        shown: Object = {"Type": "image", "Source": image.id, "Target": wanted.target, "ReadOnly": True}
        yield {**shown, "ImageOptions": {"Subpath": subpath}} if subpath not in ("", ".") else shown
    elif mount.readonly:
        source = _opened(build.context.root, mount.source)
        try:
            yield _bound(os.readlink(f"/proc/self/fd/{source}"), wanted)
        finally:
            os.close(source)
    else:
        with _scratch(build) as (sink, path):
            name = _copied(build, image, mount.source, sink)
            yield _bound(os.path.join(path, name) if name else path, wanted)


def _bound(path: str, wanted: Wanted) -> Object:
    return {"Type": "bind", "Source": path, "Target": wanted.target, "ReadOnly": wanted.mount.readonly}


def _opened(root: int, source: str) -> int:
    try:
        return open_beneath(root, source or "/", _PLACE)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(f"failed to find the mount's source {source}: not found") from error
    except OSError as error:
        raise SystemFailure(f"failed to open the mount's source {source}: {error.strerror}") from error


@contextlib.contextmanager
def _scratch(build: Build) -> Iterator[tuple[int, str]]:
    """An empty directory in the build's scratch directory: its descriptor and its path."""
    above = build.context.scratch
    name = f"mount-{build.number}-{len(os.listdir(above))}"
    os.mkdir(name, 0o755, dir_fd=above)
    sink = os.open(name, _DIRECTORY, dir_fd=above)
    try:
        yield sink, os.readlink(f"/proc/self/fd/{sink}")
    finally:
        os.close(sink)
        remove_tree(above, name)


def _copied(build: Build, image: Image | None, source: str, sink: int) -> str:
    """Copy what is at `source` into the directory `sink`.

    Returns the name of a single file, or empty where the contents of a directory were copied.
    """

    def check() -> None:
        build.check()
        check_space(sink)

    def copy(root: int) -> str:
        found = _opened(root, source)
        try:
            if stat.S_ISDIR(os.fstat(found).st_mode):
                inner = os.open(".", _DIRECTORY, dir_fd=found)
                try:
                    storage.copy_tree(inner, sink, check)
                finally:
                    os.close(inner)
                return ""
            return _copy_file(found, sink, posixpath.basename(source.rstrip("/")), check)
        finally:
            os.close(found)

    if image is None:
        return copy(build.context.root)
    return merged.within(build.engine.images.layer_root, image.layers, copy)


def _copy_file(found: int, sink: int, name: str, check: Callable[[], None]) -> str:
    status = os.fstat(found)
    if not stat.S_ISREG(status.st_mode):
        raise Invalid(f"the mount's source {name} is neither a file nor a directory")
    old = os.open(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        new = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=sink)
        try:
            while os.sendfile(new, old, None, _CHUNK):
                check()
            os.fchown(new, status.st_uid, status.st_gid)
            os.fchmod(new, stat.S_IMODE(status.st_mode))
        finally:
            os.close(new)
    finally:
        os.close(old)
    return name


def _given(build: Build, wanted: Wanted) -> AbstractContextManager[Object | None]:
    assert build.giver is not None  # or it would not be wanted
    give = giving.secret if wanted.mount.type == "secret" else giving.agent
    return give(build.giver, build.engine.settings.exec_root, wanted.mount, wanted.target)


_KINDS: dict[str, Callable[[Build, Wanted], AbstractContextManager[Object | None]]] = {
    "tmpfs": _tmpfs,
    "cache": _cache,
    "bind": _bind,
    "secret": _given,
    "ssh": _given,
}


# The mount points that were made for mounts


def places(build: Build, state: State, targets: list[str]) -> tuple[str, ...]:
    """The paths that mounts need and the base lacks, deepest first."""

    def absent(root: int) -> set[str]:
        found: set[str] = set()
        for target in targets:
            parts = target.strip("/").split("/")
            found |= {path for path in map("/".join, _growing(parts)) if not _there(root, path)}
        return found

    made = merged.within(build.engine.images.layer_root, state.layers, absent) if targets else set()
    return tuple(sorted(made, key=lambda path: path.count("/"), reverse=True))


def _growing(parts: list[str]) -> Iterator[list[str]]:
    for count in range(1, len(parts) + 1):
        yield parts[:count]


def _there(root: int, path: str) -> bool:
    try:
        os.close(open_beneath(root, path, _PLACE | os.O_NOFOLLOW))
    except OSError:
        return False
    return True


def clear(upper: str, paths: tuple[str, ...]) -> None:
    """Remove the mount points that are still empty from a container's upper directory; one with contents stays."""
    try:
        root = os.open(upper, _DIRECTORY)
    except FileNotFoundError:
        return
    try:
        for path in paths:
            above, _, name = path.rpartition("/")
            _clear_one(root, above, name)
    finally:
        os.close(root)


def _clear_one(root: int, above: str, name: str) -> None:
    try:
        parent = open_beneath(root, above or "/", _DIRECTORY, no_symlinks=True)
    except OSError:
        # The command has put something else than a directory there, which stays in the layer.
        return
    try:
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            os.rmdir(name, dir_fd=parent)
        elif stat.S_ISREG(found.st_mode) and not found.st_size:
            os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        pass
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise SystemFailure(f"the mount point cannot be removed: {error}") from error
    finally:
        os.close(parent)
