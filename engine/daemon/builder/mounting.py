"""The mounts of a command: turns those that a build asks for into a container's, and removes leftover mount points.

Runs on a thread that builds. What is mounted is no part of the layer, and neither are the mount points that were made
for it. A bind mount that may be written to shows a copy, which is removed with the step, so the sources are never
changed.
"""

import contextlib
import errno
import os
import posixpath
import stat
from collections.abc import Callable, Iterator, Sequence

from engine.daemon.builder import directories, giving
from engine.daemon.builder.copying import prepare
from engine.daemon.builder.copying.request import Request
from engine.daemon.builder.graph.node import Value
from engine.daemon.builder.graph.snapshot import Snapshot
from engine.daemon.builder.graph.work import Work
from engine.daemon.builder.localtree import Local
from engine.daemon.images.layers import merged, storage
from engine.daemon.jsontext import Object
from engine.daemon.tar.space import check_space
from engine.daemon.tar.trees import remove_tree
from engine.dataclass import dataclass, field, replace
from engine.errors import Invalid, NotFound, SystemFailure
from engine.kernel import reasons
from engine.kernel.beneath import open_beneath
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded where containers have user namespaces
    from engine.daemon.containers.security import remapping
else:
    remapping = late("engine.daemon.containers.security.remapping")

_PLACE = os.O_PATH | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_CHUNK = 8 * 1024 * 1024
_SECRET_MODE, _AGENT_MODE = 0o400, 0o600
_NO_CLIENT = "the classic builder cannot ask the client for it: build with `docker buildx`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One mount of a command.

    type: bind, cache, tmpfs, secret or ssh; target: absolute, empty for a secret that is a variable alone
    source: which input of the operation the files come from, None for none; local: the directory instead
    selector: path in the source; readonly; output: what the command writes there is one more output of the operation
    (or else it is dropped, or kept in a cache)
    id, sharing, uid, gid, mode, size, required: as in the Dockerfile's --mount
    env: the variable that a secret is put in, empty for none
    """

    type: str
    target: str
    source: int | None = None
    local: Local | None = None
    selector: str = ""
    readonly: bool = False
    output: bool = False
    id: str = ""
    sharing: str = "shared"
    uid: int = 0
    gid: int = 0
    mode: int | None = None
    size: int = 0
    required: bool = False
    env: str = ""

    def decides(self) -> list[Value]:
        """The parts that decide the outcome beside what is seen: every option, as a command can see each of them.

        The contents of caches, and secrets, never do.
        """
        id = self._cache_id() if self.type == "cache" else self.id
        owner: list[Value] = [self.uid, self.gid, self.mode, self.size, self.required]
        return [self.type, self.target, self.selector, self.readonly, self.output, self.env, id, *owner]

    def _cache_id(self) -> str:
        """The name of a cache as far as it decides the outcome: that of one with a name of its own does not.

        Source: buildkit, solver/llbsolver/ops/exec.go, checkShouldClearCacheOpts.
        """
        id = self.id or self.target
        usual = self.target in (id, id.partition("/")[2])  # the second has a namespace before it
        return id if usual and self.sharing == "shared" else ""

    def where(self) -> str | int | None:
        """Which directory or input the files come from."""
        return self.local.id if self.local else self.source


def seen(check: Callable[[], None], inputs: Sequence[Snapshot], mounts: Sequence[Mount]) -> list[Value]:
    """What a command sees by its mounts, as far as it decides the outcome: the files of binds and of new caches.

    Of a directory only what is mounted counts, and no times, as with COPY. Raises NotFound, SystemFailure.
    """
    found: list[Value] = []
    for mount in mounts:
        if mount.type not in ("bind", "cache"):
            continue
        if mount.local is not None:
            request = Request(
                (mount.selector or ".",),
                "/",
                keep_owners=True,
                shown="RUN --mount",
                check=check,
                remembered=mount.local.remembered,
            )
            found.append(prepare.prepare(mount.local.root, request).digest)
        elif mount.source is not None:
            found.append(inputs[mount.source].chain)
    return found


@dataclass(slots=True)
class Mounted:
    """The mounts of a command that is about to run.

    host: in the form of HostConfig.Mounts; shown: layers of the trees among them, by their source
    env: variables that are kept nowhere; agents: paths of sockets of agents
    caches: paths of the caches by their names: as with BuildKit two mounts of one are one directory, as the first says
    written: directories whose contents are outputs, each with the tree below
    """

    host: list[Object] = field(default_factory=list)
    shown: dict[str, tuple[str, ...]] = field(default_factory=dict)
    env: list[str] = field(default_factory=list)
    agents: list[str] = field(default_factory=list)
    caches: dict[str, str] = field(default_factory=dict)
    written: list[tuple[int, Snapshot]] = field(default_factory=list)


@contextlib.contextmanager
def mounted(work: Work, inputs: Sequence[Snapshot], mounts: Sequence[Mount]) -> Iterator[Mounted]:
    """The mounts of a command. When the context ends, copies are removed and locks released. Raises EngineErrors."""
    made = Mounted()
    with contextlib.ExitStack() as stack:
        for mount in mounts:
            _KINDS[mount.type](_Making(work, inputs, stack, made), mount)
        yield made


@dataclass(frozen=True, slots=True)
class _Making:
    """The mounts of one command while they are made. stack: is closed at the command's end"""

    work: Work
    inputs: Sequence[Snapshot]
    stack: contextlib.ExitStack
    made: Mounted

    def tree(self, mount: Mount) -> Snapshot:
        """The tree that the files come from, an empty one for none."""
        return Snapshot() if mount.source is None else self.inputs[mount.source]


