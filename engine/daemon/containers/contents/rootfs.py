"""Open the root of a container, running or stopped, for as long as some work of the daemon needs its files.

Runs in the daemon's request threads, and in short-lived threads of its own. unshare(2) and setns(2) change the mount
namespace of one thread alone. So such a thread can enter a container's namespace, or mount a stopped container's root,
and nothing is ever mounted on the host. A thread that is inside a container makes its two system calls and ends: any
file that it loaded or looked up there would be the container's.

A running container is entered by its mount namespace; the process is checked by a pidfd and its start time. The view is
a copy of the mounts there, so the container's end takes away the namespace and no file of a reader. The files of one
that has a kernel of its own (`security.apart`) are read as those of a stopped container, and not written. For a reader
of a stopped container an overlay is mounted whose upper directory is in a scratch tmpfs, with the container's own upper
directory as the uppermost *lower* one: so a reader, however slow, disturbs no start and changes nothing. For a writer
the real overlay is mounted and `container.operation` is held for that time, as one upper directory in two overlays is
undefined.
"""

import contextlib
import errno
import functools
import os
import select
import stat
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

from engine.daemon.containers import files, paths
from engine.daemon.containers.mounts import borrowing, preparing
from engine.daemon.containers.record import Container, State
from engine.daemon.containers.security import copied, runids, specify
from engine.daemon.parts import MountParts
from engine.dataclass import dataclass, replace
from engine.errors import Conflict, NotFound, SystemFailure
from engine.kernel import filecaps, reasons, syscalls, userns
from engine.kernel.idmaps import Ids
from engine.late import TYPE_CHECKING, late
from engine.sandbox import mounts, sources
from engine.sandbox.spec import Mount, Root

if TYPE_CHECKING:  # loaded for containers of other runtimes
    from engine.daemon.containers.security import apart
else:
    apart = late("engine.daemon.containers.security.apart")

T = TypeVar("T")

_CLONE_FS = 0x200
_ATTEMPTS = 5
_END_SECONDS = 10
_PLACE = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
# The file systems whose contents the kernel makes. None of it is part of a container's own files, and some of it has no
# end.
_KERNELS_OWN = frozenset(
    b"proc sysfs cgroup cgroup2 devpts mqueue debugfs tracefs securityfs bpf pstore configfs fusectl efivarfs "
    b"binfmt_misc hugetlbfs autofs rpc_pipefs selinuxfs".split()
)


@dataclass(frozen=True, slots=True)
class View:
    """The view of a container's files that some work gets.

    root: an O_PATH descriptor of the root, valid until the work returns; live: the container runs
    closed: numbers of the devices whose contents are the kernel's (proc, sysfs, ...) or the engine's (/dev)
    mountinfo: the kernel's list of what is mounted in the tree (proc_pid_mountinfo(5)), for work that writes
    ids: those of the container's user namespace; None where files show the owners that the container sees
    check: raises NotFound once the container is removed, since its files are then deleted; for work that writes, also
        Conflict when another run has begun, since that run has another view of the same files
    """

    root: int
    live: bool
    closed: frozenset[int]
    check: Callable[[], None]
    ids: Ids | None = None
    mountinfo: bytes = b""

    def shown_as(self, found: os.stat_result) -> os.stat_result:
        """The status of a file with the owner that the container sees."""
        if self.ids is None:
            return found
        values = tuple(found)[:10]
        owner = self.ids.inside(found.st_uid, found.st_gid)
        return os.stat_result(
            (*values[:4], *owner, *values[6:]), {"st_rdev": found.st_rdev, "st_mtime": found.st_mtime}
        )

    def attributes_as(self, found: dict[str, bytes] | None) -> dict[str, bytes] | None:
        """The extended attributes of a file as the container sees them."""
        if self.ids is None or found is None or filecaps.NAME not in found:
            return found
        shown = filecaps.inside(found[filecaps.NAME], self.ids)
        others = {name: value for name, value in found.items() if name != filecaps.NAME}
        return {**others, filecaps.NAME: shown} if shown else others


