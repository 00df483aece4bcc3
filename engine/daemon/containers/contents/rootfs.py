"""A container's files, as the daemon reaches them: a descriptor of its root, for as long as some work needs it.

Runs in the daemon's request threads, and in short-lived threads of its own: unshare(2) and setns(2) change the mount
namespace of one thread alone, so such a thread can look into a container, or mount a stopped one's root, and nothing is
ever mounted on the host. A thread that is inside a container makes its two system calls and ends: whatever it loaded or
looked up there would be the container's.

A running container is entered by its mount namespace, the process checked by a pidfd and its start time, and what is
seen is a copy of the mounts there: an end takes away the namespace and no file of a reader's. Of a stopped one an
overlay is mounted whose upper directory is a scratch tmpfs, the container's own being the uppermost *lower* one: so a
reader, however slow, disturbs no start, and changes nothing. Whoever writes mounts the real one and holds
`container.operation` for that time, as one upper directory in two overlays is undefined.
"""

import contextlib
import errno
import functools
import os
import select
import stat
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from engine.daemon.containers import files, paths
from engine.daemon.containers.mounts import preparing
from engine.daemon.containers.record import Container, State
from engine.daemon.containers.security import copied, specify
from engine.daemon.parts import MountParts
from engine.errors import Conflict, NotFound, SystemFailure
from engine.kernel import syscalls
from engine.sandbox import mounts, sources
from engine.sandbox.spec import Mount, Root

T = TypeVar("T")

_CLONE_FS = 0x200
_ATTEMPTS = 5
_END_SECONDS = 10
_PLACE = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
# What the kernel shows there is no part of anybody's files, and some of it has no end.
_KERNELS_OWN = frozenset(
    b"proc sysfs cgroup cgroup2 devpts mqueue debugfs tracefs securityfs bpf pstore configfs fusectl efivarfs "
    b"binfmt_misc hugetlbfs autofs rpc_pipefs selinuxfs".split()
)


@dataclass(frozen=True, slots=True)
class View:
    """What some work gets to see.

    root: an O_PATH descriptor of the root, valid until the work returns; live: the container runs
    closed: numbers of the devices whose contents are the kernel's (proc, sysfs, ...) or the engine's (/dev)
    check: raises NotFound once the container is removed, whose files go then; and Conflict for one who writes when
        another run has begun, which has another view of the same files
    """

    root: int
    live: bool
    closed: frozenset[int]
    check: Callable[[], None]


def visit(
    engine: MountParts, container: Container, work: Callable[[View], T], *, writes: bool = False, mounted: bool = True
) -> T:
    """`work(view)` with a view of the container's root, which has more to it than the root; what that returns.

    `work` may run in another thread. Raises what `work` raises, NotFound when the container is gone, SystemFailure, and
    Conflict for one that starts and ends all the time.
    writes: what is written stays (else it may be lost, or may not be possible)
    mounted: with what is mounted in the container: volumes, binds, /etc/hosts; else its root's file system alone
    """
    for _ in range(_ATTEMPTS):
        state = container.settled()
        if state.alive:
            entered = _enter(state, mounted)
            if entered is None:
                _await_end(container, state)
                continue
            root, closed = entered
            try:
                return work(View(root, True, closed, functools.partial(_check_run, container, state, writes)))
            finally:
                os.close(root)
        copied.prepare(engine, container)
        if not writes:
            return _aside(lambda: _read_stopped(engine, container, mounted, work))
        with container.operation:
            if not container.settled().alive:
                _make_root(engine, container)
                return _aside(lambda: _write_stopped(engine, container, mounted, work))
    raise Conflict(f"container {container.id} starts and ends too often to be looked into")


# Running