def _tmpfs(making: _Making, mount: Mount) -> None:
    options: Object = {"Options": [["exec"]], **({"SizeBytes": mount.size} if mount.size else {})}
    making.made.host.append({"Type": "tmpfs", "Target": mount.target, "TmpfsOptions": options})


def _cache(making: _Making, mount: Mount) -> None:
    work = making.work

    def fill(sink: int) -> None:
        if mount.local is not None or mount.source is not None:
            _copied(making, mount, sink)

    # A cache that begins with the files of a tree is another one for each tree, as BuildKit has it.
    name = mount.id or mount.target
    if mount.source is not None:
        name = f"{name} {making.tree(mount).chain}".rstrip()
    owner = (mount.uid, mount.gid, 0o755 if mount.mode is None else mount.mode)
    made = making.made
    if name not in made.caches:
        with work.waiting():
            taken = directories.taken(work.engine, name, mount.sharing, owner, fill, work.check)
            made.caches[name] = making.stack.enter_context(taken)
    made.host.append(_bound(made.caches[name], mount))


def _bind(making: _Making, mount: Mount) -> None:
    tree = making.tree(mount)
    if mount.readonly and mount.local is not None:
        source = _opened(mount.local.root, mount.selector)
        making.stack.callback(os.close, source)
        making.made.host.append(_bound(os.readlink(f"/proc/self/fd/{source}"), mount))
    elif mount.readonly and tree.parts:
        subpath = mount.selector.strip("/")
        shown: Object = {"Type": "image", "Source": tree.chain, "Target": mount.target, "ReadOnly": True}
        options = {"ImageOptions": {"Subpath": subpath}} if subpath not in ("", ".") else {}
        making.made.shown[tree.chain] = tree.layers
        making.made.host.append({**shown, **options})
    else:
        sink, path = _scratch(making)
        if mount.output and mount.selector.strip("/") not in ("", "."):
            # The whole tree is the output, of which the command sees a part.
            _copied(making, replace(mount, selector=""), sink)
            inner = _opened(sink, mount.selector)
            making.stack.callback(os.close, inner)
            path = os.readlink(f"/proc/self/fd/{inner}")
        elif mount.local is not None or tree.parts or mount.selector.strip("/") not in ("", "."):
            name = _copied(making, mount, sink)
            path = os.path.join(path, name) if name else path
        making.made.host.append(_bound(path, mount))
        if mount.output:
            making.made.written.append((sink, tree))


def _bound(path: str, mount: Mount) -> Object:
    return {"Type": "bind", "Source": path, "Target": mount.target, "ReadOnly": mount.readonly}


def _opened(root: int, source: str) -> int:
    try:
        return open_beneath(root, source or "/", _PLACE)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(f"failed to find the mount's source {source}: not found") from error
    except OSError as error:
        raise SystemFailure(f"failed to open the mount's source {source}: {reasons.of(error)}") from error