def visit(
    engine: MountParts, container: Container, work: Callable[[View], T], *, writes: bool = False, mounted: bool = True
) -> T:
    """Return `work(view)`, called with a view of the container's root.

    `work` may run in another thread. Raises what `work` raises, NotFound when the container is gone, SystemFailure, and
    Conflict for a container that starts and ends all the time.
    writes: what is written stays (else it may be lost, or writing may be impossible)
    mounted: show also what is mounted in the container (volumes, binds, /etc/hosts); else its root's file system alone
    """
    for _ in range(_ATTEMPTS):
        state = container.settled()
        below = state.alive and bool(apart.of(engine, container))
        if below and writes:
            apart.refuse(engine, container, "a copy into a running container")
        if state.alive and not below and (mounted or not _is_locked(state)):
            entered = _enter(state, mounted, runids.of(engine, container))
            if entered is None:
                _await_end(container, state)
                continue
            try:
                check = functools.partial(_check_run, container, state, writes)
                seen = View(entered.root, True, entered.closed, check, entered.ids, entered.mountinfo)
                return _look(seen, work, writes)
            finally:
                os.close(entered.root)
        copied.prepare(engine, container)
        if not writes:
            with _lent(engine, container, mounted) as lent:
                return _aside(functools.partial(_read_stopped, engine, container, lent, work))
        with container.operation:
            if not container.settled().alive:
                _make_root(engine, container)
                with _lent(engine, container, mounted) as lent:
                    return _aside(functools.partial(_write_stopped, engine, container, lent, work))
    raise Conflict(f"container {container.id} starts and ends too often to be looked into")


def _lent(
    engine: MountParts, container: Container, mounted: bool
) -> contextlib.AbstractContextManager[borrowing.Lent | None]:
    """What plugins have mounted for the container, before a thread has mounts of its own; None without mounts."""
    return borrowing.meanwhile(engine, container) if mounted else contextlib.nullcontext()


# Running


def _is_locked(state: State) -> bool:
    """Whether the kernel keeps what the mounts of a running container cover from being shown.

    It does in the mount namespace of another user namespace. The files of the root's own file system are read from
    below then, as those of a stopped container.
    """
    try:
        return not userns.is_of(state.pid)
    except (FileNotFoundError, ProcessLookupError):
        return False


@dataclass(frozen=True, slots=True)
class _Entered:
    """root: a descriptor of a copy of a process's mounts; closed, ids, mountinfo: see `View`"""

    root: int
    closed: frozenset[int]
    ids: Ids | None
    mountinfo: bytes


def _look(view: View, work: Callable[[View], T], writes: bool) -> T:
    """Run `work` on a running container, whose root makes the files that are written."""
    if view.ids is None or not writes:
        return work(view)
    owner = view.ids.root

    def written() -> T:
        _, permitted, inheritable = syscalls.capget()
        syscalls.set_fs_owner(*owner)
        syscalls.capset(permitted, permitted, inheritable)  # the kernel has taken those over files away
        return work(view)

    return _aside(written)


def _enter(state: State, mounted: bool, ids: Ids | None) -> _Entered | None:
    """A copy of the mounts of a container's process; None: the process has ended.

    The copy is not taken from /proc/PID/root, since the process may have changed its own root. Without `mounted` it is
    a copy of the root's mount alone.
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
            mountinfo = file.read()
        ended = select.poll()
        ended.register(pidfd, select.POLLIN)
        if ended.poll(0):
            return None  # what was opened by the pid may have been another process's
        root = _aside(lambda: _root_of(namespace, mounted))
    except (FileNotFoundError, ProcessLookupError):
        return None
    finally:
        os.close(pidfd)
        if namespace >= 0:
            os.close(namespace)
    return _Entered(root, _closed(mountinfo), ids, mountinfo)


def _root_of(namespace: int, mounted: bool) -> int:
    """Enter the namespace and copy its root's mount. Runs in a thread of its own, which must end with this call."""
    syscalls.unshare(_CLONE_FS)  # or the kernel will not let a thread change its namespace
    syscalls.setns(namespace, syscalls.CLONE_NEWNS)
    root = os.open("/", _PLACE)
    depth = syscalls.AT_RECURSIVE if mounted else 0
    try:
        return syscalls.open_tree(root, "", syscalls.OPEN_TREE_CLONE | syscalls.AT_EMPTY_PATH | depth)
    finally:
        os.close(root)


def _closed(mountinfo: bytes) -> frozenset[int]:
    """The devices of the kernel's file systems, and of /dev, from the text of a mountinfo (proc_pid_mountinfo(5))."""
    found = set()
    for line in mountinfo.splitlines():
        fields, _, rest = line.partition(b" - ")
        parts = fields.split()
        if rest.split()[0] in _KERNELS_OWN or parts[4] == b"/dev":
            major, _, minor = parts[2].partition(b":")
            found.add(os.makedev(int(major), int(minor)))
    return frozenset(found)


def _await_end(container: Container, state: State) -> None:
    """Wait until the record knows that the process has ended; at most 10 seconds."""
    with container.changed:
        container.changed.wait_for(lambda: container.state.pid_start != state.pid_start, _END_SECONDS)