def _enter(state: State, mounted: bool) -> tuple[int, frozenset[int]] | None:
    """A descriptor of a copy of the process's mounts, and the devices to keep out of; None: it has ended.

    Not of /proc/PID/root: the process may have changed its own root. Without mounts it is of the root's alone.
    """
    try:
        pidfd = os.pidfd_open(state.pid)
    except ProcessLookupError:
        return None
    namespace = -1
    try:
        if syscalls.process_start(state.pid) != state.pid_start:
            return None
        namespace = os.open(f"/proc/{state.pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        with open(f"/proc/{state.pid}/mountinfo", "rb") as file:
            closed = _closed(file.read())
        ended = select.poll()
        ended.register(pidfd, select.POLLIN)
        if ended.poll(0):
            return None  # what was opened by the number may have been somebody else's
        root = _aside(lambda: _root_of(namespace, mounted))
    except (FileNotFoundError, ProcessLookupError):
        return None
    finally:
        os.close(pidfd)
        if namespace >= 0:
            os.close(namespace)
    return root, closed


def _root_of(namespace: int, mounted: bool) -> int:
    """In a thread of its own, which must end with this."""
    syscalls.unshare(_CLONE_FS)  # or the kernel will not let a thread change its namespace
    syscalls.setns(namespace, syscalls.CLONE_NEWNS)
    root = os.open("/", _PLACE)
    depth = syscalls.AT_RECURSIVE if mounted else 0
    try:
        return syscalls.open_tree(root, "", syscalls.OPEN_TREE_CLONE | syscalls.AT_EMPTY_PATH | depth)
    finally:
        os.close(root)


def _closed(mountinfo: bytes) -> frozenset[int]:
    """The devices of what the kernel shows, and of /dev, from the text of a mountinfo (proc_pid_mountinfo(5))."""
    found = set()
    for line in mountinfo.splitlines():
        fields, _, rest = line.partition(b" - ")
        parts = fields.split()
        if rest.split()[0] in _KERNELS_OWN or parts[4] == b"/dev":
            major, _, minor = parts[2].partition(b":")
            found.add(os.makedev(int(major), int(minor)))
    return frozenset(found)


def _await_end(container: Container, state: State) -> None:
    """The process has ended and the record does not know it yet."""
    with container.changed:
        container.changed.wait_for(lambda: container.state.pid_start != state.pid_start, _END_SECONDS)


def _check_run(container: Container, state: State, writes: bool) -> None:
    _check_there(container)
    now = container.snapshot()
    if writes and now.alive and (now.pid, now.pid_start) != (state.pid, state.pid_start):
        raise Conflict(f"container {container.id} was started again while files were copied into it")


# Stopped


def _read_stopped(engine: MountParts, container: Container, mounted: bool, work: Callable[[View], T]) -> T:
    """In a thread of its own."""
    where = paths.of(engine.settings.data_root, engine.settings.exec_root, container.id)
    if engine.storage != "overlayfs":
        with container.operation:
            _make_root(engine, container)
    _check_there(container)
    with _scratch(engine) as scratch:
        if engine.storage == "overlayfs":
            own = (where.upper,) if os.path.isdir(where.upper) else ()
            root = _mount_scratch(engine, scratch, (*container.layers, *own))
        else:
            root = mounts.mount_root(Root(engine.images.layer_root, (), where.upper, ""))
        try:
            return _with_mounts(engine, container, where, root, mounted, work)
        finally:
            os.close(root)


def _write_stopped(engine: MountParts, container: Container, mounted: bool, work: Callable[[View], T]) -> T:
    """In a thread of its own, while the caller holds `container.operation`."""
    where = paths.of(engine.settings.data_root, engine.settings.exec_root, container.id)
    overlay = engine.storage == "overlayfs"
    _own_namespace()
    layers = container.layers if overlay else ()
    root = mounts.mount_root(Root(engine.images.layer_root, layers, where.upper, where.work if overlay else ""))
    try:
        return _with_mounts(engine, container, where, root, mounted, work)
    finally:
        os.close(root)
        # Now, not when the kernel gets to this thread's end: the next start may follow at once.
        syscalls.umount2(where.upper, syscalls.MNT_DETACH)


def _with_mounts(
    engine: MountParts, container: Container, where: paths.Paths, root: int, mounted: bool, work: Callable[[View], T]
) -> T:
    if mounted:
        sources.add_all(root, tuple(_mounts_of(engine, container, where)))
    # The mounts were put on "/" of the root by its descriptor, which stands below none of them.
    return work(View(root, False, frozenset(), lambda: _check_there(container)))


def _mounts_of(engine: MountParts, container: Container, where: paths.Paths) -> Iterator[Mount]:
    """What of the container's mounts is anywhere while it does not run.

    None was `asked` for here: what that is checked against belongs to a run's namespace (its /proc, the host's mounts).
    """
    asked = [mount for mount in preparing.sandbox_mounts(engine, container) if mount.kind != "tmpfs"]
    targets = {mount.target for mount in asked}
    own = [Mount("bind", where.etc(name), f"/etc/{name}") for name in files.NAMES]
    own = [mount for mount in own if mount.target not in targets and os.path.exists(mount.source)]
    for mount in sorted((*asked, *own), key=lambda mount: mount.target.count("/")):
        yield replace(mount, propagation="", asked=False)


def _check_there(container: Container) -> None:
    with container.changed:
        if container.removed or container.state.status in ("removing", "dead"):
            raise NotFound(f"No such container: {container.id}")


def _make_root(engine: MountParts, container: Container) -> None:
    """Make the root of a container that has never run. The caller holds `container.operation`."""
    _check_there(container)
    where = paths.of(engine.settings.data_root, engine.settings.exec_root, container.id)
    try:
        if not os.path.isdir(where.upper):
            specify.make_root(engine, container, where)
    except OSError as error:
        raise SystemFailure(f"the directories of the container cannot be made: {error}") from error


# Namespaces


def _aside(job: Callable[[], T]) -> T:
    """What `job` returns or raises, in a thread that ends with it: its namespace is nobody else's."""
    results: list[T] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            results.append(job())
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, name="view")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    return results[0]