def _scratch(making: _Making) -> tuple[int, str]:
    """An empty directory in the build's scratch directory, removed with the command: its descriptor and its path."""
    above = making.work.scratch
    name = f"mount-{os.urandom(8).hex()}"
    os.mkdir(name, 0o755, dir_fd=above)
    making.stack.callback(remove_tree, above, name)
    sink = os.open(name, _DIRECTORY, dir_fd=above)
    making.stack.callback(os.close, sink)
    return sink, os.readlink(f"/proc/self/fd/{sink}")


def _copied(making: _Making, mount: Mount, sink: int) -> str:
    """Copy what the mount shows into the directory `sink`.

    Returns the name of a single file, or empty where the contents of a directory were copied.
    """

    def check() -> None:
        making.work.check()
        check_space(sink)

    def copy(root: int) -> str:
        found = _opened(root, mount.selector)
        try:
            status = os.fstat(found)
            if stat.S_ISDIR(status.st_mode):
                inner = os.open(".", _DIRECTORY, dir_fd=found)
                try:
                    storage.copy_tree(inner, sink, check)
                finally:
                    os.close(inner)
                os.fchown(sink, status.st_uid, status.st_gid)
                os.fchmod(sink, stat.S_IMODE(status.st_mode))
                return ""
            return _copy_file(found, sink, posixpath.basename(mount.selector.rstrip("/")), check)
        finally:
            os.close(found)

    if mount.local is not None:
        return copy(mount.local.root)
    return merged.within(making.work.engine.images.layer_root, making.tree(mount).layers, copy)


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


def _secret(making: _Making, mount: Mount) -> None:
    work = making.work
    with work.waiting():
        data = work.giver.secret(mount.id) if work.giver is not None else None
    if data is None:
        if mount.required:
            raise Invalid(f"secret {mount.id}: not found" if work.giver is not None else _without_client(mount))
        return
    if mount.env:
        making.made.env.append(giving.variable(mount.env, mount.id, data))
    if mount.target:
        mode = _SECRET_MODE if mount.mode is None else mount.mode
        path = making.stack.enter_context(
            giving.secret(work.engine.settings.exec_root, mount.id, data, *_owner(making, mount), mode)
        )
        making.made.host.append({"Type": "bind", "Source": path, "Target": mount.target, "ReadOnly": True})


def _agent(making: _Making, mount: Mount) -> None:
    work = making.work
    path = None
    if work.giver is not None:
        mode = _AGENT_MODE if mount.mode is None else mount.mode
        path = making.stack.enter_context(
            giving.agent(work.giver, work.engine.settings.exec_root, mount.id, *_owner(making, mount), mode)
        )
    if path is not None:
        making.made.host.append({"Type": "bind", "Source": path, "Target": mount.target})
        making.made.agents.append(mount.target)
    elif mount.required:
        known = work.giver is not None
        raise Invalid(f"unset ssh forward key {mount.id}" if known else _without_client(mount))


def _owner(making: _Making, mount: Mount) -> tuple[int, int]:
    """The owner, on the host, of a file below the exec root. Raises Invalid for one that containers do not have."""
    asked = making.work.engine.settings.userns_remap
    return remapping.ids(asked).outside(mount.uid, mount.gid) if asked else (mount.uid, mount.gid)


def _without_client(mount: Mount) -> str:
    return f"{mount.type} {mount.id} is required, and {_NO_CLIENT}"


_KINDS: dict[str, Callable[[_Making, Mount], None]] = {
    "tmpfs": _tmpfs,
    "cache": _cache,
    "bind": _bind,
    "secret": _secret,
    "ssh": _agent,
}


# The mount points that were made for mounts


def places(layer_root: str, layers: Sequence[str], targets: Sequence[str]) -> tuple[str, ...]:
    """The paths that mounts need and the tree of these layers lacks, deepest first."""

    def absent(root: int) -> set[str]:
        found: set[str] = set()
        for target in targets:
            parts = target.strip("/").split("/")
            found |= {path for path in map("/".join, _growing(parts)) if not _there(root, path)}
        return found

    made = merged.within(layer_root, layers, absent) if targets else set()
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
            raise SystemFailure(f"the mount point cannot be removed: {reasons.whole(error)}") from error
    finally:
        os.close(parent)