def _check_run(container: Container, state: State, writes: bool) -> None:
    _check_there(container)
    now = container.snapshot()
    if writes and now.alive and (now.pid, now.pid_start) != (state.pid, state.pid_start):
        raise Conflict(f"container {container.id} was started again while files were copied into it")


# Stopped


def _read_stopped(
    engine: MountParts, container: Container, lent: borrowing.Lent | None, work: Callable[[View], T]
) -> T:
    """Run `work` on the files of a stopped container for reading. Runs in a thread of its own."""
    where = paths.of(engine.settings.data_root, engine.settings.exec_root, container.id)
    if not os.path.isdir(where.upper):
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
            return _with_mounts(engine, container, where, root, lent, work)
        finally:
            os.close(root)


def _write_stopped(
    engine: MountParts, container: Container, lent: borrowing.Lent | None, work: Callable[[View], T]
) -> T:
    """Run `work` on the real root of a stopped container.

    Runs in a thread of its own, while the caller holds `container.operation`.
    """
    where = paths.of(engine.settings.data_root, engine.settings.exec_root, container.id)
    overlay = engine.storage == "overlayfs"
    _own_namespace()
    layers = container.layers if overlay else ()
    root = mounts.mount_root(
        Root(
            engine.images.layer_root,
            layers,
            where.upper,
            where.work if overlay else "",
            userxattr=engine.images.userxattr,
        )
    )
    try:
        return _with_mounts(engine, container, where, root, lent, work)
    finally:
        os.close(root)
        # Unmounted now, not when the kernel gets to this thread's end: the next start may follow at once.
        syscalls.umount2(where.upper, syscalls.MNT_DETACH)


def _with_mounts(
    engine: MountParts,
    container: Container,
    where: paths.Paths,
    root: int,
    lent: borrowing.Lent | None,
    work: Callable[[View], T],
) -> T:
    if lent is not None:
        sources.add_all(root, tuple(_mounts_of(engine, container, where, lent)))
    with open("/proc/thread-self/mountinfo", "rb") as file:
        mountinfo = file.read()
    # Each mount was put beneath the root by the root's descriptor, and none lies over the descriptor's own directory.
    return work(View(root, False, frozenset(), lambda: _check_there(container), mountinfo=mountinfo))


def _mounts_of(engine: MountParts, container: Container, where: paths.Paths, lent: borrowing.Lent) -> Iterator[Mount]:
    """Those of the container's mounts that have contents while it does not run, so all but a tmpfs.

    `asked` is cleared on each: that flag's checks need the namespace of a run (its /proc, the host's mounts).
    """
    asked = [mount for mount in preparing.sandbox_mounts(engine, container, lent) if mount.kind != "tmpfs"]
    targets = {mount.target for mount in asked}
    state = container.snapshot()
    # dockerd makes them at the first start, also where that fails.
    etc = files.mounted(container) if state.started_ns or state.exit_code else ()
    own = [Mount("bind", where.etc(name), f"/etc/{name}") for name in etc]
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
        raise SystemFailure(f"the directories of the container cannot be made: {reasons.whole(error)}") from error


# Namespaces


def _aside(job: Callable[[], T]) -> T:
    """Run `job` in a new thread, which ends with it, so that no other work runs in that thread's namespace.

    Returns what `job` returns, and raises what it raises.
    """
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
    """Give this thread, which must end afterwards, a mount namespace without peers: no mount reaches the host."""
    try:
        syscalls.unshare(syscalls.CLONE_NEWNS)
        mounts.leave_peers()
    except OSError as error:
        raise SystemFailure(f"no mount namespace can be made: {mounts.words(error)}") from error


@contextlib.contextmanager
def _scratch(engine: MountParts) -> Iterator[str]:
    """Give this thread a mount namespace of its own, and yield a directory in it that is gone with the namespace."""
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
        # The root of an overlay has the owner, mode and times of its uppermost directory, which is the scratch one.
        top = os.path.join(base, layers[-1])
        found = os.stat(top)
        os.chown(upper, found.st_uid, found.st_gid)
        os.chmod(upper, stat.S_IMODE(found.st_mode))
        os.utime(upper, ns=(found.st_atime_ns, found.st_mtime_ns))
    try:
        return mounts.mount_root(Root(base, layers, upper, work, userxattr=engine.images.userxattr))
    except SystemFailure as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.ENOENT:
            raise NotFound("the container's files are gone: it has been removed meanwhile") from error
        raise