def _own_namespace() -> None:
    """Leave the host's mounts to the host; for a thread that ends afterwards."""
    try:
        syscalls.unshare(syscalls.CLONE_NEWNS)
        mounts.leave_peers()
    except OSError as error:
        raise SystemFailure(f"no mount namespace can be made: {mounts.words(error)}") from error


@contextlib.contextmanager
def _scratch(engine: MountParts) -> Iterator[str]:
    """A mount namespace of this thread's own, and in it a directory that is gone with it."""
    _own_namespace()
    place = os.path.join(engine.settings.data_root, "tmp")
    try:
        syscalls.mount("tmpfs", place, "tmpfs", mounts.FLAGS["nosuid"] | mounts.FLAGS["nodev"], "mode=700,size=16m")
    except OSError as error:
        raise SystemFailure(f"mount: tmpfs: {mounts.words(error)}") from error
    try:
        yield place
    finally:
        syscalls.umount2(place, syscalls.MNT_DETACH)


def _mount_scratch(engine: MountParts, scratch: str, layers: tuple[str, ...]) -> int:
    """Mount the layers (lowest first; relative to the layer root, or absolute) for reading; the root's descriptor."""
    base = engine.images.layer_root
    upper, work = os.path.join(scratch, "upper"), os.path.join(scratch, "work")
    os.mkdir(upper, 0o755)
    os.mkdir(work, 0o700)
    if layers:
        # A root looks as its uppermost directory does, and that is the scratch one.
        top = os.path.join(base, layers[-1])
        found = os.stat(top)
        os.chown(upper, found.st_uid, found.st_gid)
        os.chmod(upper, stat.S_IMODE(found.st_mode))
        os.utime(upper, ns=(found.st_atime_ns, found.st_mtime_ns))
    try:
        return mounts.mount_root(Root(base, layers, upper, work))
    except SystemFailure as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.ENOENT:
            raise NotFound("the container's files are gone: it has been removed meanwhile") from error
        raise
